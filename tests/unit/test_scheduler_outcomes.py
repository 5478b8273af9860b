"""How the scheduler's jobs end: executed, found, shared or failed, each with exactly one record."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import pytest

from coalq.errors import PermanentError, TransientError
from coalq.generation import Generation
from coalq.inference import CoalitionDedupRegistry, CoalitionRecord, CoalitionRecordDraft, HotResultStore, RunArchive
from coalq.masks import pack_mask
from coalq.outcome import Outcome, SchedulerMetrics
from scheduler_parts import N_PLAYERS, Model, ToldProgress, by_mask, make_job, make_jobs, make_scheduler, until


async def test_every_job_is_generated_and_recorded_with_its_own_utility() -> None:
    archive = RunArchive()
    model = Model({f"key-{number}": "x" * number for number in range(20)})

    metrics = await make_scheduler(archive=archive).run(make_jobs(20), model)

    assert metrics == SchedulerMetrics(requested=20, executed=20)
    assert [record.utility for record in archive.records] == [float(number) for number in range(20)]


async def test_utilities_stay_with_their_masks_when_generations_finish_in_reverse_order() -> None:
    archive, model = RunArchive(), Model({f"key-{n}": "x" * n for n in range(4)}, is_open=False)
    running = asyncio.create_task(make_scheduler(archive=archive).run(make_jobs(4), model))
    await until(lambda: model.running == 4, "all four run")

    for number in (3, 2, 1, 0):
        model.door.open(f"key-{number}")
        await until(lambda left=number: len(archive) == 4 - left, "one more is recorded")  # type: ignore[misc]
    await running

    assert {mask: record.utility for mask, record in by_mask(archive.records).items()} == {
        pack_mask(number, N_PLAYERS): float(number) for number in range(4)
    }


async def test_a_key_in_the_hot_store_is_a_cache_hit_and_gets_its_own_record() -> None:
    store, archive, model = HotResultStore(), RunArchive(), Model()
    store.put("key-0", Generation("stored"))

    metrics = await make_scheduler(store=store, archive=archive).run(make_jobs(2), model)

    assert metrics == SchedulerMetrics(requested=2, executed=1, cache_hits=1)
    assert archive.records[0].generation_text == "stored"
    assert archive.records[0].cache_hit
    assert model.calls == ["key-1"]


async def test_equal_keys_cost_one_generation_and_give_one_record_each() -> None:
    archive, model = RunArchive(), Model({"same": "four"})
    jobs = [make_job(number, key="same") for number in range(10)]

    metrics = await make_scheduler(dedup=CoalitionDedupRegistry(), archive=archive).run(jobs, model)

    assert model.calls == ["same"]
    assert (metrics.requested, metrics.executed, metrics.failed) == (10, 1, 0)
    assert metrics.deduplicated + metrics.cache_hits == 9
    assert [record.utility for record in archive.records] == [4.0] * 10


async def test_a_shared_generation_is_recorded_only_after_its_own_commit() -> None:
    archive, model = RunArchive(), Model(is_open=False)
    jobs = [make_job(0, key="same"), make_job(1, key="same")]
    running = asyncio.create_task(make_scheduler(dedup=CoalitionDedupRegistry(), archive=archive).run(jobs, model))
    await until(lambda: model.running == 1, "the first runs")
    assert len(archive) == 0

    model.door.open()
    metrics = await running

    assert (metrics.executed, metrics.deduplicated) == (1, 1)
    assert [record.outcome for record in archive.records] == [Outcome.EXECUTED, Outcome.DEDUPLICATED]


async def test_equal_keys_of_overlapping_calls_share_one_generation() -> None:
    archive, model = RunArchive(), Model(is_open=False)
    scheduler = make_scheduler(dedup=CoalitionDedupRegistry(), archive=archive)
    first = asyncio.create_task(scheduler.run([make_job(0, key="same")], model))
    second = asyncio.create_task(scheduler.run([make_job(1, key="same")], model))
    await until(lambda: model.running == 1, "the first runs")

    model.door.open()

    assert await first == SchedulerMetrics(requested=1, executed=1)
    assert await second == SchedulerMetrics(requested=1, deduplicated=1)
    assert len(archive) == 2


async def test_a_key_that_fell_out_of_the_store_is_not_generated_again() -> None:
    model = Model()
    jobs = [
        *make_jobs(20),
        *(replace(job, mask_words=pack_mask(100 + i, N_PLAYERS)) for i, job in enumerate(make_jobs(20))),
    ]

    scheduler = make_scheduler(store=HotResultStore(maxsize=1), dedup=CoalitionDedupRegistry())
    metrics = await scheduler.run(jobs, model)

    assert len(model.calls) == metrics.executed == 20
    assert metrics.requested == 40


async def test_without_a_registry_equal_keys_are_not_shared() -> None:
    model = Model()
    jobs = [make_job(number, key="same") for number in range(4)]

    metrics = await make_scheduler(store=HotResultStore(maxsize=0)).run(jobs, model)

    assert metrics == SchedulerMetrics(requested=4, executed=4)


@pytest.mark.parametrize("with_dedup", [True, False])
async def test_a_failing_generation_is_recorded_and_loses_no_other_job(with_dedup: bool) -> None:
    archive, registry = RunArchive(), CoalitionDedupRegistry()
    model = Model({"key-3": ZeroDivisionError("by zero"), "key-5": PermanentError("400: too long")})

    scheduler = make_scheduler(archive=archive, dedup=registry if with_dedup else None)
    metrics = await scheduler.run(make_jobs(8), model)

    assert metrics == SchedulerMetrics(requested=8, executed=6, failed=2)
    failed = {record.coalition_key: record for record in archive.records if record.outcome is Outcome.FAILED}
    assert failed["key-3"].error == "ZeroDivisionError: by zero"
    assert failed["key-5"].error == "400: too long"
    assert failed["key-3"].utility is None
    assert failed["key-3"].generation is None
    assert not registry.contains("key-3")


async def test_equal_jobs_of_a_rejected_one_fail_with_its_message_without_a_call() -> None:
    archive = RunArchive()
    model = Model({"same": PermanentError("400: too long")}, is_open=False)
    scheduler = make_scheduler(dedup=CoalitionDedupRegistry(), archive=archive)
    running = asyncio.create_task(scheduler.run([make_job(n, key="same") for n in range(5)], model))
    await until(lambda: model.running == 1, "the first runs")

    model.door.open()
    metrics = await running

    assert metrics == SchedulerMetrics(requested=5, failed=5)
    assert {record.error for record in archive.records} == {"400: too long"}
    assert model.calls == ["same"]


async def test_equal_jobs_of_one_that_failed_otherwise_try_themselves() -> None:
    model = Model({"same": TransientError("503")}, is_open=False)
    scheduler = make_scheduler(dedup=CoalitionDedupRegistry())
    running = asyncio.create_task(scheduler.run([make_job(n, key="same") for n in range(3)], model))
    await until(lambda: model.running == 1, "the first runs")

    model.door.open()
    metrics = await running

    assert metrics == SchedulerMetrics(requested=3, failed=3)
    assert model.calls == ["same"] * 3
    assert model.most_running == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
async def test_a_utility_that_is_not_a_finite_number_fails_its_job_only(bad: float) -> None:
    archive = RunArchive()
    jobs = [make_job(0, utility=lambda _: bad), make_job(1)]

    metrics = await make_scheduler(archive=archive).run(jobs, Model())

    assert metrics == SchedulerMetrics(requested=2, executed=1, failed=1)
    assert "finite" in (archive.records[0].error or "")


async def test_a_value_function_that_raises_is_not_asked_again_with_the_same_text_by_another_generation() -> None:
    def refuse(generation: Generation) -> float:
        raise ValueError(f"no number in {generation.text!r}")

    archive, model = RunArchive(), Model(is_open=False)
    scheduler = make_scheduler(dedup=CoalitionDedupRegistry(), archive=archive)
    jobs = [make_job(n, key="same", utility=refuse) for n in range(3)]
    running = asyncio.create_task(scheduler.run(jobs, model))
    await until(lambda: model.running == 1, "the first runs")

    model.door.open()
    metrics = await running

    assert metrics == SchedulerMetrics(requested=3, failed=3)
    assert model.calls == ["same"]
    assert {record.error for record in archive.records} == {"ValueError: no number in 'answer to same'"}


async def test_another_call_with_another_value_function_does_not_inherit_a_failed_utility() -> None:
    def refuse(_: Generation) -> float:
        raise ValueError("no number")

    model = Model(is_open=False)
    scheduler = make_scheduler(dedup=CoalitionDedupRegistry(), archive=RunArchive())
    first = asyncio.create_task(scheduler.run([make_job(0, key="same", utility=refuse)], model))
    second = asyncio.create_task(scheduler.run([make_job(1, key="same")], model))
    await until(lambda: model.running == 1, "the first runs")

    model.door.open()

    assert await first == SchedulerMetrics(requested=1, failed=1)
    assert await second == SchedulerMetrics(requested=1, executed=1)


class ForeignArchive(RunArchive):
    """An archive in which another owner was first with every key."""

    async def append(self, draft: CoalitionRecordDraft) -> CoalitionRecord:
        return await super().append(replace(draft, outcome=Outcome.DEDUPLICATED, generation=Generation("theirs")))


async def test_what_counts_is_the_stored_record_and_not_the_draft() -> None:
    store, archive = HotResultStore(), ForeignArchive()

    metrics = await make_scheduler(store=store, archive=archive).run(make_jobs(1), Model())

    assert metrics == SchedulerMetrics(requested=1, deduplicated=1)
    assert store.get("key-0") == Generation("theirs")
    assert archive.records[0].utility == float(len("theirs"))


async def test_elapsed_time_is_of_the_generation_and_a_backend_may_report_its_own() -> None:
    archive = RunArchive()
    model = Model({"key-1": Generation("timed", elapsed_ms=1234.0), "key-2": Generation("untimed")})

    await make_scheduler(archive=archive).run(make_jobs(3), model)

    plain, timed, untimed = archive.records
    assert plain.elapsed_ms > 0
    assert timed.elapsed_ms == 1234.0
    assert untimed.elapsed_ms > 0


async def test_tokens_are_summed_over_executed_generations_that_report_them() -> None:
    generation = Generation("a", prompt_tokens=10, completion_tokens=2, cached_tokens=8)
    model = Model({"key-0": generation, "key-1": replace(generation, cached_tokens=0), "key-2": Generation("b")})
    jobs = [*make_jobs(3), make_job(9, key="key-0")]

    metrics = await make_scheduler(dedup=CoalitionDedupRegistry()).run(jobs, model)

    assert (metrics.prompt_tokens, metrics.completion_tokens, metrics.cached_tokens) == (20, 4, 8)
    assert metrics.kv_cache_hits == 1


async def test_an_answer_that_is_neither_text_nor_a_generation_fails_its_job() -> None:
    archive = RunArchive()

    metrics = await make_scheduler(archive=archive).run(make_jobs(1), Model({"key-0": 42}))

    assert metrics == SchedulerMetrics(requested=1, failed=1)
    assert archive.records[0].error == "TypeError: generate must return text or a Generation, not int"


async def test_progress_is_told_the_plan_then_every_finished_job_over_all_calls() -> None:
    progress = ToldProgress()
    scheduler = make_scheduler(progress=progress)

    await scheduler.run(make_jobs(3), Model({"key-1": ValueError("bad")}))
    await scheduler.run(make_jobs(2), Model())

    assert progress.planned == [3, 5]
    assert progress.finished == [(1, 3), (2, 3), (3, 3), (4, 5), (5, 5)]


async def test_nothing_to_do_is_done_at_once() -> None:
    report = await make_scheduler().execute([], Model())

    assert report.metrics == SchedulerMetrics()
    assert report.complete


async def test_a_total_that_was_wrong_loses_no_job() -> None:
    metrics = await make_scheduler().run_iter(iter(make_jobs(7)), Model(), total=2)

    assert metrics.requested == 7
