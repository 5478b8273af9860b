"""The scheduler when it is told to stop, and jobs that are handed back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from coalq.errors import HandBack, LeaseLost
from coalq.inference import CoalitionDedupRegistry, CoalitionJob, RunArchive
from coalq.outcome import SchedulerMetrics
from scheduler_parts import (
    DooredRegistry,
    Model,
    RefusingArchive,
    make_job,
    make_jobs,
    make_scheduler,
    until,
)


class Switch:
    """What a group's `halted` is; counts how often it was asked (twice by the time a job waits for something)."""

    def __init__(self, *, on: bool = False) -> None:
        self.on = on
        self.n_asked = 0

    def __call__(self) -> bool:
        self.n_asked += 1
        return self.on


# --- halted


async def test_once_halted_nothing_starts_and_what_is_in_flight_is_recorded() -> None:
    halted, model, archive, registry = Switch(), Model(is_open=False), RunArchive(), CoalitionDedupRegistry()
    scheduler = make_scheduler(2, archive=archive, dedup=registry, pending_limit=5)
    running = asyncio.create_task(scheduler.execute(make_jobs(9), model, halted=halted))
    await until(lambda: model.running == 2, "two run")

    halted.on = True
    model.door.open()
    report = await running

    assert report.metrics == SchedulerMetrics(requested=2, executed=2)
    assert (report.handed_back, report.complete) == (3, False)
    assert len(archive) == 2
    assert len(registry) == 2
    assert (scheduler.in_flight, scheduler.uncommitted) == (0, 0)


async def test_halted_from_the_start_takes_nothing() -> None:
    jobs = iter(make_jobs(3))

    report = await make_scheduler().execute(jobs, Model(), halted=Switch(on=True))

    assert report.metrics.requested == report.handed_back == 0
    assert not report.complete
    assert len(list(jobs)) == 3


async def test_a_halted_call_does_not_wait_for_places_that_another_call_has() -> None:
    halted, model = Switch(), Model(is_open=False)
    scheduler = make_scheduler(1)
    old = asyncio.create_task(scheduler.execute([make_job(0)], model))
    await until(lambda: model.running == 1, "the old call has the place")
    new = asyncio.create_task(scheduler.execute([make_job(1)], model, halted=halted))
    await until(lambda: halted.n_asked >= 2, "the new call waits")

    halted.on = True

    assert (await new).handed_back == 1
    assert not old.done()
    model.door.open()
    assert (await old).complete


async def test_a_halted_call_does_not_wait_for_an_equal_job_of_another_call() -> None:
    halted, model = Switch(), Model(is_open=False)
    scheduler = make_scheduler(dedup=CoalitionDedupRegistry())
    lead = asyncio.create_task(scheduler.execute([make_job(0, key="same")], model))
    await until(lambda: model.running == 1, "the lead runs")
    follower = asyncio.create_task(scheduler.execute([make_job(1, key="same")], model, halted=halted))
    await until(lambda: halted.n_asked >= 2, "the follower waits")

    halted.on = True

    assert (await follower).handed_back == 1
    model.door.open()
    assert (await lead).complete


async def test_a_claim_won_after_the_call_was_halted_is_released_without_a_generation() -> None:
    halted, model, registry = Switch(), Model(), DooredRegistry()
    running = asyncio.create_task(make_scheduler(dedup=registry).execute([make_job(0)], model, halted=halted))
    await until(lambda: registry.asked, "the claim is asked for")

    halted.on = True
    registry.door.open()
    report = await running

    assert (report.handed_back, model.calls, len(registry)) == (1, [], 0)


async def test_an_equal_job_of_a_living_call_takes_over_from_a_halted_one() -> None:
    halted, model = Switch(), Model(is_open=False)
    scheduler = make_scheduler(1, dedup=CoalitionDedupRegistry())
    blocker = asyncio.create_task(scheduler.execute([make_job(0)], model))
    await until(lambda: model.running == 1, "the only place is taken")
    halting = asyncio.create_task(scheduler.execute([make_job(1, key="same")], model, halted=halted))
    await until(lambda: halted.n_asked >= 2, "the lead waits for a place")
    living = asyncio.create_task(scheduler.execute([make_job(2, key="same")], model))

    halted.on = True
    assert (await halting).handed_back == 1
    model.door.open()
    await blocker

    assert (await living).metrics == SchedulerMetrics(requested=1, executed=1)


async def test_a_stream_that_says_nothing_does_not_keep_a_halted_call() -> None:
    halted = Switch()

    async def stream() -> AsyncIterator[CoalitionJob]:
        yield make_job(0)
        await asyncio.Event().wait()

    archive = RunArchive()
    running = asyncio.create_task(make_scheduler(archive=archive).execute(stream(), Model(), halted=halted))
    await until(lambda: len(archive) == 1, "the first job is recorded")

    halted.on = True
    report = await running

    assert (report.metrics.requested, report.complete) == (1, False)


async def test_an_error_of_halted_itself_is_raised_when_what_is_in_flight_has_ended() -> None:
    archive = RunArchive()

    def broken() -> bool:
        if archive.records:
            raise LookupError("no clock")
        return False

    with pytest.raises(LookupError, match="no clock"):
        await make_scheduler(1, archive=archive).execute(make_jobs(5), Model(), halted=broken)

    assert len(archive) == 1


# --- handed back


async def test_a_generation_that_is_handed_back_is_neither_recorded_nor_counted() -> None:
    archive, registry = RunArchive(), CoalitionDedupRegistry()
    model = Model({"key-1": HandBack("the endpoint is down")})

    report = await make_scheduler(archive=archive, dedup=registry).execute(make_jobs(4), model)

    assert report.metrics == SchedulerMetrics(requested=3, executed=3)
    assert (report.handed_back, report.complete) == (1, False)
    assert not registry.contains("key-1")


async def test_equal_jobs_of_one_that_is_handed_back_are_handed_back_without_a_call() -> None:
    model = Model({"same": HandBack("the endpoint is down")}, is_open=False)
    scheduler = make_scheduler(dedup=CoalitionDedupRegistry())
    first = asyncio.create_task(scheduler.execute([make_job(n, key="same") for n in range(3)], model))
    other = asyncio.create_task(scheduler.execute([make_job(9, key="same")], model))
    await until(lambda: model.running == 1, "the lead runs")

    model.door.open()

    assert (await first).handed_back == 3
    assert (await other).handed_back == 1
    assert model.calls == ["same"]


async def test_a_group_lost_to_another_owner_does_not_take_equal_jobs_of_other_groups_with_it() -> None:
    model = Model({"same": LeaseLost("another process owns the group")}, is_open=False)
    scheduler = make_scheduler(dedup=CoalitionDedupRegistry())
    lost = asyncio.create_task(scheduler.execute([make_job(0, key="same")], model))
    await until(lambda: model.running == 1, "the lead runs")
    kept_model = Model()
    kept = asyncio.create_task(scheduler.execute([make_job(1, key="same")], kept_model))

    model.door.open()

    assert (await lost).handed_back == 1
    assert (await kept).metrics == SchedulerMetrics(requested=1, executed=1)


async def test_a_record_that_cannot_be_committed_hands_its_job_back() -> None:
    archive, registry = RefusingArchive({"key-2": HandBack("the archive is away")}), CoalitionDedupRegistry()
    scheduler = make_scheduler(archive=archive, dedup=registry)

    report = await scheduler.execute(make_jobs(4), Model())

    assert (report.metrics.requested, report.handed_back) == (3, 1)
    assert not registry.contains("key-2")
    assert scheduler.uncommitted == 0


async def test_a_cancellation_out_of_the_models_client_hands_its_own_job_back() -> None:
    model = Model({"key-1": asyncio.CancelledError()})

    report = await make_scheduler(dedup=CoalitionDedupRegistry()).execute(make_jobs(4), model)

    assert (report.metrics.executed, report.handed_back) == (3, 1)
