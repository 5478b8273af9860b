from __future__ import annotations

from functools import partial

import pytest

from archive_runs import ArchiveRun, make_manifest
from coalq.archive import Archive
from coalq.outcome import RunStatus
from threads import run_together


def test_a_status_changes_only_from_the_one_it_leaves(archive: Archive) -> None:
    run = ArchiveRun.create(archive)

    wrong = archive.set_status(run.run_id, from_=RunStatus.PAUSED, to=RunStatus.CANCELLED)
    right = archive.set_status(run.run_id, from_=RunStatus.RUNNING, to=RunStatus.CANCELLED, reason="by hand")

    row = archive.run(run.run_id)
    assert (wrong, right) == (False, True)
    assert (row.status, row.reason) == (RunStatus.CANCELLED, "by hand")
    assert row.finished_at is not None


def test_of_racing_changes_exactly_one_wins(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    targets = [RunStatus.PAUSED, RunStatus.CANCELLED] * 2

    won = run_together(
        *(partial(archive.set_status, run.run_id, from_=RunStatus.RUNNING, to=target) for target in targets)
    )

    assert [target for target, is_won in zip(targets, won, strict=True) if is_won] == [run.status]


def test_a_status_alone_does_not_bring_a_run_back(archive: Archive) -> None:
    run = ArchiveRun.create(archive)

    with pytest.raises(ValueError, match="does not go back from complete to running"):
        archive.set_status(run.run_id, from_=RunStatus.COMPLETE, to=RunStatus.RUNNING)


def test_live_runs_are_found_by_their_queues(archive: Archive) -> None:
    live, paused, elsewhere = (ArchiveRun.create(archive, queue=queue) for queue in ("queue", "queue", "other"))

    archive.pause(paused.run_id, "no credit")

    assert archive.live_runs(["queue"]) == {live.run_id}
    assert archive.live_runs(["queue", "other"]) == {live.run_id, elsewhere.run_id}


def test_what_is_in_flight_commits_in_a_paused_run(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(2, group_size=4))
    run.execute(run.publish()[0])
    last = run.start_next()
    archive.pause(run.run_id, "no credit")

    result = run.flush(run.drafts(last))

    assert result.finished == {run.group_key(1)}
    assert (result.ended, run.status) == ({}, RunStatus.PAUSED)
