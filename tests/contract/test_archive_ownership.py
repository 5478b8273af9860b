from __future__ import annotations

from functools import partial

from sqlalchemy import Engine, select

from archive_runs import LEASE_S, ArchiveRun
from coalq.archive import Archive, StartedGroup
from coalq.archive.clock import now
from coalq.archive.tables import groups
from group_rows import attempt_of, column, shift, two_groups
from threads import run_together


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


def test_a_start_whose_answer_was_lost_is_repeated_without_counting_twice(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    (publication,) = run.publish()
    first = run.start(publication)
    shift(engine, publication, lease_until=1)

    again = run.start(publication)

    assert again == first
    assert column(engine, publication, "starts") == 1
    assert archive.renew([attempt_of(publication)], process_id=run.process_id, lease_s=LEASE_S)


def test_an_owner_does_not_start_what_it_finished_or_handed_back_or_what_is_paused(
    archive: Archive, engine: Engine
) -> None:
    run, first, second = two_groups(archive, engine)
    run.execute(first)
    finished = archive.start(*attempt_of(first), process_id=run.process_id, lease_s=LEASE_S)
    run.start(second)
    archive.pause(run.run_id, "no credit")
    paused = archive.start(*attempt_of(second), process_id=run.process_id, lease_s=LEASE_S)
    archive.hand_back([attempt_of(second)], process_id=run.process_id)
    handed_back = archive.start(*attempt_of(second), process_id=run.process_id, lease_s=LEASE_S)

    assert [finished, paused, handed_back] == [None] * 3


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


def pause_of_next_hand_back(run: ArchiveRun, engine: Engine, *, progressed: bool = False) -> tuple[float, float]:
    """Start the run's group, hand it back, and let its pause, the two ends of which are returned, be over."""
    (publication,) = run.publish()
    run.start(publication)
    with engine.connect() as connection:
        before = connection.execute(select(now())).scalar_one()
    run.archive.hand_back([attempt_of(publication)], process_id=run.process_id, progressed=progressed)
    with engine.connect() as connection:
        not_before, after = connection.execute(select(groups.c.not_before, now())).one()
    shift(engine, publication, not_before=-1)
    return not_before - after - 0.001, not_before - before + 0.001


def test_the_pause_after_a_hand_back_doubles_up_to_a_minute(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)

    pauses = [pause_of_next_hand_back(run, engine) for _ in range(8)]

    for pause_s, (least, most) in zip([1, 2, 4, 8, 16, 32, 60, 60], pauses, strict=True):
        assert least <= pause_s <= most


def test_an_execution_that_recorded_something_makes_the_next_pause_short_again(
    archive: Archive, engine: Engine
) -> None:
    run = ArchiveRun.create(archive)
    for _ in range(4):
        pause_of_next_hand_back(run, engine)

    pauses = [pause_of_next_hand_back(run, engine, progressed=True), pause_of_next_hand_back(run, engine)]

    for pause_s, (least, most) in zip([1, 2], pauses, strict=True):
        assert least <= pause_s <= most


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
