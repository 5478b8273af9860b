"""Processes for tests of the embedded stack: a parent that can be killed, and what is still alive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coalq.local import StackOptions

_PARENT = """
import json, sys
from coalq.local import EmbeddedStack, StackOptions
with EmbeddedStack(StackOptions.model_validate_json(sys.argv[1])) as stack:
    print(json.dumps({"supervisor": stack.supervisor_number, **stack.ready.process_numbers}), flush=True)
    sys.stdin.read()
"""


def is_alive(number: int) -> bool:
    """Whether a process runs; one that ended and only waits to be collected does not."""
    if sys.platform == "linux":
        try:
            status = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return False
        return status.rpartition(")")[2].split()[0] not in {"Z", "X"}
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class RunningParent:
    """A process that holds an embedded stack until its input ends."""

    process: subprocess.Popen[bytes]
    numbers: dict[str, int]

    @property
    def supervisor(self) -> int:
        """Number of the supervisor."""
        return self.numbers["supervisor"]

    def survivors(self) -> list[str]:
        """Names of what still runs: the supervisor and its children."""
        return [name for name, number in self.numbers.items() if is_alive(number)]


@contextmanager
def running_parent(options: StackOptions) -> Iterator[RunningParent]:
    """Start a parent of an embedded stack and wait until the stack is up."""
    command = [sys.executable, "-c", _PARENT, options.model_dump_json()]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield RunningParent(process, json.loads(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
