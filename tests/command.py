"""The program `coalq` as a process of its own, in a folder of its own, with nothing configured but what is given."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PROGRAM = (sys.executable, "-c", "from coalq.cli import main; main()")

NOTHING: Mapping[str, str] = {}


def clean_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without any configuration of coalq, plus the given one."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(("COALQ_", "OPENAI_"))}
    return {**inherited, "NO_COLOR": "1", "COLUMNS": "120", **settings}


def coalq(
    *arguments: str,
    folder: Path,
    settings: Mapping[str, str] = NOTHING,
    stdin: bytes = b"",
    timeout_s: float = 50.0,
) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end; settings are environment variables."""
    ended = subprocess.run(
        [*PROGRAM, *arguments],
        input=stdin,
        capture_output=True,
        cwd=folder,
        env=clean_environment(settings),
        timeout=timeout_s,
        check=False,
    )
    return subprocess.CompletedProcess(ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode())


@contextmanager
def running_coalq(
    *arguments: str, folder: Path, settings: Mapping[str, str] = NOTHING
) -> Iterator[subprocess.Popen[str]]:
    """A command line that is still running; killed at the end if it is."""
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=clean_environment(settings),
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def processes_in(folder: Path, *, program: str = "") -> Sequence[int]:
    """Processes that work below a folder, as everything of an embedded stack does. Empty where there is no /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            works_in = (entry / "cwd").resolve(strict=True)
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended meanwhile
            continue
        if works_in.is_relative_to(folder / ".coalq") and program in command:
            found.append(int(entry.name))
    return found
