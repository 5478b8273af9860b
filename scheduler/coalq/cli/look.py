"""Commands that only read the archive: `coalq runs`, `status` and `results`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from coalq.archive import Archive, RunProgress, RunRow
from coalq.cli.exit_codes import ExitCode, of_status
from coalq.cli.home import lacks_archive
from coalq.cli.output import AsJson, report_console, write_json, write_summary
from coalq.connections import open_archive
from coalq.errors import InputError
from coalq.outcome import RunStatus
from coalq.report import counters, outcome_words, read_summary, tokens
from coalq.report.printable import one_line
from coalq.settings import Settings

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="An id, a unique beginning or end of one, a name, or @last.")
]


def runs(
    *,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Newest runs shown.")] = 20,
    as_json: AsJson = False,
) -> int:
    """List the newest runs."""
    settings = Settings.load()
    found: list[RunRow] = []
    if not lacks_archive(settings):
        with _archive(settings) as archive:
            found = archive.list_runs(limit)
    if as_json:
        write_json({"schema_version": 1, "runs": [_row_fields(row) for row in found]})
        return ExitCode.COMPLETE
    with report_console() as console:
        console.print(_run_table(found) if found else Text("no runs yet"))
    return ExitCode.COMPLETE


def _run_table(found: Sequence[RunRow]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    # Whatever the width: an id that is cut off names no run.
    table.add_column("run", no_wrap=True, min_width=max(len(row.run_id) for row in found))
    for heading in ("status", "model", "coalitions", "failed", "age", "name"):
        right = heading in {"coalitions", "failed", "age"}
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    now = time.time()
    for row in found:
        planned = "" if row.n_planned is None else f"{row.n_planned:,}"
        table.add_row(
            row.run_id,
            Text(str(row.status)),
            Text(one_line(row.model)),
            planned,
            f"{row.failed:,}",
            age(now - row.created_at),
            Text(one_line(row.name or "")),
        )
    return table


def status(run: RunArgument, *, as_json: AsJson = False) -> int:
    """Show where a run stands."""
    with _archive_of(run) as archive:
        row = archive.find_run(run)
        progress = archive.progress(row.run_id)
        workers = len(archive.live_workers(row.model))
        first_error = _first_error(archive, row.run_id) if progress.failed else None
    if as_json:
        found = {**_row_fields(row), **_progress_fields(progress), "first_error": first_error, "live_workers": workers}
        write_json({"schema_version": 1, **found})
    else:
        _show_status(row, progress, workers=workers, first_error=first_error)
    return of_status(progress.status)


def results(run: RunArgument, *, as_json: AsJson = False) -> int:
    """Show the attribution of a run."""
    with _archive_of(run) as archive:
        summary = read_summary(archive, archive.find_run(run).run_id)
    write_summary(summary, as_json=as_json)
    # Asked for its results, a run without them is incomplete, also while it runs.
    return ExitCode.INCOMPLETE if summary.progress.status is RunStatus.RUNNING else of_status(summary.progress.status)


def age(seconds: float) -> str:
    """E.g. `42 s`, `7 min`, `3 h`, `12 d`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


@contextmanager
def _archive_of(run: str) -> Iterator[Archive]:
    settings = Settings.load()
    if lacks_archive(settings):
        raise InputError(
            f"there is no run {run!r}: no archive was made in {str(settings.home)!r} yet; COALQ_HOME names the folder "
            "of another one, COALQ_DATABASE_URL a database"
        )
    with _archive(settings) as archive:
        yield archive


@contextmanager
def _archive(settings: Settings) -> Iterator[Archive]:
    archive = open_archive(settings)
    try:
        yield archive
    finally:
        archive.close()


def _first_error(archive: Archive, run_id: str) -> str | None:
    """Of the first failed record in mask order."""
    return next((record.error for record in archive.utility_records(run_id) if record.error is not None), None)


def _row_fields(row: RunRow) -> dict[str, Any]:
    return {
        "run_id": row.run_id,
        "name": row.name,
        "campaign": row.campaign,
        "item_id": row.item_id,
        "status": str(row.status),
        "reason": row.reason,
        "model": row.model,
        "n_players": row.n_players,
        "n_planned": row.n_planned,
        "created_at": _iso(row.created_at),
        "finished_at": None if row.finished_at is None else _iso(row.finished_at),
    }


def _progress_fields(progress: RunProgress) -> dict[str, Any]:
    return {
        "status": str(progress.status),
        "reason": progress.reason,
        "total": progress.total,
        "done": progress.done,
        "counters": counters(progress),
        "tokens": tokens(progress),
        "groups": {
            "waiting": progress.groups_waiting,
            "executing": progress.groups_executing,
            "finished": progress.groups_finished,
        },
    }


def _show_status(row: RunRow, progress: RunProgress, *, workers: int, first_error: str | None) -> None:
    of = f" of {progress.total:,}" if progress.total is not None else ""
    lines = {
        "run": row.run_id + (f" ({one_line(row.name)})" if row.name else ""),
        "status": str(progress.status) + (f": {one_line(progress.reason)}" if progress.reason else ""),
        "model": f"{one_line(row.model)}, {workers} live worker{'' if workers == 1 else 's'}",
        "records": f"{progress.done:,}{of}: {outcome_words(progress)}",
        "groups": (
            f"{progress.groups_waiting:,} waiting, {progress.groups_executing:,} executing, "
            f"{progress.groups_finished:,} finished"
        ),
        "created": _iso(row.created_at),
    }
    if first_error is not None:
        lines["error"] = f"the first of {progress.failed:,}: {one_line(first_error)}"
    for name, text in lines.items():
        typer.echo(f"{name:<9}{text}")


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
