"""`InferenceScheduler`: runs coalition jobs with a bounded number of generations in flight.

The same class serves a notebook, with everything in memory, and the worker, with claims in Redis and records in SQL.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterable, Callable, Iterable, Sequence

from coalq.errors import HandBack
from coalq.generation import GenerationConfig
from coalq.inference.call import Call, RunReport, SetAsideRules
from coalq.inference.evaluation import Evaluator
from coalq.inference.jobs import CoalitionJob
from coalq.inference.places import Places
from coalq.inference.ports import DedupRegistry, GenerateFn, RecordArchive, ResultStore
from coalq.inference.progress import CoalitionProgress, NullCoalitionProgress
from coalq.outcome import SchedulerMetrics

Halted = Callable[[], bool]


class InferenceScheduler:
    """Runs coalition jobs; one instance belongs to one event loop.

    Calls may overlap: they share the limit in flight, the older call first, and equal keys share one generation. A job
    that fails is recorded and counted, never raised. An error that is nobody's own (of the iterable of jobs, of the
    archive, of the claims) stops the call; it is raised when what is in flight has ended.

    Args:
        max_inflight: Generations that may run at once.
        generation: The settings that `generate` uses.
        store: Recent generations.
        dedup: Who may generate a key. Without it equal jobs share a generation only through the store.
        archive: Where records go; without it they are only counted.
        pending_limit: Job coroutines per call, that is jobs taken and not finished; 4 × `max_inflight` by default.
        progress: Told the plan when its size is known, then every finished job.
        poll_s: Longest time between two attempts at a key that another process generates, seconds.
        set_aside_patience_s: How long a call with nothing left but such keys goes on without a record, seconds.
        jitter: Random number in [0, 1).

    Raises:
        ValueError: If a limit is below 1.
    """

    def __init__(  # noqa: PLR0917 - this order of arguments is public
        self,
        max_inflight: int,
        generation: GenerationConfig,
        store: ResultStore,
        dedup: DedupRegistry | None = None,
        archive: RecordArchive | None = None,
        pending_limit: int | None = None,
        progress: CoalitionProgress | None = None,
        *,
        poll_s: float = 1.0,
        set_aside_patience_s: float = 5.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if max_inflight < 1:
            raise ValueError("max_inflight must be at least 1")
        if pending_limit is not None and pending_limit < 1:
            raise ValueError("pending_limit must be at least 1")
        self.generation = generation
        self._pending_limit = 4 * max_inflight if pending_limit is None else pending_limit
        self._rules = SetAsideRules(poll_s, set_aside_patience_s, 4 * self._pending_limit, jitter)
        self._progress = progress or NullCoalitionProgress()
        self._places = Places(max_inflight)
        self._evaluator = Evaluator(
            self._places, store=store, dedup=dedup, archive=archive, on_recorded=self._tell_progress
        )
        self._calls: dict[int, Call] = {}
        self._n_calls = 0
        self._planned = 0
        self._finished = 0

    @property
    def in_flight(self) -> int:
        """Generations running now, over all calls."""
        return self._places.in_flight

    @property
    def uncommitted(self) -> int:
        """Generations running or finished but not committed, over all calls; at most 1.5 × `max_inflight`."""
        return self._places.uncommitted

    async def run(self, jobs: Sequence[CoalitionJob], generate: GenerateFn) -> SchedulerMetrics:
        """Run all jobs of a sequence."""
        return await self.run_iter(jobs, generate, total=len(jobs))

    async def run_iter(
        self,
        jobs: Iterable[CoalitionJob],
        generate: GenerateFn,
        total: int | None = None,
        *,
        halted: Halted | None = None,
    ) -> SchedulerMetrics:
        """Run jobs from an iterable, taken only as fast as they are done.

        `requested` says how many have their record. It is less than there are jobs only if `halted` became true or
        `HandBack` was raised; `execute` tells the two numbers apart.
        """
        return (await self.execute(jobs, generate, total=total, halted=halted)).metrics

    async def run_stream(
        self,
        jobs: AsyncIterable[CoalitionJob],
        generate: GenerateFn,
        total: int | None = None,
        *,
        halted: Halted | None = None,
    ) -> SchedulerMetrics:
        """The same for jobs that become known over time."""
        return (await self.execute(jobs, generate, total=total, halted=halted)).metrics

    async def execute(
        self,
        jobs: Iterable[CoalitionJob] | AsyncIterable[CoalitionJob],
        generate: GenerateFn,
        *,
        total: int | None = None,
        halted: Halted | None = None,
    ) -> RunReport:
        """Run jobs and say also what was not done.

        Args:
            jobs: Taken lazily.
            generate: Asks the model for one rendered conversation.
            total: How many jobs there will be, if known.
            halted: Asked before every start and a few times a second. Once true nothing new is started; generations in
                flight end normally and are recorded; the rest is handed back.

        Raises:
            asyncio.CancelledError: The caller was cancelled; every claim and place has been given back.
        """
        stream = jobs if isinstance(jobs, AsyncIterable) else None
        self._n_calls += 1
        call = Call(
            self._n_calls,
            iter(jobs) if not isinstance(jobs, AsyncIterable) else None,
            total=total,
            halted=halted,
            rules=self._rules,
        )
        self._calls[call.number] = call
        try:
            if total is not None:
                self._progress.on_coalitions_planned(self._count_planned())
            await self._run_call(call, stream, generate, n_coroutines=self._count_coroutines(total))
        finally:
            self._places.refuse(call.number)
            del self._calls[call.number]
            self._planned += call.planned
        if call.error is not None:
            raise call.error
        return call.report

    def _count_coroutines(self, total: int | None) -> int:
        return self._pending_limit if total is None else max(1, min(total, self._pending_limit))

    def _count_planned(self) -> int:
        return self._planned + sum(call.planned for call in self._calls.values())

    def _tell_progress(self) -> None:
        self._finished += 1
        self._progress.on_coalition_finished(self._finished, max(self._count_planned(), self._finished))

    async def _run_call(
        self, call: Call, stream: AsyncIterable[CoalitionJob] | None, generate: GenerateFn, *, n_coroutines: int
    ) -> None:
        async with asyncio.TaskGroup() as tasks:
            feeder = tasks.create_task(_feed(call, stream)) if stream is not None else None
            working = {tasks.create_task(self._work(call, generate)) for _ in range(n_coroutines)}
            try:
                while working:
                    _, working = await asyncio.wait(working, timeout=call.look_s)
                    call.look()
                    if call.is_stopped:
                        self._places.refuse(call.number)
            finally:
                # Also when the caller is cancelled: a `generate` that swallows its cancellation must not go on.
                call.stop()
                if feeder is not None:
                    feeder.cancel()

    async def _work(self, call: Call, generate: GenerateFn) -> None:
        while (job := await call.next_job()) is not None:
            try:
                await self._evaluator.process(call, job, generate)
            except HandBack:
                call.hand_back()
            except asyncio.CancelledError:
                if _is_being_cancelled():
                    raise
                # Cancelled from inside, e.g. by a client that was closed: nothing is known about this job.
                call.hand_back()
            except Exception as error:  # noqa: BLE001 - raised by `execute`, once what is in flight has ended
                call.fail(error)
            finally:
                call.job_done()


async def _feed(call: Call, stream: AsyncIterable[CoalitionJob]) -> None:
    try:
        async for job in stream:
            call.offer(job)
            await call.wait_hungry()
            if call.is_stopped:
                return
    except asyncio.CancelledError as error:
        if _is_being_cancelled():
            raise
        failure = RuntimeError("the stream of jobs was cancelled")
        failure.__cause__ = error
        call.fail(failure)
    except Exception as error:  # noqa: BLE001 - raised by `execute`, once what is in flight has ended
        call.fail(error)
    else:
        call.end_of_jobs()


def _is_being_cancelled() -> bool:
    """Whether somebody cancelled this task, as opposed to a `CancelledError` that came out of what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
