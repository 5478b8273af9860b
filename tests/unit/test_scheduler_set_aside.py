"""Keys that another process generates: set aside, tried again, handed back in the end. The test is that process."""

from __future__ import annotations

import asyncio

import pytest

from coalq.claim import Claim, Won
from coalq.generation import Generation
from coalq.inference import CoalitionDedupRegistry, RunArchive
from coalq.outcome import SchedulerMetrics
from scheduler_parts import Model, make_job, make_jobs, make_scheduler, until


class CountingRegistry(CoalitionDedupRegistry):
    """Counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.n_asked = 0

    async def claim(self, coalition_key: str) -> Claim:
        self.n_asked += 1
        return await super().claim(coalition_key)


async def held_elsewhere(*keys: str) -> CountingRegistry:
    """A registry in which another process holds some keys."""
    registry = CountingRegistry()
    for key in keys:
        assert await registry.claim(key) == Won()
    registry.n_asked = 0
    return registry


async def test_a_key_held_elsewhere_takes_no_place_and_stops_nobody() -> None:
    registry, archive = await held_elsewhere("key-0"), RunArchive()
    scheduler = make_scheduler(1, dedup=registry, archive=archive, pending_limit=1)

    running = asyncio.create_task(scheduler.execute(make_jobs(5), Model()))
    await until(lambda: len(archive) == 4, "all others are recorded")

    assert not running.done()
    assert scheduler.uncommitted == 0
    registry.release("key-0", Generation("theirs"))
    assert (await running).metrics == SchedulerMetrics(requested=5, executed=4, cache_hits=1)


async def test_a_key_committed_elsewhere_is_a_cache_hit_with_their_text() -> None:
    registry, archive, model = await held_elsewhere("key-0"), RunArchive(), Model()
    running = asyncio.create_task(make_scheduler(dedup=registry, archive=archive).execute(make_jobs(1), model))
    await until(lambda: registry.n_asked >= 2, "it was tried again")

    registry.release("key-0", Generation("theirs"))
    report = await running

    assert report.complete
    assert archive.records[0].generation_text == "theirs"
    assert archive.records[0].utility == len("theirs")
    assert model.calls == []


async def test_a_key_given_up_elsewhere_is_generated_here() -> None:
    registry, model = await held_elsewhere("key-0"), Model()
    running = asyncio.create_task(make_scheduler(dedup=registry).execute(make_jobs(1), model))
    await until(lambda: registry.n_asked >= 2, "it was tried again")

    registry.release("key-0")

    assert (await running).metrics == SchedulerMetrics(requested=1, executed=1)


async def test_equal_jobs_of_a_held_key_wait_together_and_all_end() -> None:
    registry, archive = await held_elsewhere("same"), RunArchive()
    jobs = [make_job(n, key="same") for n in range(6)]
    running = asyncio.create_task(make_scheduler(2, dedup=registry, archive=archive).execute(jobs, Model()))
    await until(lambda: registry.n_asked >= 2, "it was tried again")

    registry.release("same", Generation("theirs"))
    report = await running

    assert report.complete
    assert report.metrics.requested == 6
    assert report.metrics.cache_hits + report.metrics.deduplicated == 6
    assert {record.generation_text for record in archive.records} == {"theirs"}


async def test_a_call_left_with_nothing_but_held_keys_hands_them_back() -> None:
    registry = await held_elsewhere("key-0", "key-1")

    report = await make_scheduler(dedup=registry, patience_s=0.1).execute(make_jobs(4), Model())

    assert report.metrics == SchedulerMetrics(requested=2, executed=2)
    assert (report.handed_back, report.complete) == (2, False)
    assert registry.contains("key-0")


async def test_patience_does_not_run_while_something_else_is_in_flight() -> None:
    registry, model = await held_elsewhere("key-0"), Model(is_open=False)
    scheduler = make_scheduler(dedup=registry, patience_s=0.01)
    running = asyncio.create_task(scheduler.execute(make_jobs(2), model))
    await until(lambda: registry.n_asked >= 10, "the held key was tried many times")

    assert not running.done()
    model.door.open()

    assert (await running).handed_back == 1


async def test_a_held_key_becomes_free_for_every_call_that_waits_for_it() -> None:
    registry, model = await held_elsewhere("same"), Model()
    scheduler = make_scheduler(dedup=registry)
    calls = [asyncio.create_task(scheduler.execute([make_job(n, key="same")], model)) for n in range(3)]
    await until(lambda: registry.n_asked >= 6, "all tried again")

    registry.release("same")
    reports = await asyncio.gather(*calls)

    assert all(report.complete for report in reports)
    assert sum(report.metrics.executed for report in reports) == 1


async def test_no_more_jobs_are_taken_than_a_call_may_hold() -> None:
    registry = await held_elsewhere(*(f"key-{n}" for n in range(100)))
    jobs = iter(make_jobs(100))
    scheduler = make_scheduler(1, dedup=registry, pending_limit=2, patience_s=0.2)

    report = await scheduler.execute(jobs, Model())

    assert report.handed_back == 8
    assert not report.complete
    assert len(list(jobs)) == 92


async def test_halted_hands_back_what_is_set_aside() -> None:
    registry = await held_elsewhere("key-0", "key-1")
    running = asyncio.create_task(
        make_scheduler(dedup=registry).execute(make_jobs(2), Model(), halted=lambda: registry.n_asked > 5)
    )

    report = await running

    assert (report.handed_back, report.metrics.requested) == (2, 0)


async def test_a_cancelled_call_leaves_keys_held_elsewhere_alone() -> None:
    registry = await held_elsewhere("key-0")
    running = asyncio.create_task(make_scheduler(dedup=registry).execute(make_jobs(1), Model()))
    await until(lambda: registry.n_asked >= 2, "it was tried again")

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert registry.contains("key-0")
