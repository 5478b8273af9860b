"""The scheduler's bounds: generations in flight, jobs taken, work finished but not committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from coalq.generation import GenerationConfig
from coalq.inference import CoalitionDedupRegistry, CoalitionJob, HotResultStore, InferenceScheduler, RunArchive
from coalq.outcome import SchedulerMetrics
from scheduler_parts import DooredArchive, Model, make_job, make_jobs, make_scheduler, until


@pytest.mark.parametrize("max_inflight", [0, -1])
def test_a_limit_below_one_is_refused(max_inflight: int) -> None:
    with pytest.raises(ValueError, match=r"^max_inflight must be at least 1$"):
        InferenceScheduler(max_inflight, GenerationConfig(), HotResultStore())


def test_a_pending_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^pending_limit must be at least 1$"):
        InferenceScheduler(1, GenerationConfig(), HotResultStore(), pending_limit=0)


async def test_no_more_generations_run_than_allowed_and_no_fewer() -> None:
    model = Model(is_open=False)
    scheduler = make_scheduler(5)
    running = asyncio.create_task(scheduler.run(make_jobs(40), model))

    await until(lambda: model.running == 5, "five run")
    assert scheduler.in_flight == 5
    model.door.open()
    await running

    assert model.most_running == 5
    assert (scheduler.in_flight, scheduler.uncommitted) == (0, 0)


async def test_overlapping_calls_share_the_limit_and_the_older_one_comes_first() -> None:
    model = Model(is_open=False)
    scheduler = make_scheduler(2)
    old = asyncio.create_task(scheduler.run([make_job(n, key=f"old-{n}") for n in range(4)], model))
    await until(lambda: model.running == 2, "the old call has both places")
    new = asyncio.create_task(scheduler.run([make_job(n, key=f"new-{n}") for n in range(2)], model))

    for name in ("old-0", "old-1", "old-2", "old-3", "new-0", "new-1"):
        await until(lambda expected=name: expected in model.calls, f"{name} starts")  # type: ignore[misc]
        model.door.open(name)
    await asyncio.gather(old, new)

    assert model.calls == ["old-0", "old-1", "old-2", "old-3", "new-0", "new-1"]
    assert model.most_running == 2


async def test_jobs_are_taken_from_the_iterable_only_as_fast_as_they_are_done() -> None:
    taken: list[int] = []

    def endless() -> Iterator[CoalitionJob]:
        for number in range(1000):
            taken.append(number)
            yield make_job(number)

    model = Model(is_open=False)
    running = asyncio.create_task(make_scheduler(2, pending_limit=6).run_iter(endless(), model))
    await until(lambda: model.running == 2, "two run")
    assert len(taken) == 6

    model.door.open()

    assert (await running).executed == 1000


async def test_the_default_is_four_jobs_taken_for_each_place() -> None:
    taken: list[int] = []

    def jobs() -> Iterator[CoalitionJob]:
        for number in range(100):
            taken.append(number)
            yield make_job(number)

    model = Model(is_open=False)
    running = asyncio.create_task(make_scheduler(3).run_iter(jobs(), model))
    await until(lambda: model.running == 3, "three run")

    assert len(taken) == 12
    model.door.open()
    await running


async def test_a_stream_is_run_as_it_comes_and_not_read_ahead() -> None:
    taken: list[int] = []
    more = asyncio.Event()

    async def stream() -> AsyncIterator[CoalitionJob]:
        for number in range(30):
            if number == 20:
                await more.wait()
            taken.append(number)
            yield make_job(number)

    model, archive = Model(is_open=False), RunArchive()
    running = asyncio.create_task(make_scheduler(2, pending_limit=4, archive=archive).run_stream(stream(), model))
    await until(lambda: model.running == 2, "two run")
    await until(lambda: len(taken) == 4, "the four coroutines are busy")
    model.door.open()
    await until(lambda: len(archive) == 20, "all that came is recorded while the stream pauses")
    more.set()

    assert await running == SchedulerMetrics(requested=30, executed=30)


@pytest.mark.parametrize(("max_inflight", "bound"), [(1, 1), (2, 3), (4, 6), (5, 7)])
async def test_a_writer_that_does_not_commit_stops_starts(max_inflight: int, bound: int) -> None:
    archive, model = DooredArchive(), Model()
    scheduler = make_scheduler(max_inflight, archive=archive, dedup=CoalitionDedupRegistry())
    running = asyncio.create_task(scheduler.run(make_jobs(50), model))

    await until(lambda: archive.waiting == bound, "the bound is reached")
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(model.calls) == bound
    assert scheduler.uncommitted == bound
    assert scheduler.in_flight == 0
    archive.door.open()

    assert (await running).executed == 50


async def test_a_place_is_free_again_while_the_record_is_being_committed() -> None:
    archive, model = DooredArchive(), Model()
    running = asyncio.create_task(make_scheduler(2, archive=archive).run(make_jobs(3), model))

    await until(lambda: len(model.calls) == 3, "the third starts before any commit")
    assert len(archive) == 0
    archive.door.open()

    assert (await running).executed == 3


async def test_jobs_that_never_wait_leave_the_event_loop_its_turns() -> None:
    store = HotResultStore(maxsize=None)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    jobs = [make_job(number, key="same") for number in range(2000)]
    await make_scheduler(store=store).run(jobs[:1], Model())
    counting = asyncio.create_task(count_turns())
    metrics = await make_scheduler(store=store).run(jobs, Model())
    counting.cancel()

    assert metrics.cache_hits == 2000
    assert turns > 20


def test_a_scheduler_may_be_used_by_one_event_loop_after_another() -> None:
    scheduler = make_scheduler(dedup=CoalitionDedupRegistry())

    first = asyncio.run(scheduler.run(make_jobs(5), Model()))
    second = asyncio.run(scheduler.run(make_jobs(5), Model()))

    assert (first.executed, second.cache_hits) == (5, 5)
