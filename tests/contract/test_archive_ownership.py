from __future__ import annotations

from functools import partial

from sqlalchemy import Engine, select, update

from archive_runs import LEASE_S, ArchiveRun, make_manifest
from coalq.archive import Archive, Publication, StartedGroup
from coalq.archive.clock import now
from coalq.archive.tables import groups
from coalq.outcome import RunStatus
from threads import run_together

Attempt = tuple[str, int, int]


def attempt_of(group: Publication | StartedGroup) -> Attempt:
    return (group.run_id, group.group_number, group.attempt)


def column(engine: Engine, group: Publication | StartedGroup, name: str) -> object:
    with engine.connect() as connection:
        return connection.execute(
            select(groups.c[name]).where(groups.c.run_id == group.run_id, groups.c.group_number == group.group_number)
        ).scalar_one()


def shift(engine: Engine, group: Publication | StartedGroup, **seconds: float) -> None:
    """Set time columns of a group relative to the database's clock."""
    with engine.begin() as connection:
        connection.execute(
            update(groups)
            .where(groups.c.run_id == group.run_id, groups.c.group_number == group.group_number)
            .values(**{name: now() + value for name, value in seconds.items()})
        )


def two_groups(archive: Archive, engine: Engine) -> tuple[ArchiveRun, Publication, Publication]:
    """A run with two published groups of its own besides the finished base group."""
    run = ArchiveRun.create(archive, make_manifest(3, group_size=4))
    base = run.publish()[0]
    run.execute(base)
    shift(engine, base, published_at=-100 * LEASE_S)
    first, second = run.publish()
    return run, first, second


def test_a_published_group_is_started_with_all_it_needs(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    (publication,) = run.publish()

    started = archive.start(*attempt_of(publication), process_id="a", lease_s=LEASE_S)

    assert started == StartedGroup(
        run_id=run.run_id,
        group_number=0,
        attempt=1,
        masks=b"\x07\x00",
        count=2,
        prefix_hash=publication.prefix_hash,
        starts=1,
    )
    assert column(engine, publication, "owner") == "a"


def test_a_doubled_message_starts_nothing(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    (publication,) = run.publish()
    run.start(publication)

    assert archive.start(*attempt_of(publication), process_id="b", lease_s=LEASE_S) is None


def test_of_racing_starts_exactly_one_wins(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    (publication,) = run.publish()

    started = run_together(
        *(
            partial(archive.start, *attempt_of(publication), process_id=f"process-{i}", lease_s=LEASE_S)
            for i in range(4)
        )
    )

    assert started.count(None) == 3


def test_stale_unpublished_forged_and_finished_groups_are_not_started(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    archive.advance(run.run_id)
    unpublished = archive.start(run.run_id, 0, 0, process_id="a", lease_s=LEASE_S)
    (publication,) = archive.take_publications(run.queue)
    stale = archive.start(run.run_id, 0, 0, process_id="a", lease_s=LEASE_S)
    forged = archive.start(run.run_id, 99, 1, process_id="a", lease_s=LEASE_S)
    run.execute(publication)
    finished = archive.start(*attempt_of(publication), process_id="a", lease_s=LEASE_S)

    assert [unpublished, stale, forged, finished] == [None] * 4


def test_a_group_of_a_paused_run_is_not_started(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    (publication,) = run.publish()

    archive.pause(run.run_id, "no credit")

    assert archive.start(*attempt_of(publication), process_id="a", lease_s=LEASE_S) is None


def test_renewal_extends_the_lease_of_what_is_still_owned(archive: Archive, engine: Engine) -> None:
    run, first, second = two_groups(archive, engine)
    run.start(first, process_id="a")
    run.start(second, process_id="b")
    shift(engine, first, lease_until=1)

    survivors = archive.renew([attempt_of(first), attempt_of(second)], process_id="a", lease_s=LEASE_S)

    assert survivors == {attempt_of(first)}
    with engine.connect() as connection:
        left = connection.execute(
            select(groups.c.lease_until - now()).where(groups.c.group_number == first.group_number)
        ).scalar_one()
    assert LEASE_S - 10 < left <= LEASE_S


def test_groups_of_a_run_that_is_not_live_do_not_survive_renewal(archive: Archive, engine: Engine) -> None:
    run, first, _ = two_groups(archive, engine)
    run.start(first)

    archive.pause(run.run_id, "no credit")

    assert archive.renew([attempt_of(first)], process_id=run.process_id, lease_s=LEASE_S) == set()


def test_nothing_to_renew_is_nothing(archive: Archive) -> None:
    assert archive.renew([], process_id="a", lease_s=LEASE_S) == set()


def test_a_group_handed_back_is_published_again_later_and_counts_no_start(archive: Archive, engine: Engine) -> None:
    run, first, _ = two_groups(archive, engine)
    run.start(first)

    archive.hand_back([attempt_of(first)], process_id=run.process_id)

    assert column(engine, first, "starts") == 0
    assert column(engine, first, "owner") is None
    assert run.publish() == []
    shift(engine, first, not_before=-1)
    (again,) = run.publish()
    assert (again.group_number, again.attempt) == (first.group_number, first.attempt + 1)


def test_the_pause_after_a_hand_back_doubles_up_to_a_minute(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    handed_back: list[tuple[float, float, float]] = []

    for _ in range(8):
        (publication,) = run.publish()
        run.start(publication)
        with engine.connect() as connection:
            before = connection.execute(select(now())).scalar_one()
        archive.hand_back([attempt_of(publication)], process_id=run.process_id)
        with engine.connect() as connection:
            not_before, after = connection.execute(select(groups.c.not_before, now())).one()
        handed_back.append((before, not_before, after))
        shift(engine, publication, not_before=-1)

    for pause_s, (before, not_before, after) in zip([1, 2, 4, 8, 16, 32, 60, 60], handed_back, strict=True):
        assert before + pause_s - 0.001 <= not_before <= after + pause_s + 0.001


def test_another_process_cannot_hand_a_group_back(archive: Archive, engine: Engine) -> None:
    run, first, _ = two_groups(archive, engine)
    run.start(first)

    archive.hand_back([attempt_of(first)], process_id="another")

    assert archive.renew([attempt_of(first)], process_id=run.process_id, lease_s=LEASE_S) == {attempt_of(first)}


def test_a_finished_group_handed_back_stays_finished(archive: Archive, engine: Engine) -> None:
    run, first, _ = two_groups(archive, engine)
    run.execute(first)

    archive.hand_back([attempt_of(first)], process_id=run.process_id)

    assert archive.progress(run.run_id).groups_finished == 2


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
