"""What the scheduler relies on in a registry of claims, over each implementation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from claim_parts import Shelf, claiming
from coalq.claim import Held, Stored, Won
from coalq.generation import Generation
from coalq.inference import CoalitionDedupRegistry, DedupRegistry
from scheduler_parts import until


@dataclass(frozen=True)
class Registries:
    """Two schedulers' view of the same claims."""

    mine: DedupRegistry
    theirs: DedupRegistry
    shelf: Shelf

    def commit(self, key: str, generation: Generation, *, by: DedupRegistry) -> None:
        self.shelf.committed[key] = generation
        by.release(key, generation)

    async def wins(self, key: str) -> bool:
        return await self.theirs.claim(key) == Won()


@pytest.fixture(params=["memory", "redis"])
async def registries(request: pytest.FixtureRequest) -> AsyncIterator[Registries]:
    shelf = Shelf()
    if request.param == "memory":
        registry = CoalitionDedupRegistry()
        yield Registries(registry, registry, shelf)
        return
    async with claiming(request.getfixturevalue("redis_url"), "mine", "theirs", shelf=shelf) as (mine, theirs):
        yield Registries(mine, theirs, shelf)


async def test_a_key_is_won_by_one_and_held_for_the_other(registries: Registries) -> None:
    assert await registries.mine.claim("key") == Won()
    assert await registries.theirs.claim("key") == Held()
    assert await registries.mine.claim("key") == Held()


async def test_of_many_that_ask_at_once_one_wins(registries: Registries) -> None:
    asked = [registries.mine.claim("key") if n % 2 else registries.theirs.claim("key") for n in range(20)]

    answers = await asyncio.gather(*asked)

    assert answers.count(Won()) == 1
    assert answers.count(Held()) == 19


async def test_a_released_key_can_be_won_again_by_anybody(registries: Registries) -> None:
    assert await registries.mine.claim("key") == Won()

    registries.mine.release("key")

    assert await registries.mine.claim("key") == Won()
    registries.mine.release("key")
    await until(lambda: registries.wins("key"), "the key is free for the other")


async def test_a_committed_key_is_stored_for_everybody(registries: Registries) -> None:
    assert await registries.mine.claim("key") == Won()

    registries.commit("key", Generation("text"), by=registries.mine)

    assert await registries.theirs.claim("key") == Stored(Generation("text"))
    assert await registries.mine.claim("key") == Stored(Generation("text"))


async def test_a_cancelled_call_leaves_no_claim(registries: Registries) -> None:
    for turns in range(8):
        asking = asyncio.create_task(registries.mine.claim(f"key-{turns}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        if asking.cancel():
            with pytest.raises(asyncio.CancelledError):
                await asking
        else:
            registries.mine.release(f"key-{turns}")

    for turns in range(8):
        await until(lambda key=f"key-{turns}": registries.wins(key), "the key is free")  # type: ignore[misc]


async def test_a_release_takes_effect_though_nobody_waits_for_it(registries: Registries) -> None:
    keys = [f"key-{n}" for n in range(300)]
    await asyncio.gather(*(registries.mine.claim(key) for key in keys))

    for key in keys:
        registries.mine.release(key)

    for key in keys:
        await until(lambda key=key: registries.wins(key), f"{key} is free")  # type: ignore[misc]
