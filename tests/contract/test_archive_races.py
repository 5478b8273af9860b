"""Transactions that meet: each test holds one open and lets another run into it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from sqlalchemy import Connection, Engine, func, select, text

from archive_runs import LEASE_S, ArchiveRun, make_manifest
from coalq.archive import Archive, Draft, FlushResult, StartedGroup
from coalq.archive.flush import flush
from coalq.archive.lifecycle import set_status
from coalq.archive.plan import Step, apply, look
from coalq.archive.tables import generations, records
from coalq.outcome import Outcome, RunStatus
from threads import in_thread, run_together
from waiting import wait_until


@contextmanager
def meeting(engine: Engine, other: Callable[[], object]) -> Iterator[Connection]:
    """A transaction that is held open, and committed, while `other` runs in a thread and waits for it."""
    with engine.begin() as connection:
        yield connection
        running = in_thread(other)
        if engine.name == "postgresql":
            wait_until(lambda: _someone_waits(engine) or running.done(), "the other transaction waits for a lock")
            assert not running.done(), running.result()
    running.result(30)


def _someone_waits(engine: Engine) -> bool:
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with engine.connect() as connection:
        return bool(connection.execute(waiting).scalar_one())


def flush_in(connection: Connection, drafts: list[Draft]) -> FlushResult:
    return flush(connection, drafts, process_id="one", checked_groups=())


def is_consistent(engine: Engine) -> bool:
    """Executed records equal generation rows, and every record that did not fail has its generation."""
    executed = select(func.count()).select_from(records).where(records.c.outcome == Outcome.EXECUTED)
    stored = select(func.count()).select_from(generations)
    orphans = (
        select(func.count())
        .select_from(records)
        .outerjoin(generations, generations.c.coalition_key == records.c.coalition_key)
        .where(records.c.outcome != Outcome.FAILED, generations.c.coalition_key.is_(None))
    )
    with engine.connect() as connection:
        counts = [connection.execute(statement).scalar_one() for statement in (executed, stored, orphans)]
    return counts[0] == counts[1] and counts[2] == 0


def last_groups(archive: Archive) -> tuple[ArchiveRun, StartedGroup, StartedGroup]:
    """A run whose last two groups are being executed."""
    run = ArchiveRun.create(archive, make_manifest(3, group_size=4))
    run.execute(run.publish()[0])
    first, second = run.publish()
    return run, run.start(first), run.start(second)


def test_two_halves_of_a_group_that_are_flushed_at_once_finish_it(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    grand, empty = run.drafts(run.start_next())
    results: list[FlushResult] = []

    with meeting(engine, lambda: results.append(run.flush([empty], process_id="two"))) as connection:
        results.append(flush_in(connection, [grand]))

    assert set().union(*(result.finished for result in results)) == {run.group_key(0)}
    assert archive.run(run.run_id).open_groups == 0
    assert is_consistent(engine)


def test_the_last_two_groups_of_a_run_that_finish_at_once_end_it_once(archive: Archive, engine: Engine) -> None:
    run, first, second = last_groups(archive)
    results: list[FlushResult] = []

    with meeting(engine, lambda: results.append(run.flush(run.drafts(second)))) as connection:
        results.append(flush_in(connection, run.drafts(first)))

    assert [result.ended for result in results] == [{}, {run.run_id: RunStatus.COMPLETE}]
    assert (run.status, archive.run(run.run_id).open_groups) == (RunStatus.COMPLETE, 0)


def test_two_executions_of_one_group_leave_one_text_and_its_utility(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    ours = run.drafts(base, text=lambda _mask, _sample: "ours")
    theirs = run.drafts(base, text=lambda _mask, _sample: "theirs")
    results: list[FlushResult] = []

    with meeting(engine, lambda: results.append(run.flush(theirs, process_id="two"))) as connection:
        results.append(flush_in(connection, ours))

    assert results[0].written == {draft.key for draft in ours}
    assert {generation.text for generation in results[1].conflicts.values()} == {"ours"}
    assert results[1].written == frozenset()
    assert archive.run(run.run_id).open_groups == 0
    assert is_consistent(engine)


def test_of_two_runs_that_generate_one_key_at_once_the_second_learns_the_first_text(
    archive: Archive, engine: Engine
) -> None:
    one, two = ArchiveRun.create(archive), ArchiveRun.create(archive)
    archive.advance(one.run_id)
    started = {p.run_id: one.start(p) for p in two.publish()}
    ours = one.drafts(started[one.run_id], text=lambda _mask, _sample: "ours")
    theirs = two.drafts(started[two.run_id], text=lambda _mask, _sample: "theirs")
    results: list[FlushResult] = []

    with meeting(engine, lambda: results.append(two.flush(theirs))) as connection:
        flush_in(connection, ours)

    assert {generation.text for generation in results[0].conflicts.values()} == {"ours"}
    assert archive.utility_records(two.run_id) == []
    assert is_consistent(engine)


def test_when_the_first_text_is_rolled_back_the_second_is_stored(archive: Archive, engine: Engine) -> None:
    one, two = ArchiveRun.create(archive), ArchiveRun.create(archive)
    archive.advance(one.run_id)
    started = {p.run_id: one.start(p) for p in two.publish()}
    results: list[FlushResult] = []

    with meeting(engine, lambda: results.append(two.flush(two.drafts(started[two.run_id])))) as connection:
        savepoint = connection.begin_nested()
        flush_in(connection, one.drafts(started[one.run_id]))
        savepoint.rollback()
        # The lock that the other transaction runs into, as the savepoint gave up its own.
        flush_in(connection, two.drafts(started[two.run_id])[:1])

    assert archive.run(two.run_id).open_groups == 0
    assert archive.recorded(one.run_id, 0) == set()
    assert is_consistent(engine)


def test_the_last_group_that_finishes_while_the_plan_is_closed_ends_the_run(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive, make_manifest(3, group_size=4))
    run.execute(run.publish()[0])
    with engine.connect() as connection:
        step = look(connection, run.run_id, room_ahead=None)
    assert step is not None
    one_by_one = Step(run.run_id, 1, groups=step.groups[:1], n_groups=3, n_planned=8)
    with engine.begin() as connection:
        assert apply(connection, one_by_one)
    first = run.start(archive.take_publications(run.queue)[0])
    results: list[FlushResult] = []

    with meeting(engine, lambda: results.append(run.flush(run.drafts(first)))) as connection:
        assert apply(connection, Step(run.run_id, 2, groups=step.groups[1:], n_groups=3, n_planned=8))
    second = run.start(archive.take_publications(run.queue)[0])
    results.append(run.flush(run.drafts(second)))

    assert [result.ended for result in results] == [{}, {run.run_id: RunStatus.COMPLETE}]


def test_a_run_cancelled_while_its_last_group_finishes_has_one_end(archive: Archive, engine: Engine) -> None:
    run, first, second = last_groups(archive)
    run.flush(run.drafts(first))
    results: list[FlushResult] = []

    with meeting(engine, lambda: results.append(run.flush(run.drafts(second)))) as connection:
        cancelled = set_status(connection, run.run_id, from_=RunStatus.RUNNING, to=RunStatus.CANCELLED)

    assert cancelled
    assert results[0].ended == {}
    assert (run.status, archive.run(run.run_id).open_groups) == (RunStatus.CANCELLED, 0)


def test_a_renewal_that_waits_for_the_flush_of_the_last_record_finds_nothing_to_renew(
    archive: Archive, engine: Engine
) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    drafts = run.drafts(base)
    survivors: list[set[tuple[str, int, int]]] = []

    def renew() -> None:
        survivors.append(archive.renew([(base.run_id, 0, 1)], process_id=run.process_id, lease_s=LEASE_S))

    with meeting(engine, renew) as connection:
        flush_in(connection, drafts)

    assert survivors == [set()]


def test_many_processes_that_flush_shared_keys_never_block_each_other_for_good(
    archive: Archive, engine: Engine
) -> None:
    runs = [ArchiveRun.create(archive, make_manifest(5, group_size=4)) for _ in range(4)]

    deadline = time.monotonic() + 30

    def execute(run: ArchiveRun) -> None:
        while run.status is RunStatus.RUNNING:
            assert time.monotonic() < deadline, archive.progress(run.run_id)
            archive.advance(run.run_id)
            for publication in archive.take_publications(run.queue):
                owner = next(other for other in runs if other.run_id == publication.run_id)
                drafts = owner.drafts(owner.start(publication, process_id=run.run_id))
                # In the opposite order in every other process, as it comes from their loops.
                result = archive.flush(drafts if run is runs[0] else drafts[::-1], process_id=run.run_id)
                lost = [d for d in drafts if d.key not in result.written and d.coalition_key in result.conflicts]
                again = [owner.draft(publication, d.mask[0], outcome=Outcome.DEDUPLICATED) for d in lost]
                archive.flush(again, process_id=run.run_id)

    run_together(*(partial(execute, run) for run in runs))
    engine.dispose()

    assert [run.status for run in runs] == [RunStatus.COMPLETE] * 4
    assert [len(archive.utility_records(run.run_id)) for run in runs] == [32] * 4
    assert is_consistent(engine)
    assert _deadlocks(engine) == 0


def _deadlocks(engine: Engine) -> int:
    """Deadlocks in which somebody had to be sent back, as far as sessions that ended have reported them."""
    if engine.name != "postgresql":
        return 0
    deadlocks = text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    with engine.connect() as connection:
        return int(connection.execute(deadlocks).scalar_one())
