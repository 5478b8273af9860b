"""One child process of the supervisor: started with a log file, watched, and never left behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

ChildName = Literal["valkey", "model", "worker"]

_PR_SET_PDEATHSIG = 1
_TAIL_LINES = 20
_TAIL_BYTES = 8192


class Child:
    """A running child. Its standard error, and its standard output unless piped, go to its log.

    On Linux the kernel kills it when the supervisor dies, however that happens; elsewhere a child that reads standard
    input sees it end.
    """

    def __init__(
        self,
        name: ChildName,
        command: Sequence[str],
        *,
        log_dir: Path,
        environment: Mapping[str, str],
        told: bytes | None = None,
        speaks: bool = False,
    ) -> None:
        """Start it.

        Args:
            name: What it is; names its log file.
            command: Program and arguments.
            log_dir: Folder of the log; also the working directory, so that no module of the user's folder shadows ours.
            environment: All of its environment.
            told: Written to its standard input, which then ends; None keeps the input open as long as we live.
            speaks: Whether its standard output is read with `line`.
        """
        self.name: ChildName = name
        self._log = log_dir / f"{name}.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if speaks else log,
                stderr=log,
                cwd=log_dir,
                env=environment,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 - the supervisor has a single thread
            )
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)
        self._heard = b""
        if told is not None:
            self._tell(told)

    @property
    def process_number(self) -> int:
        """Its number at the operating system."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def line(self) -> str | None:
        """The first line of its standard output, once it is whole. Does not wait."""
        if self._process.stdout is not None and b"\n" not in self._heard:
            self._heard += self._process.stdout.read() or b""
        first, ending, _ = self._heard.partition(b"\n")
        return first.decode() if ending else None

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        self._process.send_signal(number)

    def reap(self) -> None:
        """Wait for a child that was killed, and close its pipes."""
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def log_tail(self) -> str:
        """The last lines of its log."""
        with self._log.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _TAIL_BYTES))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-_TAIL_LINES:])

    def _tell(self, told: bytes) -> None:
        if self._process.stdin is None:
            raise RuntimeError(f"{self.name} was started without standard input")
        try:
            self._process.stdin.write(told)
            self._process.stdin.close()
        except BrokenPipeError:  # it died at once: its exit code and its log say why
            return


def _die_with_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    supervisor = os.getpid()

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # it died between fork and prctl
            os._exit(1)

    return ask_kernel
