"""Owns the embedded stack's processes: `python -m coalq.local.supervisor`, started by `EmbeddedStack`.

Reads `StackOptions` as the first line of its standard input, tells events as lines on its standard output, and stops
everything when its input ends or on a signal. So the stack outlives neither its parent nor its supervisor:

    parent ── stdin ──> supervisor ──┬── valkey   (configured through its standard input)
       <───── events ──              ├── model    (tells its address)
                                     └── worker   (Celery)
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

from pydantic import BaseModel

from coalq.local.child import Child, ChildName
from coalq.local.messages import Failed, Ready, StackOptions
from coalq.local.model import BundledModel
from coalq.local.stop_order import StopOrder
from coalq.local.valkey import ValkeyPlace, find_server
from coalq.local.worker_command import embedded_environment, worker_command

VALKEY_START_S = 10.0
MODEL_START_S = 120.0

_POLL_S = 0.05
_PORT_TRIES = 5
_KILL_AFTER_S = 5.0
"""How long a child may take to end (a worker: after its drain) before it is killed, seconds."""


class _Stopped(Exception):  # noqa: N818 - an order, not a fault
    """The order to stop came while something was awaited."""


class _ChildFailed(Exception):  # noqa: N818 - carries an event
    """A child did not come up, or died."""

    def __init__(self, child: Child, reason: str) -> None:
        self.event = Failed(what=child.name, reason=reason, log_tail=child.log_tail(), exit_code=child.exit_code)
        super().__init__(reason)


class Supervisor:
    """Starts the children in the order they need each other, watches them and stops them in reverse."""

    def __init__(self, options: StackOptions, *, order: StopOrder, tell: Callable[[BaseModel], None]) -> None:
        self._options = options
        self._order = order
        self._tell = tell
        self._children: list[Child] = []

    def run(self) -> int:
        """Run the stack until the order to stop; returns the exit code, 1 if a child failed."""
        try:
            self._start_all()
            while True:
                self._order.wait(3600)
                self._check()
        except _Stopped:
            return 0
        except _ChildFailed as failure:
            self._tell(failure.event)
            return 1
        finally:
            self._stop_all()

    def _start_all(self) -> None:
        place = self._start_valkey()
        base_url, identity = self._start_model()
        if self._options.with_worker:
            environment = embedded_environment(
                os.environ, options=self._options, redis_url=place.url, base_url=base_url
            )
            self._start("worker", worker_command(name=f"embedded-{self._options.local_id}"), environment=environment)
        numbers = {child.name: child.process_number for child in self._children}
        self._tell(Ready(redis_url=place.url, process_numbers=numbers, base_url=base_url, identity=identity))

    def _start_valkey(self) -> ValkeyPlace:
        program = find_server()
        for _ in range(_PORT_TRIES - 1):
            try:
                return self._try_valkey(str(program))
            except _ChildFailed:  # most likely somebody took the port meanwhile
                self._children.pop().reap()
        return self._try_valkey(str(program))

    def _try_valkey(self, program: str) -> ValkeyPlace:
        place = ValkeyPlace()
        valkey = self._start("valkey", [program, "-"], told=place.configuration().encode())
        self._await(valkey, place.answers, within_s=VALKEY_START_S)
        return place

    def _start_model(self) -> tuple[str | None, str | None]:
        if self._options.model_path is None:
            return None, None
        bundled = BundledModel(name=self._options.model, path=self._options.model_path)
        command = [sys.executable, "-m", "coalq.local.model_server", "--path", str(bundled.path)]
        command += ["--name", bundled.name]
        command += ["--parallel", str(self._options.parallel)]
        model = self._start("model", command, speaks=True)
        identity = bundled.identity()  # while the model loads
        self._await(model, lambda: model.line() is not None, within_s=MODEL_START_S)
        return str(json.loads(model.line() or "{}")["base_url"]), identity

    def _start(
        self,
        name: ChildName,
        command: Sequence[str],
        *,
        environment: dict[str, str] | None = None,
        told: bytes | None = None,
        speaks: bool = False,
    ) -> Child:
        child = Child(
            name,
            command,
            log_dir=self._options.log_dir,
            environment=dict(os.environ) if environment is None else environment,
            told=told,
            speaks=speaks,
        )
        self._children.append(child)
        return child

    def _await(self, child: Child, condition: Callable[[], bool], *, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            self._check()
            if time.monotonic() > deadline:
                child.send(signal.SIGKILL)
                raise _ChildFailed(child, f"was not ready within {within_s:.0f} s")
            self._order.wait(_POLL_S)

    def _check(self) -> None:
        if self._order.given:
            raise _Stopped
        for child in self._children:
            if (code := child.exit_code) is not None:
                raise _ChildFailed(child, _ending(code))

    def _stop_all(self) -> None:
        # The worker hands back and flushes with the help of the other two.
        workers = [child for child in self._children if child.name == "worker"]
        self._stop(workers, grace_s=self._options.drain_s + _KILL_AFTER_S)
        self._stop([child for child in self._children if child not in workers], grace_s=_KILL_AFTER_S)

    def _stop(self, children: Sequence[Child], *, grace_s: float) -> None:
        deadline = time.monotonic() + grace_s
        for child in children:
            child.send(signal.SIGTERM)
        while any(child.exit_code is None for child in children):
            left = deadline - time.monotonic()
            if left <= 0 or self._order.hurry:
                break
            self._order.wait(left)
        for child in children:
            child.send(signal.SIGKILL)
            child.reap()


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _tell(event: BaseModel) -> None:
    try:
        os.write(1, event.model_dump_json().encode() + b"\n")
    except BrokenPipeError:  # the parent is gone, so the input ends and the order to stop is on its way
        return


def main() -> int:
    """Read the options and run the stack; a parent that dies before telling them gets nothing started."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return 0
    options = StackOptions.model_validate_json(line)
    return Supervisor(options, order=StopOrder(sys.stdin.fileno()), tell=_tell).run()


if __name__ == "__main__":
    sys.exit(main())
