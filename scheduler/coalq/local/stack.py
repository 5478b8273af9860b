"""The parent's side of the embedded stack: a context in which Valkey, the model and a worker run."""

from __future__ import annotations

import queue
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from coalq.errors import CoalqError, RunFailedError, ServerError
from coalq.local.messages import EVENTS, Event, Failed, Ready, StackOptions
from coalq.local.presence import is_held
from coalq.local.valkey import find_server

_START_S = 150.0
_STOP_S = 30.0
"""Beyond the worker's drain: more than the supervisor needs to stop everything, seconds."""

_KEPT_LOGS = 10
_OLD_S = 7 * 24 * 3600.0


def log_dir_of(home: Path, local_id: str) -> Path:
    """The folder of one stack's logs, absolute."""
    return home.resolve() / "logs" / local_id


def make_log_dir(home: Path, local_id: str) -> Path:
    """Make the folder of one stack's logs, absolute; a week later they go, but for those of the ten newest stacks."""
    folder = log_dir_of(home, local_id)
    logs = folder.parent
    folder.mkdir(parents=True, exist_ok=True)
    by_age = sorted((path.stat().st_mtime, path) for path in logs.iterdir() if path.is_dir())
    for modified_at, old in by_age[:-_KEPT_LOGS]:
        if modified_at < time.time() - _OLD_S and not is_held(old):
            shutil.rmtree(old, ignore_errors=True)
    return folder


class EmbeddedStack:
    """Starts the stack on entering and stops all of it on leaving.

    A supervisor process in a session of its own owns the children, so that Ctrl-C at the terminal reaches this process
    only; when this process dies, its pipe to the supervisor closes and everything is stopped. Interrupted while
    stopping, it has everything killed at once.

    Attributes:
        ready: Where the servers are; set on entering.
    """

    ready: Ready

    def __init__(self, options: StackOptions) -> None:
        self._options = options
        self._events: queue.Queue[Event | None] = queue.Queue()
        self._end: CoalqError | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start everything.

        Raises:
            ServerError: There is no Valkey server, or a child did not start; with the end of its log.
        """
        find_server()
        try:
            self._start()
            self.ready = self._await_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def supervisor_number(self) -> int:
        """The supervisor's number at the operating system."""
        if self._process is None:
            raise RuntimeError("the embedded stack is not started")
        return self._process.pid

    def check(self) -> None:
        """Do nothing while the stack is up.

        Raises:
            ServerError: The worker refused its configuration; in its own words.
            RunFailedError: One of its processes died; with the end of its log.
        """
        if self._end is None:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return
            refusal = event.refusal if isinstance(event, Failed) else None
            self._end = ServerError(refusal) if refusal else RunFailedError(self._describe(event))
        raise self._end

    def stop(self) -> None:
        """Stop everything and wait for it; idempotent."""
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            process.wait(self._options.drain_s + _STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()  # the kernel takes its children along
            process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait(_STOP_S)
            raise

    def _start(self) -> None:
        with (self._options.log_dir / "supervisor.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "coalq.local.supervisor"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._options.log_dir,
                start_new_session=True,
            )
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the supervisor was started without pipes")
        try:
            self._process.stdin.write(self._options.model_dump_json().encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise ServerError(self._describe(None)) from error
        threading.Thread(
            target=self._listen, args=(self._process.stdout,), name="coalq-supervisor-events", daemon=True
        ).start()

    def _listen(self, lines: IO[bytes]) -> None:
        with lines:
            for line in lines:
                self._events.put(EVENTS.validate_json(line))
        self._events.put(None)

    def _await_ready(self) -> Ready:
        try:
            event = self._events.get(timeout=_START_S)
        except queue.Empty as error:
            raise ServerError(f"the embedded stack was not ready within {_START_S:.0f} s") from error
        if isinstance(event, Ready):
            return event
        raise ServerError(self._describe(event))

    def _describe(self, event: Event | None) -> str:
        if isinstance(event, Failed):
            return str(event)
        return f"the supervisor of the embedded stack ended; see {self._options.log_dir / 'supervisor.log'}"
