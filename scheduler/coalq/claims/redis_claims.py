"""`RedisClaims`: claims as keys in Redis or Valkey, one script call for many of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from redis.asyncio import Redis
from redis.commands.core import AsyncScript

KEYS_PER_CALL = 256
"""A script with so many keys holds the server for 0.7 ms; more would be felt by others."""

KEY_PREFIX = "coalq:claim:"


class RedisClaims:
    """Claims of one process. Each is one key that holds the process id and expires after the lease.

    Every method is one script call per 256 keys, atomic for each key, and may be repeated: a crash or a lost answer
    leaves claims that expire. Calls raise `redis.RedisError`. They must not be cancelled: an answer that nobody reads
    could be taken for the next one's.

    Args:
        redis: The client, used for nothing but scripts.
        process_id: The owner, random per start of a process.
        lease_s: How long a claim lasts unless renewed, seconds.
        prefix: Stands before each coalition key; differs from the broker's.
    """

    def __init__(self, redis: Redis, *, process_id: str, lease_s: float, prefix: str = KEY_PREFIX) -> None:
        self.lease_s = lease_s
        self._owner = process_id
        self._lease_ms = max(1, round(lease_s * 1000))
        self._prefix = prefix
        self._claim = _script(redis, "claim.lua")
        self._renew = _script(redis, "renew.lua")
        self._release = _script(redis, "release.lua")

    async def claim(self, keys: Sequence[str]) -> set[str]:
        """Claim keys that nobody else holds, `SET … NX PX`; returns those that are now this process's."""
        return await self._select(self._claim, keys)

    async def renew(self, keys: Sequence[str]) -> set[str]:
        """Start the lease of owned keys anew; returns those that are still this process's."""
        return await self._select(self._renew, keys)

    async def release(self, keys: Sequence[str]) -> None:
        """Delete keys that are still this process's."""
        for batch in _batches(keys):
            await self._release(keys=self._names(batch), args=[self._owner])

    async def _select(self, script: AsyncScript, keys: Sequence[str]) -> set[str]:
        chosen: set[str] = set()
        for batch in _batches(keys):
            answers = await script(keys=self._names(batch), args=[self._owner, self._lease_ms])
            chosen.update(key for key, answer in zip(batch, answers, strict=True) if answer)
        return chosen

    def _names(self, keys: Sequence[str]) -> list[str]:
        return [self._prefix + key for key in keys]


def _batches(keys: Sequence[str]) -> list[Sequence[str]]:
    return [keys[start : start + KEYS_PER_CALL] for start in range(0, len(keys), KEYS_PER_CALL)]


def _script(redis: Redis, name: str) -> AsyncScript:
    """Sent by its hash; a server that does not know it (new, or emptied) is given the text again."""
    return redis.register_script(files("coalq.claims").joinpath(name).read_text(encoding="utf-8"))
