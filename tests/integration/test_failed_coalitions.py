"""A coalition that fails after group 0 leaves a reason wherever the run is looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from archive_runs import ArchiveRun
from coalq.archive import Archive, open_engine
from coalq.errors import RunFailedError
from coalq.outcome import Outcome, RunStatus
from coalq.run import Run
from command import coalq

ERROR = "HTTP 400: policy violation"
TOLD = f"of 8 records 1 failed and 0 are missing, and exact values need every one; first error: {ERROR}"


@pytest.fixture
def archive(sqlite_url: str) -> Iterator[Archive]:
    archive = Archive(open_engine(sqlite_url))
    yield archive
    archive.close()


@pytest.fixture
def run_id(archive: Archive) -> str:
    """A run of which one coalition of a later group failed."""
    run = ArchiveRun.create(archive)
    run.execute(run.publish()[0])
    (first, *others) = run.publish()
    started = run.start(first)
    masks = [draft.mask[0] for draft in run.drafts(started)]
    run.flush(
        [
            run.draft(started, masks[0], outcome=Outcome.FAILED, error=ERROR),
            *(run.draft(started, mask, text=str(mask)) for mask in masks[1:]),
        ]
    )
    for publication in others:
        run.execute(publication)
    run.execute_all()
    assert run.status is RunStatus.INCOMPLETE
    return run.run_id


def test_python_is_told_how_many_failed_and_the_first_error(archive: Archive, run_id: str) -> None:
    with pytest.raises(RunFailedError) as raised:
        Run(archive, run_id).attribution()

    assert str(raised.value) == f"run {run_id} is incomplete: {TOLD}"


def test_results_and_status_tell_how_many_failed_and_the_first_error(
    run_id: str, sqlite_url: str, tmp_path: Path
) -> None:
    settings = {"COALQ_DATABASE_URL": sqlite_url}

    results = coalq("results", run_id, folder=tmp_path, settings=settings)
    document = json.loads(coalq("results", run_id, "--json", folder=tmp_path, settings=settings).stdout)
    status = coalq("status", run_id, folder=tmp_path, settings=settings)
    fields = json.loads(coalq("status", run_id, "--json", folder=tmp_path, settings=settings).stdout)

    assert results.returncode == status.returncode == 3
    assert f"no attribution: {TOLD}" in results.stdout
    assert document["warnings"] == [f"no attribution: {TOLD}"]
    assert document["n_missing"] == 1
    assert f"error    the first of 1: {ERROR}" in status.stdout
    assert fields["first_error"] == ERROR
