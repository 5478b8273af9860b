from __future__ import annotations

from sqlalchemy import Engine, select

from archive_runs import ArchiveRun, make_manifest, make_run
from coalq.archive import Archive
from coalq.archive.tables import groups
from coalq.grouping import GroupPlan
from coalq.masks import unpack_masks
from coalq.outcome import Outcome, RunStatus
from threads import run_together


def test_a_new_run_is_live_and_has_no_groups(archive: Archive) -> None:
    manifest = make_manifest(3)

    archive.create_run(make_run(manifest, name="first"))

    run = archive.run(manifest.run_id)
    assert (run.status, run.name, run.next_group, run.open_groups) == (RunStatus.RUNNING, "first", 0, 0)
    assert run.n_players == 3
    assert run.created_at > 1.7e9
    assert archive.manifest(manifest.run_id) == manifest.model_dump(mode="json")


def test_creating_a_run_twice_changes_nothing(archive: Archive) -> None:
    manifest = make_manifest(3)
    archive.create_run(make_run(manifest))
    archive.advance(manifest.run_id)

    archive.create_run(make_run(manifest, name="other"))

    assert archive.run(manifest.run_id).name is None
    assert archive.run(manifest.run_id).next_group == 1


def test_the_base_group_is_planned_alone(archive: Archive) -> None:
    run = ArchiveRun.create(archive)

    planned = [archive.advance(run.run_id), archive.advance(run.run_id)]

    row = archive.run(run.run_id)
    assert planned == [True, False]
    assert (row.next_group, row.open_groups, row.plan_closed) == (1, 1, False)
    assert (row.n_groups, row.n_planned) == (GroupPlan(run.manifest).n_groups, 8)


def test_later_groups_follow_once_the_base_group_is_finished(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    assert not archive.advance(run.run_id)

    run.flush(run.drafts(base))

    assert archive.advance(run.run_id)
    row = archive.run(run.run_id)
    assert (row.next_group, row.plan_closed, row.open_groups) == (
        row.n_groups,
        True,
        GroupPlan(run.manifest).n_groups - 1,
    )


def test_every_planned_coalition_is_in_exactly_one_group(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive, make_manifest(5, group_size=4))

    run.execute_all()

    with engine.connect() as connection:
        packed = connection.execute(select(groups.c.masks)).scalars().all()
    masks = [mask for masks in packed for mask in unpack_masks(masks, 5)]
    assert sorted(masks) == list(range(32))


def test_plans_at_most_four_times_the_room_ahead(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(6, group_size=2))
    run.flush(run.drafts(run.start_next()))

    assert archive.advance(run.run_id, room_ahead=2)

    assert archive.run(run.run_id).next_group == 1 + 8
    assert not archive.advance(run.run_id, room_ahead=2)


def test_plans_on_when_less_than_twice_the_room_waits(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(6, group_size=2))
    run.flush(run.drafts(run.start_next()))
    archive.advance(run.run_id, room_ahead=2)

    archive.take_publications(run.queue, limit=5)

    assert archive.advance(run.run_id, room_ahead=2)
    assert archive.run(run.run_id).next_group == 1 + 8 + 5


def test_a_failed_base_group_ends_the_run_with_its_own_error_and_an_open_plan(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    grand = run.draft(base, 7, outcome=Outcome.FAILED, error="400: context too long")
    empty = run.draft(base, 0, outcome=Outcome.FAILED, error="not asked")
    run.flush([empty, grand])
    assert run.status is RunStatus.RUNNING

    changed = archive.advance(run.run_id)

    row = archive.run(run.run_id)
    assert changed
    assert (row.status, row.reason, row.plan_closed) == (RunStatus.INCOMPLETE, "400: context too long", False)
    assert row.finished_at is not None
    assert not archive.advance(run.run_id)


def test_a_run_of_one_player_ends_with_its_base_group(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(1))
    run.flush(run.drafts(run.start_next()))

    assert archive.advance(run.run_id)

    assert run.status is RunStatus.COMPLETE
    assert archive.run(run.run_id).open_groups == 0


def test_a_run_that_is_not_live_is_not_planned(archive: Archive) -> None:
    run = ArchiveRun.create(archive)

    archive.pause(run.run_id, "no credit")

    assert not archive.advance(run.run_id)
    assert archive.runs_to_advance([run.queue]) == []


def test_lists_only_runs_that_can_be_advanced(archive: Archive) -> None:
    fresh = ArchiveRun.create(archive)
    waiting = ArchiveRun.create(archive)
    archive.advance(waiting.run_id)
    ArchiveRun.create(archive, queue="other")
    urgent = ArchiveRun.create(archive, priority=5)

    listed = archive.runs_to_advance([fresh.queue])

    assert listed == [urgent.run_id, fresh.run_id]


def test_an_unknown_run_is_not_advanced(archive: Archive) -> None:
    assert not archive.advance("nobody")


def test_of_racing_planners_one_wins_each_step(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(6, group_size=2))
    run.flush(run.drafts(run.start_next()))

    changed = run_together(*[lambda: archive.advance(run.run_id, room_ahead=2)] * 4)

    row = archive.run(run.run_id)
    assert changed.count(True) == 1
    assert (row.next_group, row.open_groups) == (9, 8)
