"""Groups whose owner or message is lost."""

from __future__ import annotations

from sqlalchemy import Engine

from archive_runs import LEASE_S, ArchiveRun, make_manifest
from coalq.archive import Archive
from coalq.outcome import RunStatus
from group_rows import attempt_of, column, shift, two_groups


def test_the_sweep_frees_a_group_whose_lease_ran_out(archive: Archive, engine: Engine) -> None:
    run, first, second = two_groups(archive, engine)
    run.start(first)
    run.start(second)
    shift(engine, first, lease_until=-1)

    swept = archive.sweep([run.queue], lease_s=LEASE_S)

    assert swept == 1
    assert column(engine, first, "starts") == 1
    (again,) = run.publish()
    assert attempt_of(again) == (first.run_id, first.group_number, first.attempt + 1)


def test_the_sweep_looks_only_at_its_queues(archive: Archive, engine: Engine) -> None:
    run, first, _ = two_groups(archive, engine)
    run.start(first)
    shift(engine, first, lease_until=-1)

    assert archive.sweep(["another"], lease_s=LEASE_S) == 0


def test_a_waiting_backlog_is_left_alone(archive: Archive, engine: Engine) -> None:
    run, first, second = two_groups(archive, engine)
    shift(engine, first, published_at=-10 * LEASE_S)
    shift(engine, second, published_at=-10 * LEASE_S)

    assert archive.sweep([run.queue], lease_s=LEASE_S) == 0


def test_a_lost_message_is_found_when_the_queue_is_empty(archive: Archive, engine: Engine) -> None:
    run, first, second = two_groups(archive, engine)
    shift(engine, first, published_at=-LEASE_S - 1)

    swept = archive.sweep([run.queue], lease_s=LEASE_S, empty_queues=[run.queue])

    assert swept == 1
    assert column(engine, first, "published_at") is None
    assert column(engine, second, "published_at") is not None


def test_a_lost_message_is_found_when_a_later_one_of_its_priority_has_started(archive: Archive, engine: Engine) -> None:
    run, first, second = two_groups(archive, engine)
    shift(engine, first, published_at=-2 * LEASE_S - 2)
    shift(engine, second, published_at=-LEASE_S - 1)
    before = archive.sweep([run.queue], lease_s=LEASE_S)

    run.start(second)

    assert before == 0
    assert archive.sweep([run.queue], lease_s=LEASE_S) == 1
    assert column(engine, first, "published_at") is None


def test_a_later_message_of_another_priority_proves_nothing(archive: Archive, engine: Engine) -> None:
    run, first, _ = two_groups(archive, engine)
    urgent = ArchiveRun.create(archive, make_manifest(2, identity="u"), priority=3)
    shift(engine, first, published_at=-3 * LEASE_S)
    (publication,) = urgent.publish()
    urgent.start(publication)

    assert archive.sweep([run.queue], lease_s=LEASE_S) == 0


def test_a_message_that_arrives_after_the_sweep_starts_nothing(archive: Archive, engine: Engine) -> None:
    run, first, _ = two_groups(archive, engine)
    shift(engine, first, published_at=-LEASE_S - 1)
    archive.sweep([run.queue], lease_s=LEASE_S, empty_queues=[run.queue])

    started = archive.start(*attempt_of(first), process_id="late", lease_s=LEASE_S)

    assert started is None


def test_an_execution_that_lost_its_group_can_still_finish_it(archive: Archive, engine: Engine) -> None:
    run, first, _ = two_groups(archive, engine)
    frozen = run.start(first, process_id="frozen")
    shift(engine, first, lease_until=-1)
    archive.sweep([run.queue], lease_s=LEASE_S)
    (again,) = run.publish()
    run.start(again, process_id="next")

    result = run.flush(run.drafts(frozen), process_id="frozen")

    assert result.finished == {run.group_key(first.group_number)}
    assert archive.renew([attempt_of(again)], process_id="next", lease_s=LEASE_S) == set()
    assert column(engine, first, "starts") == 0
    assert run.status is RunStatus.RUNNING
