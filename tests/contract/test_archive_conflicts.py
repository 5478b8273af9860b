"""Texts and records that somebody else stored first."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Engine, select

from archive_runs import ArchiveRun, count_executed, count_generations
from coalq.archive import Archive, Draft, StartedGroup, StoredRecord
from coalq.archive.tables import groups
from coalq.generation import Generation
from coalq.outcome import Outcome

GRAND, EMPTY = 0b111, 0
REFUSED = StoredRecord(Outcome.FAILED, error="refused")


def unscorable(run: ArchiveRun, group: StartedGroup, mask: int, text: str) -> Draft:
    """A text that was generated and whose value could not be computed."""
    executed = run.draft(group, mask, text=text)
    return replace(executed, outcome=Outcome.FAILED, utility=None, error="no number")


def two_started_runs(archive: Archive) -> tuple[ArchiveRun, StartedGroup, ArchiveRun, StartedGroup]:
    """Two runs of the same prompts, their base groups being executed."""
    first, second = ArchiveRun.create(archive), ArchiveRun.create(archive)
    archive.advance(first.run_id)
    started = {p.run_id: first.start(p) for p in second.publish()}
    return first, started[first.run_id], second, started[second.run_id]


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


def test_a_record_that_is_there_stays_and_its_rival_leaves_no_generation(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    run.flush([run.draft(base, GRAND, outcome=Outcome.FAILED)])
    executed = run.draft(base, GRAND, text="42")

    result = run.flush([executed])

    assert result.present == {executed.key: REFUSED}
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

    assert result.present == {empty.key: REFUSED}
    assert result.missing == {twin.key}
    assert run.flush([twin]).written == {twin.key}


def test_a_record_that_is_there_is_told_as_it_is_and_with_the_text_it_was_scored_from(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    run.flush([replace(run.draft(base, GRAND, text="first"), utility=5.0)])
    late = run.draft(base, GRAND, text="second")

    result = run.flush([late], process_id="other")

    assert result.present == {late.key: StoredRecord(Outcome.EXECUTED, 5.0)}
    assert result.conflicts[late.coalition_key].text == "first"


def test_a_failed_value_beside_a_text_that_somebody_else_stored_first_gets_no_record(
    archive: Archive, engine: Engine
) -> None:
    first, firsts, second, seconds = two_started_runs(archive)
    first.flush([first.draft(firsts, GRAND, text="first")])
    late = unscorable(second, seconds, GRAND, "second")

    result = second.flush([late], process_id="other")

    assert (result.written, result.missing) == (frozenset(), frozenset())
    assert result.conflicts[late.coalition_key].text == "first"
    assert archive.utility_records(second.run_id) == []
    again = second.draft(seconds, GRAND, outcome=Outcome.DEDUPLICATED)
    assert second.flush([again]).written == {again.key}
    assert count_generations(engine) == count_executed(engine) == 1


def test_a_failed_value_is_stored_with_the_text_it_could_not_be_computed_from(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    draft = unscorable(run, run.start_next(), GRAND, "words only")

    first, again = run.flush([draft]), run.flush([draft])

    assert first.written == {draft.key}
    assert first.conflicts == {}
    assert again.present == {draft.key: StoredRecord(Outcome.FAILED, error="no number")}
    assert archive.generations([draft.coalition_key]) == {draft.coalition_key: draft.generation}
    assert (count_generations(engine), count_executed(engine)) == (1, 0)


def test_a_failed_value_whose_text_its_own_record_could_not_store_is_missing(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    run.flush([run.draft(base, EMPTY, outcome=Outcome.FAILED)])
    empty = run.draft(base, EMPTY, text="42")
    twin = replace(unscorable(run, base, GRAND, "42"), coalition_key=empty.coalition_key)

    result = run.flush([empty, twin])

    assert result.missing == {twin.key}
    assert run.flush([twin]).written == {twin.key}


def test_texts_that_were_paid_for_count_although_their_value_failed(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    text = Generation("words only", prompt_tokens=100, cached_tokens=7, completion_tokens=20)
    run.flush([replace(unscorable(run, base, GRAND, ""), generation=text)])
    halfway = archive.progress(run.run_id)

    run.flush([run.draft(base, EMPTY, text="1")])

    progress = archive.progress(run.run_id)
    assert (halfway.prompt_tokens, halfway.cached_tokens, halfway.kv_cache_hits) == (100, 7, 1)
    assert (progress.prompt_tokens, progress.cached_tokens, progress.completion_tokens) == (110, 7, 22)
    assert (progress.executed, progress.failed, progress.kv_cache_hits) == (1, 1, 1)
    assert progress.reasoning_tokens is None
    with engine.connect() as connection:
        row = connection.execute(select(groups).where(groups.c.run_id == run.run_id)).one()
    assert (row.prompt_tokens, row.cached_tokens, row.completion_tokens, row.reasoning_tokens) == (110, 7, 22, None)
    assert row.kv_cache_hits == 1


def test_a_failed_value_of_a_text_that_was_there_costs_nothing(archive: Archive) -> None:
    first, firsts, second, seconds = two_started_runs(archive)
    first.flush([unscorable(first, firsts, GRAND, "words only")])
    again = replace(unscorable(second, seconds, GRAND, ""), generation=None)

    second.flush([again, second.draft(seconds, EMPTY, outcome=Outcome.FAILED)])

    assert archive.progress(first.run_id).prompt_tokens == 10
    assert (archive.progress(second.run_id).failed, archive.progress(second.run_id).prompt_tokens) == (2, None)


def test_a_flush_that_is_repeated_pays_once(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    draft = unscorable(run, run.start_next(), GRAND, "words only")

    run.flush([draft])
    run.flush([draft])

    assert archive.progress(run.run_id).prompt_tokens == 10
