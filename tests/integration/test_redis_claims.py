"""The claim scripts on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import redis
from redis.asyncio import Redis

from claim_parts import claimed_keys, opened
from coalq.claims import KEYS_PER_CALL, RedisClaims


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Redis]:
    async with opened(redis_url) as client:
        yield client
        # Fails every test that leaves a claim without an expiry.
        await claimed_keys(client)


def claims_of(process: str, client: Redis, *, lease_s: float = 60.0) -> RedisClaims:
    return RedisClaims(client, process_id=process, lease_s=lease_s)


async def test_only_keys_that_nobody_else_holds_are_won(client: Redis) -> None:
    mine, theirs = claims_of("mine", client), claims_of("theirs", client)

    assert await mine.claim(["a", "b"]) == {"a", "b"}
    assert await theirs.claim(["b", "c"]) == {"c"}

    assert await claimed_keys(client) == {"a": "mine", "b": "mine", "c": "theirs"}


async def test_claiming_again_after_a_lost_answer_wins_again_and_starts_the_lease_anew(client: Redis) -> None:
    claims = claims_of("mine", client)
    await claims.claim(["a"])
    await client.pexpire("coalq:claim:a", 1000)

    assert await claims.claim(["a"]) == {"a"}

    assert await client.pttl("coalq:claim:a") > 50_000


async def test_renewal_touches_only_what_is_owned(client: Redis) -> None:
    mine, theirs = claims_of("mine", client), claims_of("theirs", client, lease_s=5)
    await mine.claim(["a"])
    await theirs.claim(["b"])

    assert await mine.renew(["a", "b", "gone"]) == {"a"}

    assert await client.pttl("coalq:claim:b") <= 5000
    assert await claimed_keys(client) == {"a": "mine", "b": "theirs"}


async def test_a_claim_is_released_by_its_owner_only(client: Redis) -> None:
    mine, theirs = claims_of("mine", client), claims_of("theirs", client)
    await mine.claim(["a", "b"])

    await theirs.release(["a", "b"])
    await mine.release(["a", "gone"])

    assert await claimed_keys(client) == {"b": "mine"}


async def test_an_expired_claim_can_be_won_by_another(client: Redis) -> None:
    mine, theirs = claims_of("mine", client, lease_s=0.02), claims_of("theirs", client)
    await mine.claim(["a"])
    won: set[str] = set()

    while not won:
        won = await theirs.claim(["a"])

    assert await mine.renew(["a"]) == set()
    await mine.release(["a"])
    assert await claimed_keys(client) == {"a": "theirs"}


async def test_many_keys_go_in_calls_of_a_bounded_size(client: Redis) -> None:
    claims = claims_of("mine", client)
    keys = [f"{n:032x}" for n in range(2 * KEYS_PER_CALL + 1)]
    await claims.claim([])
    await client.config_resetstat()

    assert await claims.claim(keys) == set(keys)
    assert await claims.renew(keys) == set(keys)
    await claims.release(keys)

    assert await claimed_keys(client) == {}
    # Three calls for each of the three; the first of each is repeated with the script's text.
    statistics = await client.info("commandstats")
    assert statistics["cmdstat_evalsha"]["calls"] <= 9 + 3


async def test_a_server_that_forgot_the_scripts_is_told_them_again(client: Redis) -> None:
    claims = claims_of("mine", client)
    await claims.claim(["a"])
    await client.script_flush()

    assert await claims.claim(["b"]) == {"b"}
    assert await claims.renew(["a"]) == {"a"}


async def test_the_clients_calls_end_when_the_server_is_gone() -> None:
    async with opened("redis://127.0.0.1:1/0") as client:
        with pytest.raises(redis.RedisError):
            await claims_of("mine", client).claim(["a"])
