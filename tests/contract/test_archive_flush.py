from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Engine

from archive_runs import ArchiveRun, count_executed, count_generations, make_manifest
from coalq.archive import Archive, StoredRecord
from coalq.generation import Generation
from coalq.outcome import Outcome, RunStatus

GRAND, EMPTY = 0b111, 0


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

    assert (result.written, result.present) == (frozenset(), {draft.key: StoredRecord(Outcome.EXECUTED, 3.0)})
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


def test_a_real_outcome_in_a_batch_comes_before_a_failed_one(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    failed = run.draft(base, GRAND, outcome=Outcome.FAILED)
    executed = run.draft(base, GRAND, text="42")

    run.flush([failed, executed])

    assert [r.outcome for r in archive.utility_records(run.run_id)] == [Outcome.EXECUTED]


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
