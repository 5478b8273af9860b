"""A worker's writer on a real archive, and jobs for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from archive_runs import ArchiveRun
from coalq.archive import Archive, StartedGroup
from coalq.config import Manifest
from coalq.generation import Generation
from coalq.inference import CoalitionRecordDraft
from coalq.outcome import Outcome
from coalq.run_jobs import RunContext
from coalq_workers.jobs import GroupJob, group_jobs
from coalq_workers.work_threads import WorkThreads
from coalq_workers.writer import RecordWriter


@asynccontextmanager
async def serving(
    archive: Archive, *, process_id: str = "me", stopped: Callable[[], bool] = lambda: True
) -> AsyncIterator[RecordWriter]:
    """The writer of one process, at work."""
    threads = WorkThreads()
    writer = RecordWriter(archive, threads, process_id=process_id, stopped=stopped, max_inflight=4)
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
    """A job whose answer this process generated."""
    return CoalitionRecordDraft(job, Outcome.EXECUTED, generation=Generation(text))
