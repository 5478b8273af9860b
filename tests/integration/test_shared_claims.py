"""`SharedClaims` on a real server: batches, renewals, outages, and an orderly end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from claim_parts import Shelf, claimed_keys, claiming, opened
from coalq.claim import Held, Stored, Won
from coalq.claims import SharedClaims
from coalq.errors import HandBack, ServerError, TransientError
from coalq.generation import Generation
from scheduler_parts import until
from servers import ValkeyServer


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Redis]:
    async with opened(redis_url) as client:
        yield client
        await claimed_keys(client)


@pytest.fixture
def own_server() -> Iterator[ValkeyServer]:
    """A Valkey that the test may kill."""
    with ValkeyServer() as server:
        yield server


async def owners_become(client: Redis, expected: dict[str, str]) -> None:
    async def are_owned() -> bool:
        return await claimed_keys(client) == expected

    await until(are_owned, f"the claims are {expected}")


async def test_claims_of_one_turn_go_in_one_call(redis_url: str, client: Redis) -> None:
    shelf = Shelf()
    async with claiming(redis_url, "mine", shelf=shelf) as (claims,):
        await claims.claim("first")
        await client.config_resetstat()
        n_reads = shelf.n_reads

        answers = await asyncio.gather(*(claims.claim(f"key-{n}") for n in range(200)))

        assert answers == [Won()] * 200
        assert (await client.info("commandstats"))["cmdstat_evalsha"]["calls"] == 1
        assert shelf.n_reads == n_reads + 1


async def test_more_than_a_call_holds_go_in_several(redis_url: str, client: Redis) -> None:
    async with claiming(redis_url, "mine", shelf=Shelf()) as (claims,):
        answers = await asyncio.gather(*(claims.claim(f"key-{n}") for n in range(600)))

        assert answers == [Won()] * 600
        assert len(await claimed_keys(client)) == 600


async def test_a_key_committed_before_it_was_won_is_stored_and_its_claim_is_given_up(
    redis_url: str, client: Redis
) -> None:
    shelf = Shelf({"done": Generation("text")})
    async with claiming(redis_url, "mine", shelf=shelf) as (claims,):
        done, new = await asyncio.gather(claims.claim("done"), claims.claim("new"))

        assert done == Stored(Generation("text"))
        assert new == Won()
        assert claims.held == {"new"}
        await owners_become(client, {"new": "mine"})


async def test_a_committed_key_is_found_even_if_its_holder_never_released_it(redis_url: str, client: Redis) -> None:
    shelf = Shelf()
    await client.set("coalq:claim:key", "dead", px=60_000)
    async with claiming(redis_url, "mine", shelf=shelf) as (claims,):
        assert await claims.claim("key") == Held()

        shelf.committed["key"] = Generation("text")

        assert await claims.claim("key") == Stored(Generation("text"))


async def test_held_claims_are_renewed(redis_url: str, client: Redis) -> None:
    async with claiming(redis_url, "mine", shelf=Shelf(), lease_s=0.4) as (claims,):
        await claims.claim("key")
        n_renewed, before = 0, await client.pttl("coalq:claim:key")

        async with asyncio.timeout(10):
            while n_renewed < 5:
                left = await client.pttl("coalq:claim:key")
                assert left > 0
                n_renewed += left > before
                before = left

        assert claims.held == {"key"}


async def test_a_claim_that_was_lost_is_forgotten_and_not_taken_from_its_new_owner(
    redis_url: str, client: Redis
) -> None:
    async with claiming(redis_url, "mine", shelf=Shelf(), lease_s=0.2) as (claims,):
        await asyncio.gather(claims.claim("kept"), claims.claim("lost"))
        await client.set("coalq:claim:lost", "theirs", px=60_000)

        await until(lambda: claims.held == {"kept"}, "the lost claim is forgotten")
        claims.release("lost")
        claims.release("kept")

        await owners_become(client, {"lost": "theirs"})


async def test_a_fault_of_the_archive_reaches_those_who_asked_and_leaves_no_claim(
    redis_url: str, client: Redis
) -> None:
    shelf = Shelf(errors=[ServerError("another version's schema")])
    async with claiming(redis_url, "mine", shelf=shelf) as (claims,):
        answers = await asyncio.gather(claims.claim("a"), claims.claim("b"), return_exceptions=True)

        assert [str(answer) for answer in answers] == ["another version's schema"] * 2
        await owners_become(client, {})
        assert await claims.claim("a") == Won()


@pytest.mark.parametrize("error", [ZeroDivisionError("bug"), asyncio.CancelledError()])
async def test_whatever_reading_raises_nobody_waits_for_ever(
    redis_url: str, client: Redis, error: BaseException
) -> None:
    shelf = Shelf(errors=[error])
    async with claiming(redis_url, "mine", shelf=shelf) as (claims,):
        with pytest.raises((ZeroDivisionError, HandBack)):
            await claims.claim("a")

        assert await claims.claim("b") == Won()
        await owners_become(client, {"b": "mine"})


async def test_an_archive_that_is_away_is_waited_for(redis_url: str) -> None:
    shelf = Shelf(errors=[TransientError("away"), TransientError("away")])
    async with claiming(redis_url, "mine", shelf=shelf) as (claims,):
        assert await claims.claim("a") == Won()
        assert shelf.n_reads == 3


async def test_a_stopping_process_does_not_wait_for_the_archive(redis_url: str, client: Redis) -> None:
    shelf = Shelf(errors=[TransientError("away")])
    async with claiming(redis_url, "mine", shelf=shelf, halted=lambda: True) as (claims,):
        with pytest.raises(HandBack, match="away"):
            await claims.claim("a")

        await owners_become(client, {})


async def test_while_redis_is_away_nobody_wins_and_after_it_everybody_goes_on(
    own_server: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with claiming(own_server.url, "mine", "theirs", shelf=Shelf()) as (mine, theirs):
        assert await mine.claim("old") == Won()
        own_server.kill()
        asking = [asyncio.create_task(claims.claim("new")) for claims in (mine, theirs)]
        mine.release("old")
        await until(lambda: caplog.text.count("nothing new starts") == 2, "both have noticed")
        assert not any(task.done() for task in asking)

        own_server.start()
        answers = await asyncio.gather(*asking)

        assert sorted(map(repr, answers)) == sorted([repr(Won()), repr(Held())])
        async with opened(own_server.url) as client:
            assert set(await claimed_keys(client)) == {"new"}


async def test_a_stopping_process_does_not_wait_for_redis(own_server: ValkeyServer) -> None:
    stopping = False
    async with claiming(own_server.url, "mine", shelf=Shelf(), halted=lambda: stopping) as (claims,):
        await claims.claim("old")
        own_server.kill()
        asking = asyncio.create_task(claims.claim("new"))
        await asyncio.sleep(0)

        stopping = True

        with pytest.raises(HandBack, match="stopping"):
            await asking


async def test_a_claim_cancelled_while_redis_is_away_is_not_taken_later(own_server: ValkeyServer) -> None:
    async with claiming(own_server.url, "mine", shelf=Shelf()) as (claims,):
        own_server.kill()
        cancelled, kept = (asyncio.create_task(claims.claim(key)) for key in ("cancelled", "kept"))
        await until(lambda: claims._asking or claims._asked, "both wait")
        cancelled.cancel()
        own_server.start()

        assert await kept == Won()

        async with opened(own_server.url) as client:
            await owners_become(client, {"kept": "mine"})


async def test_closing_gives_all_claims_up(redis_url: str, client: Redis) -> None:
    async with claiming(redis_url, "mine", shelf=Shelf()) as (claims,):
        await asyncio.gather(*(claims.claim(f"key-{n}") for n in range(300)))

        await claims.close()

        assert await claimed_keys(client) == {}
        assert claims.held == frozenset()
        with pytest.raises(HandBack, match="closed"):
            await claims.claim("late")


async def test_closing_sends_those_who_wait_away(own_server: ValkeyServer) -> None:
    async with claiming(own_server.url, "mine", shelf=Shelf()) as (claims,):
        own_server.kill()
        asking = asyncio.create_task(claims.claim("key"))
        await asyncio.sleep(0)

        await claims.close(wait_s=0.1)

        with pytest.raises(HandBack):
            await asking


async def test_closing_what_was_never_used_asks_nobody() -> None:
    async with claiming("redis://127.0.0.1:1/0", "mine", shelf=Shelf()) as (claims,):
        await claims.close()

        assert claims.held == frozenset()


async def test_a_key_given_up_and_asked_for_again_at_once_stays_claimed(redis_url: str, client: Redis) -> None:
    async with claiming(redis_url, "mine", shelf=Shelf()) as (claims,):
        await claims.claim("key")

        for _ in range(50):
            claims.release("key")
            assert await claims.claim("key") == Won()

        assert await claimed_keys(client) == {"key": "mine"}


async def test_tasks_end_with_the_claims(redis_url: str) -> None:
    before = asyncio.all_tasks()
    async with claiming(redis_url, "mine", shelf=Shelf()) as (claims,):
        assert isinstance(claims, SharedClaims)
        await claims.claim("key")

    await until(lambda: asyncio.all_tasks() <= before, "no task is left")
