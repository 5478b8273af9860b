"""The worker's writer against real archives."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from archive_runs import ArchiveRun
from coalq.archive import Archive, GroupKey, open_engine
from coalq.errors import BaseUnknownError, HandBack, PermanentError
from coalq.generation import Generation
from coalq.inference import CoalitionRecordDraft, Utility
from coalq.masks import unpack_mask
from coalq.outcome import Outcome
from writer_parts import base_jobs, executed, serving


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


@pytest.mark.parametrize("fault", [PermanentError("value broken: boom"), RuntimeError("boom"), RecursionError("deep")])
async def test_a_fault_of_the_value_function_itself_loses_no_other_record(archive: Archive, fault: Exception) -> None:
    run = ArchiveRun.create(archive)
    grand, empty = base_jobs(run, run.start_next())

    async with serving(archive) as writer:
        bad, good = await asyncio.gather(
            writer.append(executed(replace(empty, utility=raising(fault)), "1")), writer.append(executed(grand, "7"))
        )

    assert (bad.outcome, good.outcome) == (Outcome.FAILED, Outcome.EXECUTED)
    assert "boom" in (bad.error or "") or "deep" in (bad.error or "")


async def test_a_utility_that_is_not_finite_fails_its_record(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    _, empty = base_jobs(run, run.start_next())

    async with serving(archive) as writer:
        record = await writer.append(executed(replace(empty, utility=lambda _: math.nan), "1"))

    assert (record.outcome, record.error) == (Outcome.FAILED, "the utility is not a finite number: nan")


async def test_a_record_whose_base_is_not_known_yet_is_handed_back_alone(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    grand, empty = base_jobs(run, run.start_next())
    unknown = replace(empty, utility=raising(BaseUnknownError("no base yet")))

    async with serving(archive) as writer:
        early, kept = await asyncio.gather(
            writer.append(executed(unknown, "1")), writer.append(executed(grand, "7")), return_exceptions=True
        )

    assert isinstance(early, HandBack)
    assert not isinstance(kept, BaseException)
    assert [record.utility for record in archive.utility_records(run.run_id)] == [7.0]


async def test_a_record_the_archive_refuses_for_good_fails_alone_so_that_its_group_can_end(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    grand, empty = base_jobs(run, run.start_next())
    unstorable = Generation("1", prompt_tokens=2**63)

    async with serving(archive) as writer:
        refused, kept = await asyncio.gather(
            writer.append(CoalitionRecordDraft(empty, Outcome.EXECUTED, generation=unstorable)),
            writer.append(executed(grand, "7")),
        )
        finished = await writer.is_finished(GroupKey(run.run_id, 0))

    assert (refused.outcome, refused.generation, kept.outcome) == (Outcome.FAILED, None, Outcome.EXECUTED)
    assert (refused.error or "").startswith("the archive refuses this record: ")
    assert finished
    assert [record.error for record in archive.utility_records(run.run_id)] == [refused.error, None]
    assert archive.generations([empty.coalition_key]) == {}


async def test_an_archive_that_refuses_even_a_failed_record_gets_the_job_back(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    grand, _ = base_jobs(run, run.start_next())
    with engine.begin() as connection:
        connection.execute(text("DROP VIEW coalition_records"))
        connection.execute(text("DROP TABLE records"))

    async with serving(archive) as writer:
        with pytest.raises(HandBack, match="the archive refuses even a failed record"):
            await writer.append(executed(grand, "7"))


async def test_a_database_that_stays_away_hands_back_when_the_process_stops(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    grand, _ = base_jobs(run, run.start_next())
    gone = Archive(create_engine("sqlite:////nowhere/at/all.db"), patience_s=0.2)
    async with serving(gone) as writer:
        with pytest.raises(HandBack, match="does not answer"):
            await writer.append(executed(grand, "7"))


async def test_a_writer_that_drains_tries_on_until_its_time_is_over(sqlite_url: str, tmp_path: Path) -> None:
    prepared = Archive(open_engine(sqlite_url))
    run = ArchiveRun.create(prepared)
    grand, _ = base_jobs(run, run.start_next())
    prepared.close()
    away = tmp_path / "away"
    archive = Archive(create_engine(f"sqlite:///{away / 'archive.db'}"), patience_s=0.05)
    asked: list[bool] = []

    def stopped() -> bool:
        asked.append(True)
        if len(asked) == 2:
            away.symlink_to(tmp_path)
        return False

    async with serving(archive, stopped=stopped) as writer:
        record = await writer.append(executed(grand, "7"))

    assert record.outcome is Outcome.EXECUTED
    assert len(asked) == 2
    archive.close()


def raising(error: Exception) -> Utility:
    """A value function with a fault."""

    def fail(_: Generation) -> float:
        raise error

    return fail
