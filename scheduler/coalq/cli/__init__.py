"""The command line: `coalq explain`, `submit`, `runs`, `status`, `results`, `worker`, `serve`, `db`."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> NoReturn:
    """The program `coalq`. What it needs is imported here, because Ctrl-C may come before all of it is there."""
    try:
        _open_standard_streams()
        from coalq.cli.entry import run  # noqa: PLC0415

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("coalq: interrupted\n")
        code = _INTERRUPTED
    sys.exit(code)


def _open_standard_streams() -> None:
    """Give a program that was started with closed streams (`coalq runs >&-`) ones that lead nowhere.

    The next files and sockets would take their numbers otherwise, and what is printed would end up in them.
    """
    inheritable = True
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, inheritable)
    os.close(number)
    # They stay open as long as the process.
    sys.stdin = sys.stdin or open(0, closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
