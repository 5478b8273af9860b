"""The command line: `coalq explain`, `submit`, `runs`, `status`, `results`, `worker`, `serve`, `db`."""

from coalq.cli.entry import main

__all__ = ["main"]
