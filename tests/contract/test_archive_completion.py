from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Engine, select

from archive_runs import ArchiveRun, count_executed, count_generations, make_manifest
from coalq.archive import Archive, GroupKey, StoredRecord
from coalq.archive.tables import groups, records
from coalq.outcome import Outcome, RunStatus

GRAND, EMPTY = 0b111, 0


def test_the_last_record_of_a_group_finishes_it(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    grand, empty = run.draft(base, GRAND, text="42"), run.draft(base, EMPTY, outcome=Outcome.FAILED)

    first = run.flush([grand])
    last = run.flush([empty])

    assert first.finished == set()
    assert last.finished == {run.group_key(0)}
    with engine.connect() as connection:
        row = connection.execute(select(groups)).one()._asdict()
    assert (row["owner"], row["lease_until"], row["starts"]) == (None, None, 0)
    assert row["finished_at"] is not None
    assert (row["executed"], row["failed"], row["cache_hits"], row["deduplicated"]) == (1, 1, 0, 0)
    assert (row["prompt_tokens"], row["completion_tokens"], row["reasoning_tokens"]) == (10, 2, None)
    assert (archive.run(run.run_id).open_groups, archive.run(run.run_id).failed) == (0, 1)


def test_a_group_needs_every_sample_of_its_coalitions(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(3, samples=3))
    base = run.start_next()
    *most, last = run.drafts(base)

    before = run.flush(most)
    after = run.flush([last])

    assert len(most) == 5
    assert before.finished == set()
    assert after.finished == {run.group_key(0)}


def test_a_group_with_nothing_left_to_do_is_finished_by_asking(archive: Archive, engine: Engine) -> None:
    """As after a crash of a version that wrote the last record without finishing the group."""
    run = ArchiveRun.create(archive)
    base = run.start_next()
    run.flush([run.draft(base, GRAND, text="42")])
    with engine.begin() as connection:
        connection.execute(
            records.insert().values(
                run_id=run.run_id,
                mask=b"\x00",
                sample=0,
                group_number=0,
                coalition_key="k",
                outcome=Outcome.FAILED,
                created_at=0.0,
            )
        )

    result = archive.flush([], process_id="a", checked_groups=[run.group_key(0)])

    assert result.finished == {run.group_key(0)}
    assert archive.run(run.run_id).open_groups == 0


def test_asking_about_a_group_that_is_not_complete_or_was_finished_before_changes_nothing(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    asked = [run.group_key(0), GroupKey("nobody", 0)]
    unfinished = archive.flush([], process_id="a", checked_groups=asked)
    run.flush(run.drafts(base))

    finished = archive.flush([], process_id="a", checked_groups=asked)

    assert unfinished.finished == set()
    assert finished.finished == {run.group_key(0)}
    assert archive.run(run.run_id).open_groups == 0


def test_results_of_a_finished_group_are_dropped(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    run.flush(run.drafts(base, text=lambda _mask, _sample: "first"))

    late = run.drafts(base, text=lambda _mask, _sample: "second")
    result = run.flush(late, process_id="late")

    assert (result.written, result.dropped) == (frozenset(), frozenset())
    assert result.present == {draft.key: StoredRecord(Outcome.EXECUTED, draft.utility) for draft in late}
    assert {generation.text for generation in result.conflicts.values()} == {"first"}
    assert result.finished == {run.group_key(0)}
    assert archive.run(run.run_id).open_groups == 0


def test_results_of_an_unknown_group_are_dropped(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    lost = replace(run.draft(base, GRAND, text="42"), run_id="nobody")

    result = run.flush([lost])

    assert result.dropped == {lost.key}
    assert count_generations(engine) == 0


def test_the_last_group_completes_the_run(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)

    run.execute_all()

    row = archive.run(run.run_id)
    assert (row.status, row.open_groups, row.failed) == (RunStatus.COMPLETE, 0, 0)
    assert row.finished_at is not None
    assert [(r.mask, r.utility) for r in archive.utility_records(run.run_id)] == [
        (mask, float(mask.bit_count())) for mask in range(8)
    ]
    assert count_generations(engine) == count_executed(engine) == 8


def test_a_flush_tells_which_run_it_ended(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(2, group_size=4))
    first = run.execute(run.publish()[0])
    last = run.execute(run.publish()[0])

    assert (first.ended, last.ended) == ({}, {run.run_id: RunStatus.COMPLETE})


def test_a_run_with_failed_records_ends_incomplete(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(2, group_size=4))
    run.execute(run.publish()[0])
    group = run.start_next()

    result = run.flush([run.draft(group, 1, text="1"), run.draft(group, 2, outcome=Outcome.FAILED)])

    assert result.ended == {run.run_id: RunStatus.INCOMPLETE}
    assert (run.status, archive.run(run.run_id).failed) == (RunStatus.INCOMPLETE, 1)


def test_one_flush_may_finish_groups_of_many_runs(archive: Archive) -> None:
    runs = [ArchiveRun.create(archive, make_manifest(2, group_size=4, identity=f"run {i}")) for i in range(3)]
    for _ in range(2):
        for run in runs:
            archive.advance(run.run_id)
        by_id = {run.run_id: run for run in runs}
        drafts = [
            draft for p in archive.take_publications("queue") for draft in by_id[p.run_id].drafts(runs[0].start(p))
        ]
        result = archive.flush(drafts, process_id="a")

    assert result.ended == {run.run_id: RunStatus.COMPLETE for run in runs}


def test_a_second_run_of_the_same_prompts_can_be_all_cache_hits(archive: Archive, engine: Engine) -> None:
    ArchiveRun.create(archive).execute_all()
    second = ArchiveRun.create(archive)

    while second.status is RunStatus.RUNNING:
        for publication in second.publish():
            second.flush(second.drafts(second.start(publication), outcome=Outcome.CACHE_HIT))

    progress = archive.progress(second.run_id)
    assert (progress.done, progress.cache_hits, progress.executed) == (8, 8, 0)
    assert (progress.prompt_tokens, progress.status) == (None, RunStatus.COMPLETE)
    assert count_generations(engine) == 8
