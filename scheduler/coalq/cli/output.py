"""Where a command writes: the report or JSON on standard output, everything else on standard error."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from coalq.connections import open_archive
from coalq.report import (
    ProgressMode,
    ProgressReporter,
    RunSummary,
    make_reporter,
    read_summary,
    run_document,
    show_summary,
)
from coalq.settings import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document to standard output.")]
Progress = Annotated[ProgressMode, typer.Option("--progress", help="Progress on standard error.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Verbose = Annotated[int, typer.Option("--verbose", "-v", count=True, help="Log more; twice for everything.")]


def set_up_logging(verbose: int) -> None:
    """Log warnings to standard error, with `-v` also what is done, with `-vv` everything of ours."""
    logging.basicConfig(format="coalq: %(levelname)s: %(message)s", level=logging.WARNING)
    logging.getLogger("coalq").setLevel([logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)])


def reporter(progress: ProgressMode, *, quiet: bool) -> ProgressReporter:
    """The reporter that the flags ask for."""
    return make_reporter(ProgressMode.NONE if quiet else progress)


def write_json(document: Any) -> None:  # noqa: ANN401 - anything JSON can hold
    """Write a document and a line end to standard output; exact, so that it can be compared byte for byte."""
    sys.stdout.buffer.write(orjson.dumps(document) + b"\n")
    sys.stdout.buffer.flush()


def show_run(run_id: str, *, settings: Settings, as_json: bool) -> None:
    """Read one run from the archive and write its report."""
    archive = open_archive(settings)
    try:
        write_summary(read_summary(archive, run_id), as_json=as_json)
    finally:
        archive.close()


def write_summary(summary: RunSummary, *, as_json: bool) -> None:
    """Write the report of one run to standard output."""
    if as_json:
        write_json(run_document(summary))
    else:
        with report_console() as console:
            show_summary(summary, console)


@contextmanager
def report_console() -> Iterator[Console]:
    """A console on standard output; where that is no terminal, the spaces that fill up lines are left out."""
    console = Console()
    if console.is_terminal:
        yield console
        return
    written = StringIO()
    yield Console(file=written, width=console.width)
    sys.stdout.write(re.sub(r"[ \t]+$", "", written.getvalue(), flags=re.MULTILINE))
    sys.stdout.flush()
