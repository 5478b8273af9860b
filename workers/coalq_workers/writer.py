"""Writes the process's records: batches of finished jobs, one transaction each, utilities computed just before.

Nothing is told to anyone before its commit: a job's record is returned when it is in the archive, with the text that
is really stored there, be it another process's.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from coalq.archive import Archive, Draft, FlushResult, GroupKey
from coalq.errors import CoalqError, HandBack, PermanentError, TransientError
from coalq.inference import CoalitionRecord, CoalitionRecordDraft, describe_error
from coalq.outcome import Outcome
from coalq_workers.jobs import GroupJob
from coalq_workers.work_threads import WorkThreads

logger = logging.getLogger(__name__)

BATCH_ROWS = 256
BATCH_WAIT_S = 0.05

Waiting = tuple[CoalitionRecordDraft, "asyncio.Future[CoalitionRecord]"]


class RecordWriter:
    """The scheduler's archive port. One per process; `serve` runs for as long as the process does.

    Args:
        process_id: Stored with each generation.
        stopped: Asked between retries of a failing transaction; True gives the batch up.
        max_inflight: The scheduler's limit. It starts nothing new while half as many rows wait, so no batch is larger.
    """

    def __init__(
        self, archive: Archive, threads: WorkThreads, *, process_id: str, stopped: Callable[[], bool], max_inflight: int
    ) -> None:
        self._archive = archive
        self._threads = threads
        self._process_id = process_id
        self._stopped = stopped
        self._full_at = max(1, min(BATCH_ROWS, max_inflight // 2))
        self._waiting: deque[Waiting] = deque()
        self._something = asyncio.Event()
        self._full = asyncio.Event()
        self._finished: set[GroupKey] = set()

    async def append(self, draft: CoalitionRecordDraft) -> CoalitionRecord:
        """Queue a finished job and wait for its commit.

        Raises:
            HandBack: If it could not be committed; nothing was recorded.
        """
        committed: asyncio.Future[CoalitionRecord] = asyncio.get_running_loop().create_future()
        self._waiting.append((draft, committed))
        self._something.set()
        if len(self._waiting) >= self._full_at:
            self._full.set()
        return await committed

    async def is_finished(self, group: GroupKey) -> bool:
        """Whether the group's last record is committed; tests it in the archive when no flush has said so."""
        if group not in self._finished:
            result = await self._threads.writer(self._flush, [], [group])
            self._finished.update(result.finished)
        finished = group in self._finished
        self._finished.discard(group)
        return finished

    async def serve(self) -> None:
        """Flush batches until cancelled: when the scheduler waits for it, or after 50 ms, whichever is first."""
        while True:
            await self._something.wait()
            if len(self._waiting) < self._full_at:
                await self._wait_for_more()
            batch = [self._waiting.popleft() for _ in range(min(BATCH_ROWS, len(self._waiting)))]
            if not self._waiting:
                self._something.clear()
            if len(self._waiting) < self._full_at:
                self._full.clear()
            await self._commit(batch)

    async def _wait_for_more(self) -> None:
        try:
            async with asyncio.timeout(BATCH_WAIT_S):
                await self._full.wait()
        except TimeoutError:
            return

    async def _commit(self, batch: Sequence[Waiting]) -> None:
        """Commit a batch; when it fails as a whole, commit its rows one by one, so that one loses no other."""
        drafts = [draft for draft, _ in batch]
        try:
            records = await self._threads.writer(self._write, drafts)
        except TransientError as error:
            self._refuse(batch, error)
        except Exception:
            if len(batch) == 1:
                logger.exception("record of %s cannot be written", drafts[0].job.coalition_key)
                self._refuse(batch, HandBack("the archive refuses the record"))
                return
            for entry in batch:
                await self._commit([entry])
        else:
            for (_, committed), record in zip(batch, records, strict=True):
                if not committed.done():
                    committed.set_result(record)

    @staticmethod
    def _refuse(batch: Sequence[Waiting], error: CoalqError) -> None:
        for _, committed in batch:
            if not committed.done():
                committed.set_exception(HandBack(str(error)))

    def _write(self, drafts: list[CoalitionRecordDraft]) -> list[CoalitionRecord]:
        """In the writer's thread: score and flush; score again what turned out to be stored otherwise."""
        records = [_score(draft) for draft in drafts]
        open_rows = list(range(len(drafts)))
        while open_rows:
            rows = [self._row(drafts[i], records[i]) for i in open_rows]
            result = self._flush(rows, [])
            self._finished.update(result.finished)
            again = []
            for i, row in zip(open_rows, rows, strict=True):
                corrected = _corrected(drafts[i], row, result)
                if corrected is not None:
                    drafts[i], records[i] = corrected, _score(corrected)
                    again.append(i)
            open_rows = again
        return records

    def _flush(self, drafts: list[Draft], checked_groups: list[GroupKey]) -> FlushResult:
        """Flush through a database outage, in bounded memory: while this waits, nothing new is started."""
        while True:
            try:
                return self._archive.flush(drafts, process_id=self._process_id, checked_groups=checked_groups)
            except TransientError as error:
                if self._stopped():
                    raise
                logger.warning("the archive does not take %d records yet: %s", len(drafts), error)

    def _row(self, draft: CoalitionRecordDraft, record: CoalitionRecord) -> Draft:
        job = draft.job
        if not isinstance(job, GroupJob):
            raise TypeError(f"the worker writes jobs of groups only, not {type(job).__name__}")
        return Draft(
            run_id=job.run_id,
            group_number=job.group_number,
            mask=job.mask_words,
            sample=job.sample,
            coalition_key=job.coalition_key,
            model_id=job.model_id,
            outcome=record.outcome,
            utility=record.utility,
            error=record.error,
            generation=draft.generation if draft.outcome is Outcome.EXECUTED else None,
        )


def _score(draft: CoalitionRecordDraft) -> CoalitionRecord:
    """The record a draft makes: its utility, or failed when the value function cannot say one."""
    job = draft.job
    if draft.generation is None or job.utility is None:
        return CoalitionRecord.of(job, draft.outcome, generation=draft.generation, error=draft.error)
    try:
        utility = job.utility(draft.generation)
    except PermanentError as error:
        return CoalitionRecord.of(job, Outcome.FAILED, error=describe_error(error))
    return CoalitionRecord.of(job, draft.outcome, generation=draft.generation, utility=utility)


def _corrected(draft: CoalitionRecordDraft, row: Draft, result: FlushResult) -> CoalitionRecordDraft | None:
    """How a draft that got no record has to be flushed again; None if it is settled."""
    if row.key in result.missing:
        # Known from memory only (pruned from the archive since): store it again as this process's own.
        return replace(draft, outcome=Outcome.EXECUTED)
    stored = result.conflicts.get(row.coalition_key)
    settled = row.key in result.written or row.key in result.present or row.key in result.dropped
    if stored is None or row.generation is None or settled:
        return None
    return replace(draft, outcome=Outcome.DEDUPLICATED, generation=stored)
