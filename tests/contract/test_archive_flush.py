from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Engine, func, select

from archive_runs import ArchiveRun, make_manifest
from coalq.archive import Archive
from coalq.archive.tables import generations, records
from coalq.generation import Generation
from coalq.outcome import Outcome, RunStatus

GRAND, EMPTY = 0b111, 0


def count_generations(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(generations)).scalar_one()


def count_executed(engine: Engine) -> int:
    with engine.connect() as connection:
        executed = select(func.count()).select_from(records).where(records.c.outcome == Outcome.EXECUTED)
        return connection.execute(executed).scalar_one()


def test_an_executed_draft_becomes_a_generation_and_a_record(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    draft = run.draft(base, GRAND, text="42")

    result = run.flush([draft])

    assert result.written == {draft.key}
    assert archive.recorded(run.run_id, 0) == {(b"\x07", 0)}
    assert archive.generations([draft.coalition_key]) == {draft.coalition_key: draft.generation}
    assert archive.base_generation(run.run_id) == draft.generation


def test_flushing_again_changes_nothing(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    draft = run.draft(run.start_next(), GRAND, text="42")
    run.flush([draft])

    result = run.flush([draft])

    assert (result.written, result.present) == (frozenset(), {draft.key: Outcome.EXECUTED})
    assert count_generations(engine) == count_executed(engine) == 1


def test_nothing_to_flush_is_nothing(archive: Archive) -> None:
    result = archive.flush([], process_id="a")

    assert (result.written, result.finished) == (frozenset(), frozenset())


def test_coalitions_that_share_a_generation_have_a_record_each(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    executed = run.draft(base, GRAND, text="42")
    shared = replace(executed, mask=b"\x00", outcome=Outcome.DEDUPLICATED, generation=None)

    result = run.flush([shared, executed])

    assert result.written == {executed.key, shared.key}
    assert count_generations(engine) == count_executed(engine) == 1
    assert [r.outcome for r in archive.utility_records(run.run_id)] == [Outcome.DEDUPLICATED, Outcome.EXECUTED]


def test_a_key_that_somebody_else_stored_first_gets_no_record_before_its_utility_is_computed_again(
    archive: Archive, engine: Engine
) -> None:
    first, second = ArchiveRun.create(archive), ArchiveRun.create(archive)
    archive.advance(first.run_id)
    started = {p.run_id: first.start(p) for p in second.publish()}
    first.flush([first.draft(started[first.run_id], GRAND, text="first")])

    late = second.draft(started[second.run_id], GRAND, text="second")
    result = second.flush([late], process_id="other")

    assert result.written == frozenset()
    assert result.conflicts[late.coalition_key].text == "first"
    assert archive.utility_records(second.run_id) == []
    again = second.draft(started[second.run_id], GRAND, outcome=Outcome.DEDUPLICATED)
    assert second.flush([again]).written == {again.key}
    assert count_generations(engine) == count_executed(engine) == 1
    assert archive.base_generation(second.run_id) == result.conflicts[late.coalition_key]


def test_of_two_generations_of_one_key_in_a_batch_the_first_is_stored(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    empty = run.draft(base, EMPTY, text="first")
    grand = run.draft(base, GRAND, text="second")
    twin = replace(grand, coalition_key=empty.coalition_key)

    result = run.flush([empty, twin])

    assert result.written == {empty.key}
    assert result.conflicts == {empty.coalition_key: empty.generation}
    assert count_generations(engine) == count_executed(engine) == 1


def test_a_real_outcome_in_a_batch_comes_before_a_failed_one(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    failed = run.draft(base, GRAND, outcome=Outcome.FAILED)
    executed = run.draft(base, GRAND, text="42")

    run.flush([failed, executed])

    assert [r.outcome for r in archive.utility_records(run.run_id)] == [Outcome.EXECUTED]


def test_a_record_that_is_there_stays_and_its_rival_leaves_no_generation(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    run.flush([run.draft(base, GRAND, outcome=Outcome.FAILED)])
    executed = run.draft(base, GRAND, text="42")

    result = run.flush([executed])

    assert result.present == {executed.key: Outcome.FAILED}
    assert result.conflicts == {}
    assert count_generations(engine) == count_executed(engine) == 0


def test_a_hit_on_a_generation_that_is_not_archived_is_not_recorded(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    draft = run.draft(run.start_next(), GRAND, outcome=Outcome.CACHE_HIT)

    result = run.flush([draft])

    assert result.missing == {draft.key}
    assert archive.recorded(run.run_id, 0) == set()


def test_a_generation_that_its_own_record_could_not_store_is_missing_for_the_others(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    run.flush([run.draft(base, EMPTY, outcome=Outcome.FAILED)])
    empty, grand = run.draft(base, EMPTY, text="42"), run.draft(base, GRAND, text="42")
    twin = replace(grand, coalition_key=empty.coalition_key)

    result = run.flush([empty, twin])

    assert result.present == {empty.key: Outcome.FAILED}
    assert result.missing == {twin.key}
    assert run.flush([twin]).written == {twin.key}


def test_every_field_of_a_generation_comes_back(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    draft = run.draft(run.start_next(), GRAND)
    generation = Generation(
        text="Ω 42 😀\n",
        finish_reason="stop",
        reasoning="hidden",
        refusal="no",
        tool_calls="[]",
        fingerprint="fp",
        endpoint="http://head:8000",
        prompt_tokens=1,
        completion_tokens=2,
        cached_tokens=3,
        reasoning_tokens=4,
        elapsed_ms=0.1 + 0.2,
    )
    full = replace(draft, utility=0.1 + 0.2, generation=generation)

    run.flush([full])

    assert archive.generations([full.coalition_key, "unknown"]) == {full.coalition_key: generation}
    assert [r.utility for r in archive.utility_records(run.run_id)] == [0.1 + 0.2]


def test_characters_that_a_database_cannot_hold_are_replaced(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()

    run.flush(
        [
            run.draft(base, GRAND, text="a\x00b\ud800c"),
            run.draft(base, EMPTY, outcome=Outcome.FAILED, error="bad\x00word"),
        ]
    )

    base_generation = archive.base_generation(run.run_id)
    assert base_generation is not None
    assert base_generation.text == "a\ufffdb\ufffdc"
    assert [r.error for r in archive.utility_records(run.run_id)] == ["bad\ufffdword", None]


def test_a_large_flush_of_a_wide_game_is_written_whole(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive, make_manifest(7, group_size=256, samples=3))

    run.execute_all()

    assert run.status is RunStatus.COMPLETE
    assert count_executed(engine) == count_generations(engine) == 128 * 3
