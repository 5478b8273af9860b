from __future__ import annotations

from functools import partial

import pytest
from sqlalchemy import Engine, func, select

from archive_runs import LEASE_S, ArchiveRun, make_manifest
from coalq.archive import Archive
from coalq.archive.tables import groups
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


def test_going_back_to_running_needs_its_own_way(archive: Archive) -> None:
    run = ArchiveRun.create(archive)

    with pytest.raises(ValueError, match="go_on"):
        archive.set_status(run.run_id, from_=RunStatus.COMPLETE, to=RunStatus.RUNNING)


def test_only_live_runs_are_running(archive: Archive) -> None:
    live, paused, elsewhere = (ArchiveRun.create(archive, queue=queue) for queue in ("queue", "queue", "other"))

    archive.pause(paused.run_id, "no credit")

    assert archive.running([live.run_id, paused.run_id, "nobody"]) == {live.run_id}
    assert archive.live_runs(["queue"]) == {live.run_id}
    assert archive.live_runs(["queue", "other"]) == {live.run_id, elsewhere.run_id}


def test_a_paused_run_goes_on_with_its_unstarted_groups_published_again(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    (thrown_away,) = run.publish()
    archive.pause(run.run_id, "no credit")

    assert archive.go_on(run.run_id)

    (again,) = run.publish()
    assert (again.group_number, again.attempt) == (thrown_away.group_number, thrown_away.attempt + 1)
    assert archive.run(run.run_id).reason is None


def test_a_run_that_is_not_paused_does_not_go_on(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    run.publish()

    assert not archive.go_on(run.run_id)
    assert run.publish() == []


def test_what_is_in_flight_commits_in_a_paused_run_and_it_ends_when_it_goes_on(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(2, group_size=4))
    run.execute(run.publish()[0])
    last = run.start_next()
    archive.pause(run.run_id, "no credit")

    result = run.flush(run.drafts(last))

    assert result.finished == {run.group_key(1)}
    assert (result.ended, run.status) == ({}, RunStatus.PAUSED)
    assert archive.go_on(run.run_id)
    assert run.status is RunStatus.COMPLETE
    assert archive.run(run.run_id).finished_at is not None


def test_a_moved_run_is_published_in_its_new_queue(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive, make_manifest(3, group_size=4))
    run.execute(run.publish()[0])
    lost, owned = run.publish()
    run.start(owned)

    archive.move_run(run.run_id, "new")

    assert archive.run(run.run_id).queue == "new"
    assert archive.take_publications("queue") == []
    assert [(p.group_number, p.queue) for p in archive.take_publications("new")] == [(lost.group_number, "new")]
    assert archive.renew([(owned.run_id, owned.group_number, owned.attempt)], process_id="process", lease_s=LEASE_S)
    with engine.connect() as connection:
        counted = select(groups.c.queue, func.count()).group_by(groups.c.queue)
        queues = {queue: count for queue, count in connection.execute(counted)}  # noqa: C416 - rows are not pairs to mypy
    assert queues == {"queue": 1, "new": 2}


def test_groups_planned_after_a_move_go_to_the_new_queue(archive: Archive) -> None:
    run = ArchiveRun.create(archive)

    archive.move_run(run.run_id, "new")
    archive.advance(run.run_id)

    assert [p.queue for p in archive.take_publications("new")] == ["new"]
