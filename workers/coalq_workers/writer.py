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
from coalq.errors import BaseUnknownError, HandBack, LeaseLost, TransientError
from coalq.inference import CoalitionJob, CoalitionRecord, CoalitionRecordDraft, describe_error, score
from coalq.outcome import Outcome
from coalq_workers.jobs import GroupJob
from coalq_workers.work_threads import WorkThreads

logger = logging.getLogger(__name__)

BATCH_ROWS = 256
BATCH_WAIT_S = 0.05

Waiting = tuple[CoalitionRecordDraft, "asyncio.Future[CoalitionRecord]"]

End = CoalitionRecord | HandBack
"""What `append` returns or raises."""


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
            HandBack: If it could not be committed; nothing was recorded by this call.
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
        try:
            ends = await self._threads.writer(self._write, [draft for draft, _ in batch])
        except TransientError as error:
            _tell(batch, [HandBack(str(error)) for _ in batch])
        except Exception as error:  # noqa: BLE001 - one row's fault, or a bug: either way the other rows are committed
            if len(batch) == 1:
                await self._commit_refused(batch[0], error)
                return
            for entry in batch:
                await self._commit([entry])
        else:
            _tell(batch, ends)

    async def _commit_refused(self, entry: Waiting, error: Exception) -> None:
        """A row that fails by itself becomes a failed record, or it would be generated again for ever."""
        draft, _ = entry
        reason = _reason(error)
        logger.error("the record of %s cannot be written: %s", draft.job.coalition_key, reason)
        if isinstance(error, BaseUnknownError):
            _tell([entry], [HandBack(reason)])
            return
        failed = CoalitionRecordDraft(draft.job, Outcome.FAILED, error=f"the archive refuses this record: {reason}")
        try:
            _tell([entry], await self._threads.writer(self._write, [failed]))
        except Exception as again:  # noqa: BLE001 - whatever it is, nothing is recorded and the service goes on
            _tell([entry], [HandBack(f"the archive refuses even a failed record: {_reason(again)}")])

    def _write(self, drafts: list[CoalitionRecordDraft]) -> list[End]:
        """In the writer's thread: score and flush; score again what turned out to be stored otherwise."""
        ends: dict[int, End] = {}
        left = dict(enumerate(drafts))
        while left:
            records = {number: score(draft) for number, draft in left.items()}
            rows = {number: _row(draft, records[number]) for number, draft in left.items()}
            result = self._flush(list(rows.values()), [])
            self._finished.update(result.finished)
            for number, row in rows.items():
                end = _settle(left[number], row, records[number], result)
                if isinstance(end, CoalitionRecordDraft):
                    left[number] = end
                else:
                    ends[number] = end
                    del left[number]
        return [ends[number] for number in range(len(drafts))]

    def _flush(self, drafts: list[Draft], checked_groups: list[GroupKey]) -> FlushResult:
        """Flush through a database outage, in bounded memory: while this waits, nothing new is started.

        Gives up between two tries only, each of which lasts as long as the archive's patience.
        """
        while True:
            try:
                return self._archive.flush(drafts, process_id=self._process_id, checked_groups=checked_groups)
            except TransientError as error:
                if self._stopped():
                    raise
                logger.warning("the archive does not take %d records yet: %s", len(drafts), error)


def _tell(batch: Sequence[Waiting], ends: Sequence[End]) -> None:
    for (_, committed), end in zip(batch, ends, strict=True):
        if committed.done():
            continue
        if isinstance(end, HandBack):
            committed.set_exception(end)
        else:
            committed.set_result(end)


def _reason(error: Exception) -> str:
    """The first line only: a database's further ones may quote the row."""
    return describe_error(error).partition("\n")[0]


def _row(draft: CoalitionRecordDraft, record: CoalitionRecord) -> Draft:
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


def _settle(
    draft: CoalitionRecordDraft, row: Draft, record: CoalitionRecord, result: FlushResult
) -> End | CoalitionRecordDraft:
    """How a flushed row ended, or as what it has to be flushed again. No text but the archived one gets out of here."""
    if row.key in result.written:
        return record
    if row.key in result.present:
        return _stored_record(draft.job, row, result)
    if row.key in result.dropped:
        return LeaseLost(f"group {row.group_number} of run {row.run_id} takes no further records")
    if row.key in result.missing:
        # Known from memory only (pruned from the archive since): store it again as this process's own.
        return replace(draft, outcome=Outcome.EXECUTED)
    return replace(draft, outcome=Outcome.DEDUPLICATED, generation=result.conflicts[row.coalition_key])


def _stored_record(job: CoalitionJob, row: Draft, result: FlushResult) -> End:
    """The record that was there before, with the text that it was scored from."""
    stored = result.present[row.key]
    if stored.outcome is Outcome.FAILED:
        return CoalitionRecord.of(job, stored.outcome, error=stored.error)
    generation = result.conflicts.get(row.coalition_key)
    if generation is None:
        return LeaseLost(f"the record of {row.coalition_key} is there, but its generation is no longer archived")
    return CoalitionRecord.of(job, stored.outcome, generation=generation, utility=stored.utility)
