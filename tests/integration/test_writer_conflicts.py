"""What the writer returns when somebody else was faster: always what is archived."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archive_runs import ArchiveRun
from coalq.archive import Archive
from coalq.conversation import ConversationSnapshot
from coalq.errors import LeaseLost
from coalq.generation import Generation, GenerationConfig
from coalq.inference import CoalitionDedupRegistry, CoalitionRecordDraft, HotResultStore, InferenceScheduler
from coalq.outcome import Outcome
from writer_parts import base_jobs, executed, serving


async def test_a_text_somebody_else_stored_first_is_scored_again(archive: Archive) -> None:
    theirs = ArchiveRun.create(archive)
    their_grand, _ = base_jobs(theirs, theirs.start_next())
    mine = ArchiveRun.create(archive)
    my_grand, _ = base_jobs(mine, mine.start_next())
    assert my_grand.coalition_key == their_grand.coalition_key
    async with serving(archive, process_id="other") as other, serving(archive) as writer:
        await other.append(executed(their_grand, "5"))

        record = await writer.append(executed(my_grand, "6"))

    assert (record.outcome, record.utility, record.generation_text) == (Outcome.DEDUPLICATED, 5.0, "5")
    assert [each.utility for each in archive.utility_records(mine.run_id)] == [5.0]


async def test_a_generation_known_from_memory_only_is_stored_again(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    grand, _ = base_jobs(run, run.start_next())
    async with serving(archive) as writer:
        record = await writer.append(CoalitionRecordDraft(grand, Outcome.CACHE_HIT, generation=Generation("7")))

    assert (record.outcome, record.utility) == (Outcome.EXECUTED, 7.0)
    assert archive.generations([grand.coalition_key])[grand.coalition_key].text == "7"


async def test_two_owners_of_a_group_and_all_later_hits_know_one_text(archive: Archive) -> None:
    """One process is frozen while another one executes its group; then it goes on, and its memory must not lie."""
    run = ArchiveRun.create(archive)
    grand, _ = base_jobs(run, run.start_next())
    store = HotResultStore()
    async with serving(archive, process_id="other") as other, serving(archive) as writer:

        async def answer_late(_: ConversationSnapshot) -> str:
            await other.append(executed(grand, "5"))
            return "6"

        scheduler = InferenceScheduler(4, GenerationConfig(), store, dedup=CoalitionDedupRegistry(), archive=writer)
        await scheduler.run([grand], answer_late)
        later = ArchiveRun.create(archive)
        hit, _ = base_jobs(later, later.start_next())
        metrics = await scheduler.run([hit], answer_late)

    known = store.get(grand.coalition_key)
    assert known is not None
    assert (known.text, metrics.cache_hits) == ("5", 1)
    assert [record.utility for record in archive.utility_records(later.run_id)] == [5.0]


async def test_a_record_that_is_there_is_returned_as_it_is_stored(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    grand, empty = base_jobs(run, run.start_next())
    async with serving(archive, process_id="other") as other, serving(archive) as writer:
        await other.append(executed(grand, "5"))
        await other.append(CoalitionRecordDraft(empty, Outcome.FAILED, error="HTTP 400: too long"))

        scored = await writer.append(executed(grand, "6"))
        failed_here = await writer.append(CoalitionRecordDraft(grand, Outcome.FAILED, error="HTTP 400"))
        unscorable_here = await writer.append(executed(grand, "no number"))
        failed_there = await writer.append(executed(empty, "1"))

    for record in (scored, failed_here, unscorable_here):
        assert (record.outcome, record.utility, record.generation_text) == (Outcome.EXECUTED, 5.0, "5")
    assert (failed_there.outcome, failed_there.error) == (Outcome.FAILED, "HTTP 400: too long")
    assert failed_there.generation is None
    assert archive.generations([empty.coalition_key]) == {}


@pytest.mark.parametrize("outcome", [Outcome.EXECUTED, Outcome.CACHE_HIT])
async def test_a_job_whose_run_is_gone_is_handed_back(archive: Archive, outcome: Outcome) -> None:
    run = ArchiveRun.create(archive)
    grand, _ = base_jobs(run, run.start_next())
    lost = replace(grand, run_id="nobody")
    async with serving(archive) as writer:
        with pytest.raises(LeaseLost, match="group 0 of run nobody takes no further records"):
            await writer.append(CoalitionRecordDraft(lost, outcome, generation=Generation("7")))

    assert archive.generations([grand.coalition_key]) == {}


async def test_a_value_that_fails_here_is_computed_from_the_text_that_was_stored_first(archive: Archive) -> None:
    theirs = ArchiveRun.create(archive)
    their_grand, _ = base_jobs(theirs, theirs.start_next())
    mine = ArchiveRun.create(archive)
    my_grand, _ = base_jobs(mine, mine.start_next())
    async with serving(archive, process_id="other") as other, serving(archive) as writer:
        await other.append(executed(their_grand, "5"))

        record = await writer.append(executed(my_grand, "no number"))

    assert (record.outcome, record.utility, record.generation_text) == (Outcome.DEDUPLICATED, 5.0, "5")


async def test_a_value_that_fails_on_the_text_stored_first_fails_though_our_own_text_has_one(archive: Archive) -> None:
    theirs = ArchiveRun.create(archive)
    their_grand, _ = base_jobs(theirs, theirs.start_next())
    mine = ArchiveRun.create(archive)
    my_grand, _ = base_jobs(mine, mine.start_next())
    async with serving(archive, process_id="other") as other, serving(archive) as writer:
        await other.append(executed(their_grand, "no number"))

        record = await writer.append(executed(my_grand, "5"))

    assert (record.outcome, record.generation) == (Outcome.FAILED, None)
    assert "number" in (record.error or "")
    assert archive.generations([my_grand.coalition_key])[my_grand.coalition_key].text == "no number"
