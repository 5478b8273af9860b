"""The scheduler when something around it breaks, and when its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from coalq.conversation import ConversationSnapshot
from coalq.errors import ServerError
from coalq.inference import CoalitionDedupRegistry, CoalitionJob, RunArchive
from scheduler_parts import (
    DooredArchive,
    DooredRegistry,
    Model,
    RefusingArchive,
    ToldProgress,
    make_job,
    make_jobs,
    make_scheduler,
    until,
)

# --- faults that are nobody's own


async def test_an_error_of_the_archive_is_raised_as_it_is_once_the_others_have_ended() -> None:
    error = ServerError("the schema is another version's")
    archive, registry = RefusingArchive({"key-0": error}), CoalitionDedupRegistry()
    model = Model(is_open=False)
    scheduler = make_scheduler(3, archive=archive, dedup=registry)
    running = asyncio.create_task(scheduler.run(make_jobs(20), model))
    await until(lambda: model.running == 3, "three run")

    model.door.open()
    with pytest.raises(ServerError) as raised:
        await running

    assert raised.value is error
    assert {"key-1", "key-2"} <= {record.coalition_key for record in archive.records}
    assert len(registry) == len(archive)
    assert (scheduler.in_flight, scheduler.uncommitted) == (0, 0)


@pytest.mark.parametrize("pending_limit", [1, None])
async def test_an_error_of_the_iterable_is_raised_as_it_is_and_loses_no_job_in_flight(
    pending_limit: int | None,
) -> None:
    def jobs() -> Iterator[CoalitionJob]:
        yield from make_jobs(5)
        raise OSError("the plan cannot be read")

    archive = RunArchive()
    with pytest.raises(OSError, match="the plan cannot be read"):
        await make_scheduler(archive=archive, pending_limit=pending_limit).run_iter(jobs(), Model())

    # Four were in flight when the iterable broke; the fifth waited for a place.
    assert len(archive) >= 4


@pytest.mark.parametrize("error", [OSError("the stream broke"), asyncio.CancelledError()])
async def test_a_broken_stream_ends_the_call_and_loses_no_job_in_flight(error: BaseException) -> None:
    model, archive = Model(is_open=False), RunArchive()

    async def stream() -> AsyncIterator[CoalitionJob]:
        yield make_job(0)
        await until(lambda: model.running == 1, "the first runs")
        raise error

    running = asyncio.create_task(make_scheduler(archive=archive).run_stream(stream(), model))
    await until(lambda: model.running == 1, "the first runs")
    model.door.open()

    with pytest.raises((OSError, RuntimeError)):
        await running
    assert len(archive) == 1


async def test_an_error_of_the_progress_callback_is_raised_after_the_record_was_made() -> None:
    class BrokenProgress(ToldProgress):
        def on_coalition_finished(self, done: int, total: int) -> None:  # noqa: ARG002 - the port's signature
            raise BrokenPipeError("nobody reads")

    archive, registry = RunArchive(), CoalitionDedupRegistry()
    scheduler = make_scheduler(1, archive=archive, dedup=registry, progress=BrokenProgress())
    with pytest.raises(BrokenPipeError):
        await scheduler.run(make_jobs(3), Model())

    assert len(archive) == 1
    assert scheduler.uncommitted == 0


# --- the caller is cancelled


async def test_cancelled_while_generating_gives_everything_back() -> None:
    model, registry = Model(is_open=False), CoalitionDedupRegistry()
    scheduler = make_scheduler(2, dedup=registry)
    running = asyncio.create_task(scheduler.run(make_jobs(10), model))
    await until(lambda: model.running == 2, "two run")

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (model.running, len(registry)) == (0, 0)
    assert (scheduler.in_flight, scheduler.uncommitted) == (0, 0)
    model.door.open()
    assert (await scheduler.run(make_jobs(10), model)).executed == 10


async def test_cancelled_while_claiming_gives_everything_back() -> None:
    registry = DooredRegistry()
    scheduler = make_scheduler(2, dedup=registry)
    running = asyncio.create_task(scheduler.run(make_jobs(10), Model()))
    await until(lambda: len(registry.asked) == 2, "two claims are asked for")

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert len(registry) == 0
    registry.door.open()
    assert (await scheduler.run(make_jobs(10), Model())).executed == 10


async def test_cancelled_while_committing_gives_everything_back() -> None:
    archive, registry = DooredArchive(), CoalitionDedupRegistry()
    scheduler = make_scheduler(2, archive=archive, dedup=registry)
    running = asyncio.create_task(scheduler.run(make_jobs(10), Model()))
    await until(lambda: archive.waiting == 3, "three wait for their commit")

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert len(registry) == 0
    assert (scheduler.in_flight, scheduler.uncommitted) == (0, 0)


async def test_cancelled_while_others_wait_for_its_job_lets_one_of_them_take_over() -> None:
    model = Model(is_open=False)
    scheduler = make_scheduler(dedup=CoalitionDedupRegistry())
    lead = asyncio.create_task(scheduler.run([make_job(0, key="same")], model))
    await until(lambda: model.running == 1, "the lead runs")
    others = asyncio.create_task(scheduler.run([make_job(n, key="same") for n in range(1, 4)], model))

    lead.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lead
    model.door.open()

    metrics = await others
    assert (metrics.requested, metrics.executed) == (3, 1)
    assert len(model.calls) == 2


async def test_a_generate_that_swallows_its_cancellation_does_not_keep_the_call_alive() -> None:
    started = 0

    async def stubborn(_: ConversationSnapshot) -> str:
        nonlocal started
        started += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"
        return "never"

    scheduler = make_scheduler(2)
    running = asyncio.create_task(scheduler.run(make_jobs(50), stubborn))
    await until(lambda: started == 2, "two run")

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert started == 2
    assert (scheduler.in_flight, scheduler.uncommitted) == (0, 0)
