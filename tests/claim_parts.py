"""Parts for tests of claims: several processes' claims over one Valkey, and the archive they read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from redis.asyncio import Redis

from coalq.claims import RedisClaims, SharedClaims, open_redis
from coalq.claims.redis_claims import KEY_PREFIX
from coalq.generation import Generation


@dataclass
class Shelf:
    """What is committed; every process reads it. Raises the errors it is given, one for each call, first."""

    committed: dict[str, Generation] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)
    n_reads: int = 0

    async def read(self, keys: list[str]) -> dict[str, Generation]:
        self.n_reads += 1
        if self.errors:
            raise self.errors.pop(0)
        return {key: self.committed[key] for key in keys if key in self.committed}


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Redis]:
    """A client that is closed again."""
    client = open_redis(url)
    try:
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def claiming(
    url: str, *processes: str, shelf: Shelf, lease_s: float = 60.0, halted: Callable[[], bool] = lambda: False
) -> AsyncIterator[list[SharedClaims]]:
    """The claims of several processes, each with a client of its own; all are closed in the end."""
    async with AsyncExitStack() as stack:
        all_claims = []
        for process in processes:
            client = await stack.enter_async_context(opened(url))
            claims = SharedClaims(
                RedisClaims(client, process_id=process, lease_s=lease_s), read=shelf.read, halted=halted
            )
            stack.push_async_callback(claims.close)
            all_claims.append(claims)
        yield all_claims


async def claimed_keys(client: Redis) -> dict[str, str]:
    """The owner of every claim there is; each must expire by itself."""
    owners = {}
    async for name in client.scan_iter(match=f"{KEY_PREFIX}*", count=1000):
        owner = await client.get(name)
        if owner is not None:
            assert isinstance(owner, str)
            assert await client.pttl(name) != -1, f"{name} never expires"
            owners[name.removeprefix(KEY_PREFIX)] = owner
    return owners
