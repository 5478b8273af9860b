from __future__ import annotations

from sqlalchemy import Engine, text, update

from archive_runs import LEASE_S, ArchiveRun, make_manifest
from coalq.archive import Archive, GroupKey, open_engine
from coalq.archive.clock import now
from coalq.archive.tables import groups
from coalq.grouping import GroupPlan
from threads import run_together

WIDE = 6
"""Players of a run with 31 groups of 2 besides the base group."""


def wide_runs(archive: Archive, *priorities: int) -> list[ArchiveRun]:
    """Runs of these priorities, their base groups finished, their other 31 groups planned and not published."""
    runs = [
        ArchiveRun.create(archive, make_manifest(WIDE, group_size=2, identity=f"run {i}"), priority=priority)
        for i, priority in enumerate(priorities)
    ]
    for run in runs:
        archive.advance(run.run_id)
    bases = {p.run_id: p for p in archive.take_publications("queue")}
    for run in runs:
        run.execute(bases[run.run_id])
        archive.advance(run.run_id, room_ahead=16)
    return runs


def wide_run(archive: Archive) -> ArchiveRun:
    (run,) = wide_runs(archive, 0)
    return run


def test_a_publication_tells_what_a_message_needs(archive: Archive) -> None:
    run = ArchiveRun.create(archive)

    (publication,) = run.publish()

    plan = GroupPlan(run.manifest)
    assert (publication.run_id, publication.group_number, publication.attempt) == (run.run_id, 0, 1)
    assert (publication.count, publication.n_groups, publication.queue) == (2, plan.n_groups, "queue")
    assert publication.prefix_hash == next(plan.groups(0, 1)).prefix_hash


def test_a_published_group_is_not_published_again(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    run.publish()

    assert run.publish() == []


def test_publishes_no_more_than_the_room(archive: Archive) -> None:
    run = wide_run(archive)

    first = archive.take_publications(run.queue)
    second = archive.take_publications(run.queue)

    assert len(first) == 16
    assert [p.group_number for p in first] == list(range(1, 17))
    assert second == []


def test_a_started_group_makes_room_for_the_next(archive: Archive) -> None:
    run = wide_run(archive)
    first = archive.take_publications(run.queue)

    run.start(first[0])

    assert [p.group_number for p in archive.take_publications(run.queue)] == [17]


def test_groups_that_finished_a_moment_ago_widen_the_room(archive: Archive, engine: Engine) -> None:
    quick, other = wide_runs(archive, 1, 0)
    for _ in range(2):
        for publication in archive.take_publications(quick.queue, limit=12):
            quick.execute(publication)
    with engine.begin() as connection:
        finished = update(groups).where(groups.c.finished_at.is_not(None))
        connection.execute(finished.values(finished_at=now() + 60))

    published = archive.take_publications(other.queue)

    assert len(published) == 2 + 24


def test_a_limit_bounds_one_call(archive: Archive) -> None:
    run = wide_run(archive)

    assert len(archive.take_publications(run.queue, limit=3)) == 3


def test_live_runs_take_turns(archive: Archive) -> None:
    older, younger = wide_runs(archive, 0, 0)

    order = [p.run_id for p in archive.take_publications(older.queue, limit=6)]

    assert order == [older.run_id, younger.run_id] * 3


def test_a_run_that_comes_late_is_next(archive: Archive) -> None:
    large = wide_run(archive)
    archive.take_publications(large.queue, limit=10)
    small = ArchiveRun.create(archive, make_manifest(2, identity="y"))
    archive.advance(small.run_id)

    published = archive.take_publications(large.queue)

    assert published[0].run_id == small.run_id


def test_a_higher_priority_is_published_first(archive: Archive) -> None:
    _, urgent = wide_runs(archive, 0, 1)

    published = archive.take_publications(urgent.queue)

    assert {p.run_id for p in published} == {urgent.run_id}


def test_a_run_that_is_not_live_is_not_published_and_takes_no_room(archive: Archive) -> None:
    stopped, live = wide_runs(archive, 1, 0)
    archive.take_publications(stopped.queue)
    archive.pause(stopped.run_id, "no credit")

    published = archive.take_publications(live.queue)

    assert [p.run_id for p in published] == [live.run_id] * 16


def test_another_queue_is_not_touched(archive: Archive) -> None:
    run = wide_run(archive)

    assert archive.take_publications("another") == []
    assert len(archive.take_publications(run.queue)) == 16


def test_a_failed_send_is_published_again_as_another_attempt(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    (failed,) = run.publish()

    archive.unmark([(failed.run_id, failed.group_number, failed.attempt)])

    (again,) = run.publish()
    assert (again.group_number, again.attempt) == (failed.group_number, failed.attempt + 1)


def test_a_send_that_failed_but_arrived_stays_published(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    (publication,) = run.publish()
    started = run.start(publication)

    archive.unmark([(publication.run_id, publication.group_number, publication.attempt)])

    assert run.publish() == []
    attempt = (started.run_id, started.group_number, started.attempt)
    assert archive.renew([attempt], process_id=run.process_id, lease_s=LEASE_S) == {attempt}


def test_unmarking_an_old_attempt_does_nothing(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    (old,) = run.publish()
    archive.unmark([(old.run_id, old.group_number, old.attempt)])
    run.publish()

    archive.unmark([(old.run_id, old.group_number, old.attempt)])

    assert run.publish() == []


def test_a_group_waits_until_its_time(archive: Archive, engine: Engine) -> None:
    run = wide_run(archive)
    with engine.begin() as connection:
        connection.execute(update(groups).where(groups.c.group_number == 1).values(not_before=4e9))

    published = archive.take_publications(run.queue, limit=1)

    assert [p.group_number for p in published] == [2]


def test_of_racing_publishers_each_group_is_published_once(archive: Archive) -> None:
    run = wide_run(archive)

    taken = run_together(*[lambda: archive.take_publications(run.queue)] * 4)

    published = [GroupKey(p.run_id, p.group_number) for publications in taken for p in publications]
    assert len(published) == len(set(published)) == 16


def test_a_group_that_a_late_flush_holds_is_left_for_the_next_turn(postgres_url: str) -> None:
    """Only on PostgreSQL: SQLite has one writer at a time."""
    engine = open_engine(postgres_url)
    archive = Archive(engine)
    run = wide_run(archive)
    with engine.begin() as connection:
        connection.execute(text("SELECT 1 FROM groups WHERE group_number = 1 FOR UPDATE"))

        published = archive.take_publications(run.queue, limit=2)

    archive.close()
    assert [p.group_number for p in published] == [2]
