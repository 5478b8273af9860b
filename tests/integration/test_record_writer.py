"""The worker's writer against real archives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import create_engine

from archive_runs import ArchiveRun
from coalq.archive import Archive, GroupKey, StartedGroup
from coalq.config import Manifest
from coalq.errors import HandBack, PermanentError
from coalq.generation import Generation
from coalq.inference import CoalitionRecordDraft
from coalq.masks import unpack_mask
from coalq.outcome import Outcome
from coalq.run_jobs import RunContext
from coalq_workers.jobs import GroupJob, group_jobs
from coalq_workers.work_threads import WorkThreads
from coalq_workers.writer import RecordWriter


@asynccontextmanager
async def serving(archive: Archive, *, process_id: str = "me") -> AsyncIterator[RecordWriter]:
    threads = WorkThreads()
    writer = RecordWriter(archive, threads, process_id=process_id, stopped=lambda: True, max_inflight=4)
    service = asyncio.create_task(writer.serve())
    try:
        yield writer
    finally:
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)
        threads.close()


def base_jobs(run: ArchiveRun, group: StartedGroup) -> list[GroupJob]:
    """The jobs of the base group: the grand and the empty coalition, scored by the number they answer with."""
    context = RunContext.of(Manifest.model_validate(run.manifest.model_copy(update={"value": "number"})))
    context = context.with_base(Generation("7"))
    return group_jobs(context, group, [context.base_pair, (0, 0)])


def executed(job: GroupJob, text: str) -> CoalitionRecordDraft:
    return CoalitionRecordDraft(job, Outcome.EXECUTED, generation=Generation(text))


async def test_records_are_returned_after_their_commit_and_finish_the_group(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    grand, empty = base_jobs(run, run.start_next())
    async with serving(archive) as writer:
        first = await writer.append(executed(grand, "7"))
        half_done = await writer.is_finished(GroupKey(run.run_id, 0))

        await writer.append(executed(empty, "1"))
        done = await writer.is_finished(GroupKey(run.run_id, 0))

    assert (first.outcome, first.utility) == (Outcome.EXECUTED, 7.0)
    assert (half_done, done) == (False, True)
    records = archive.utility_records(run.run_id)
    assert [(record.mask, record.utility) for record in records] == [(0, 1.0), (unpack_mask(grand.mask_words), 7.0)]


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


async def test_a_value_that_cannot_be_computed_fails_its_own_record_only(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    grand, empty = base_jobs(run, run.start_next())
    async with serving(archive) as writer:
        good, bad = await asyncio.gather(
            writer.append(executed(grand, "7")), writer.append(executed(empty, "no number here"))
        )

    assert (good.outcome, good.utility) == (Outcome.EXECUTED, 7.0)
    assert (bad.outcome, bad.utility) == (Outcome.FAILED, None)
    assert "number" in (bad.error or "")


async def test_the_answer_of_a_failed_value_is_kept_so_that_it_is_never_asked_again(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    _, empty = base_jobs(run, run.start_next())
    async with serving(archive) as writer:
        await writer.append(executed(empty, "no number here"))

    assert archive.generations([empty.coalition_key])[empty.coalition_key].text == "no number here"


async def test_a_job_that_failed_leaves_its_error_and_no_generation(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    grand, _ = base_jobs(run, run.start_next())
    async with serving(archive) as writer:
        record = await writer.append(CoalitionRecordDraft(grand, Outcome.FAILED, error="HTTP 400: too long"))

    assert record.error == "HTTP 400: too long"
    assert archive.utility_records(run.run_id)[0].error == "HTTP 400: too long"
    assert archive.generations([grand.coalition_key]) == {}


async def test_a_generation_known_from_memory_only_is_stored_again(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    grand, _ = base_jobs(run, run.start_next())
    async with serving(archive) as writer:
        record = await writer.append(CoalitionRecordDraft(grand, Outcome.CACHE_HIT, generation=Generation("7")))

    assert (record.outcome, record.utility) == (Outcome.EXECUTED, 7.0)
    assert archive.generations([grand.coalition_key])[grand.coalition_key].text == "7"


async def test_a_fault_of_the_value_function_itself_loses_no_other_record(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    grand, empty = base_jobs(run, run.start_next())

    def explode(_: Generation) -> float:
        raise PermanentError("value broken: boom")

    broken = GroupJob(**{name: getattr(empty, name) for name in empty.__dataclass_fields__} | {"utility": explode})
    async with serving(archive) as writer:
        bad, good = await asyncio.gather(writer.append(executed(broken, "1")), writer.append(executed(grand, "7")))

    assert (bad.outcome, good.outcome) == (Outcome.FAILED, Outcome.EXECUTED)


async def test_a_record_the_archive_refuses_is_handed_back_alone(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    grand, empty = base_jobs(run, run.start_next())
    unstorable = Generation("7", prompt_tokens=2**70)
    async with serving(archive) as writer:
        refused, kept = await asyncio.gather(
            writer.append(CoalitionRecordDraft(empty, Outcome.EXECUTED, generation=unstorable)),
            writer.append(executed(grand, "7")),
            return_exceptions=True,
        )

    assert isinstance(refused, HandBack)
    assert not isinstance(kept, BaseException)
    assert [record.utility for record in archive.utility_records(run.run_id)] == [7.0]


async def test_a_database_that_stays_away_hands_back_when_the_process_stops(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    grand, _ = base_jobs(run, run.start_next())
    gone = Archive(create_engine("sqlite:////nowhere/at/all.db"), patience_s=0.2)
    async with serving(gone) as writer:
        with pytest.raises(HandBack, match="does not answer"):
            await writer.append(executed(grand, "7"))
