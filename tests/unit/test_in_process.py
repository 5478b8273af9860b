"""Explaining in one process, as in a notebook."""

from __future__ import annotations

import asyncio

import pytest

from coalq import (
    CoalitionDedupRegistry,
    ConversationSnapshot,
    GenerationConfig,
    HotResultStore,
    InferenceScheduler,
    InputError,
    NotBuiltError,
    RunArchive,
    RunConfig,
    RunFailedError,
    aexplain,
    explain,
    iter_jobs,
)
from coalq.toy import parse_toy

CONFIG = RunConfig(model="additive:1,2,4,8", players="words", value="number")
PROMPT = "p0 p1 p2 p3"


class Model:
    """A toy game as a model function that counts its calls."""

    def __init__(self, game: str = "additive:1,2,4,8") -> None:
        self._game = parse_toy(game)
        self.calls = 0

    async def __call__(self, snapshot: ConversationSnapshot) -> str:
        self.calls += 1
        await asyncio.sleep(0)
        return self._game.answer(snapshot)


def test_a_game_is_explained_with_one_call_per_coalition() -> None:
    model = Model()

    attribution = explain(PROMPT, CONFIG, generate=model)

    assert attribution.values == pytest.approx([1, 2, 4, 8], abs=1e-12)
    assert [player.text for player, _ in attribution.top(2)] == ["p3", "p2"]
    assert model.calls == 16


async def test_it_works_where_an_event_loop_is_already_running() -> None:
    attribution = explain(PROMPT, CONFIG, generate=Model())

    assert attribution.grand_value == 15


async def test_equal_prompts_are_asked_once() -> None:
    model = Model()

    attribution = await aexplain("p0 p0 p1 ", CONFIG, generate=model)

    assert attribution.values == pytest.approx([0.5, 0.5, 2], abs=1e-12)
    assert model.calls == 6


async def test_an_archive_of_ones_own_may_already_hold_records_of_another_run() -> None:
    archive = RunArchive()
    await aexplain("p3 p2", CONFIG, generate=Model(), archive=archive)

    attribution = await aexplain(PROMPT, CONFIG, generate=Model(), archive=archive)

    assert attribution.values == pytest.approx([1, 2, 4, 8], abs=1e-12)
    assert len(archive) == 4 + 16


async def test_a_failing_grand_coalition_costs_one_call() -> None:
    model = Model("additive:1")
    calls = 0

    async def fail(_: ConversationSnapshot) -> str:
        nonlocal calls
        calls += 1
        raise RuntimeError("no memory left")

    with pytest.raises(RunFailedError, match="no memory left"):
        await aexplain(PROMPT, CONFIG, generate=fail)

    assert (calls, model.calls) == (1, 0)


async def test_jobs_for_a_scheduler_of_ones_own_are_scored_whatever_ends_first() -> None:
    model = Model()
    grand_may_end = asyncio.Event()

    async def grand_last(snapshot: ConversationSnapshot) -> str:
        answer = await model(snapshot)
        if answer == "15":
            await grand_may_end.wait()
        elif model.calls == 16:
            grand_may_end.set()
        return answer

    archive = RunArchive()
    scheduler = InferenceScheduler(16, GenerationConfig(), HotResultStore(), CoalitionDedupRegistry(), archive)
    config = CONFIG.model_copy(update={"value": "exact"})

    metrics = await scheduler.run(list(iter_jobs(PROMPT, config)), grand_last)

    assert (metrics.requested, metrics.executed) == (16, 16)
    utilities = [record.utility for record in archive.records]
    assert utilities == [0.0] * 15 + [1.0]


async def test_jobs_without_a_grand_coalition_stay_unscored() -> None:
    archive = RunArchive()
    scheduler = InferenceScheduler(4, GenerationConfig(), HotResultStore(), CoalitionDedupRegistry(), archive)
    jobs = list(iter_jobs(PROMPT, CONFIG))[1:]

    await scheduler.run(jobs, Model())

    assert {record.utility for record in archive.records} == {None}


def test_without_a_model_function_it_says_what_to_do() -> None:
    with pytest.raises(NotBuiltError, match="pass a coroutine function"):
        explain(PROMPT, CONFIG)


def test_a_conversation_may_be_a_mapping_and_is_checked() -> None:
    given = {"prompt": "a {{b}} c"}

    with pytest.raises(InputError, match="b"):
        explain(given, CONFIG, generate=Model())
