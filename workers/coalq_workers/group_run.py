"""Executes one group that this process owns: reads what is known, generates the rest, sees it finished."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from coalq.archive import Archive, GroupKey, StartedGroup
from coalq.conversation import ConversationSnapshot
from coalq.errors import CoalqError, HandBack
from coalq.generation import Generation
from coalq.inference import CoalitionRecordDraft, HotResultStore, InferenceScheduler
from coalq.outcome import Outcome, SchedulerMetrics
from coalq.run_jobs import RunContext, Sampled
from coalq_workers.backends import Backend
from coalq_workers.executions import Execution
from coalq_workers.jobs import GroupJob, group_jobs, unrecorded
from coalq_workers.patience import ModelHealth, Patience, ask_patiently
from coalq_workers.work_threads import WorkThreads
from coalq_workers.writer import RecordWriter

logger = logging.getLogger(__name__)

_CONTEXTS_KEPT = 64


@dataclass(frozen=True, slots=True)
class GroupEnd:
    """How an execution ended.

    Attributes:
        finished: Whether the group's last record is in the archive.
        metrics: What this execution did.
    """

    finished: bool
    metrics: SchedulerMetrics

    def __str__(self) -> str:
        done = self.metrics
        return (
            f"executed={done.executed} cache_hits={done.cache_hits} deduplicated={done.deduplicated} "
            f"failed={done.failed}{'' if self.finished else ' handed back'}"
        )


class GroupRunner:
    """Runs groups on the process's one scheduler. Used from the event loop only."""

    def __init__(
        self,
        archive: Archive,
        threads: WorkThreads,
        *,
        backend: Backend,
        health: ModelHealth,
        scheduler: InferenceScheduler,
        store: HotResultStore,
        writer: RecordWriter,
        endpoint_wait_s: float,
    ) -> None:
        self._archive = archive
        self._threads = threads
        self._backend = backend
        self._health = health
        self._scheduler = scheduler
        self._store = store
        self._writer = writer
        self._endpoint_wait_s = endpoint_wait_s
        self._contexts: OrderedDict[str, RunContext] = OrderedDict()

    async def run(self, group: StartedGroup, execution: Execution) -> GroupEnd:
        """Run a started group until its last record is committed or there is nothing more to do here.

        Raises:
            HandBack: This process cannot run it (unknown value function, database away).
        """
        context = await self._context(group.run_id)
        recorded = await self._threads.database(self._archive.recorded, group.run_id, group.group_number)
        wanted = unrecorded(context, group, recorded)
        if group.group_number == 0:
            metrics = await self._run_base_group(context, group, wanted, execution)
        else:
            metrics = await self._evaluate(await self._with_base(context), group, wanted, execution)
        finished = await self._writer.is_finished(GroupKey(group.run_id, group.group_number))
        return GroupEnd(finished=finished, metrics=metrics)

    async def _run_base_group(
        self, context: RunContext, group: StartedGroup, wanted: Sequence[Sampled], execution: Execution
    ) -> SchedulerMetrics:
        """The grand coalition's first sample alone, as everything else is scored against it; then the others."""
        base = [pair for pair in wanted if pair == context.base_pair]
        rest = [pair for pair in wanted if pair != context.base_pair]
        first = await self._evaluate(context, group, base, execution)
        if not rest or execution.halted():
            return first
        generation = await self._threads.database(self._archive.base_generation, group.run_id)
        if generation is not None:
            return first + await self._evaluate(context.with_base(generation), group, rest, execution)
        if first.requested < len(base):
            return first
        return first + await self._fail(context, group, rest)

    async def _fail(self, context: RunContext, group: StartedGroup, pairs: Sequence[Sampled]) -> SchedulerMetrics:
        """Without a base nothing can be scored: no call is made, and the group still ends with all its records."""
        error = "not asked: the grand coalition's generation failed"
        drafts = [CoalitionRecordDraft(job, Outcome.FAILED, error=error) for job in group_jobs(context, group, pairs)]
        await asyncio.gather(*(self._writer.append(draft) for draft in drafts))
        return SchedulerMetrics(requested=len(drafts), failed=len(drafts))

    async def _evaluate(
        self, context: RunContext, group: StartedGroup, pairs: Sequence[Sampled], execution: Execution
    ) -> SchedulerMetrics:
        if not pairs:
            return SchedulerMetrics()
        jobs = group_jobs(context, group, pairs)
        await self._read_known(jobs)
        patience = Patience(is_first_group=group.group_number == 0, endpoint_wait_s=self._endpoint_wait_s)
        manifest = context.manifest
        health = self._health.of(manifest.model)

        async def generate(snapshot: ConversationSnapshot) -> Generation:
            async def ask() -> Generation:
                return await self._backend.generate(snapshot, model=manifest.model, generation=manifest.generation)

            return await ask_patiently(ask, health=health, patience=patience, halt=execution.halt)

        return await self._scheduler.run_iter(jobs, generate, total=len(jobs), halted=execution.halted)

    async def _read_known(self, jobs: Sequence[GroupJob]) -> None:
        """Put what the archive knows of these keys into the hot store: one read, and a group of hits needs no claim."""
        keys = [job.coalition_key for job in jobs if self._store.get(job.coalition_key) is None]
        if keys:
            found = await self._threads.database(self._archive.generations, sorted(set(keys)))
            for key, generation in found.items():
                self._store.put(key, generation)

    async def _context(self, run_id: str) -> RunContext:
        known = self._contexts.get(run_id)
        if known is None:
            stored = await self._threads.database(self._archive.manifest, run_id)
            try:
                known = RunContext.of_stored(stored)
            except (CoalqError, ValueError) as error:
                raise HandBack(f"run {run_id} cannot be run by this worker: {error}") from error
            self._remember(known)
        self._contexts.move_to_end(run_id)
        return known

    async def _with_base(self, context: RunContext) -> RunContext:
        if context.base is not None:
            return context
        run_id = context.manifest.run_id
        base = await self._threads.database(self._archive.base_generation, run_id)
        if base is None:
            raise HandBack(f"run {run_id}: the base generation is not archived")
        known = context.with_base(base)
        self._remember(known)
        return known

    def _remember(self, context: RunContext) -> None:
        self._contexts[context.manifest.run_id] = context
        if len(self._contexts) > _CONTEXTS_KEPT:
            self._contexts.popitem(last=False)
