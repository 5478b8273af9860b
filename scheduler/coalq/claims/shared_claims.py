"""`SharedClaims`: the scheduler's registry of claims across processes, over Redis and the archive."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice

from redis import RedisError

from coalq.claim import Claim, Held, Stored, Won
from coalq.claims.redis_claims import KEYS_PER_CALL, RedisClaims
from coalq.errors import HandBack, TransientError
from coalq.generation import Generation

logger = logging.getLogger(__name__)

ReadGenerations = Callable[[list[str]], Awaitable[Mapping[str, Generation]]]
"""Reads committed generations from the archive; keys that are not there are not in the answer."""

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class SharedClaims:
    """Claims coalition keys for all jobs of one process.

    Two tasks of its own talk to Redis, so a job that is cancelled never cuts a call off. One sends what has come
    together since its last call: releases first, then claims, so a key given up and asked for again is never deleted
    under its new holder. Keys are read from the archive after they were claimed: whoever held one before may have
    committed it in between. The other renews.

    Claims decide nothing. One that is lost (Redis emptied, process frozen) costs a generation made twice. While Redis
    is away nobody wins a claim, so nothing new starts.

    Belongs to one event loop; `close` ends it.

    Args:
        claims: The keys in Redis.
        read: Reads the archive.
        halted: Whether the process is stopping; waiting for Redis then ends with `HandBack`.
        jitter: Random number in [0, 1), so that processes do not come back in step.
    """

    def __init__(
        self,
        claims: RedisClaims,
        *,
        read: ReadGenerations,
        halted: Callable[[], bool] = lambda: False,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._claims = claims
        self._read = read
        self._halted = halted
        self._jitter = jitter
        self._asked: dict[str, asyncio.Future[Claim]] = {}
        self._asking: dict[str, asyncio.Future[Claim]] = {}
        self._held: dict[str, int] = {}
        self._wins = 0
        self._releasing: dict[str, float] = {}
        self._work = asyncio.Event()
        self._closing = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._renewer: asyncio.Task[None] | None = None

    @property
    def held(self) -> frozenset[str]:
        """Keys this process holds now, as far as it knows."""
        return frozenset(self._held)

    async def claim(self, coalition_key: str) -> Claim:
        """Claim a key together with all others asked for in this turn of the loop. A cancelled call leaves no claim.

        Waits while Redis is away.

        Raises:
            HandBack: The process is stopping and Redis is away, or `close` was called.
            Exception: Whatever reading the archive raised.
        """
        if self._closing.is_set():
            raise _closed()
        asked = self._asked.get(coalition_key)
        is_asked = coalition_key in self._asking or (asked is not None and not asked.done())
        if is_asked or coalition_key in self._held:
            return Held()
        answer: asyncio.Future[Claim] = asyncio.get_running_loop().create_future()
        self._asked[coalition_key] = answer
        self._serve()
        try:
            return await answer
        except asyncio.CancelledError:
            # Won in the same turn in which the job was cancelled.
            if answer.done() and not answer.cancelled() and answer.exception() is None and answer.result() == Won():
                self.release(coalition_key)
            raise

    def release(self, coalition_key: str, generation: Generation | None = None) -> None:  # noqa: ARG002 - the archive has it
        """Give up a claim soon. Tried for one lease if Redis is away; then it has expired by itself."""
        self._held.pop(coalition_key, None)
        if not self._closing.is_set():
            self._release_later(coalition_key)
            self._serve()

    async def close(self, *, wait_s: float = 3.0) -> None:
        """Give up all claims and end; what Redis does not take within `wait_s` seconds expires by itself."""
        self._closing.set()
        for key in self._held:
            self._release_later(key)
        self._held.clear()
        if self._sender is None:
            return
        self._serve()
        tasks = [task for task in (self._sender, self._renewer) if task is not None]
        _, late = await asyncio.wait(tasks, timeout=wait_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    # --- the sender

    def _serve(self) -> None:
        self._work.set()
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_for_ever(), name="coalq-claims")
            self._sender.add_done_callback(self._sender_ended)
        if self._renewer is None or self._renewer.done():
            self._renewer = asyncio.create_task(self._renew_for_ever(), name="coalq-claims-renewal")

    def _sender_ended(self, sender: asyncio.Task[None]) -> None:
        """Nobody may wait for a task that is gone, whatever ended it."""
        error = None if sender.cancelled() else sender.exception()
        self._refuse(error or _closed())

    async def _send_for_ever(self) -> None:
        failures = 0
        while True:
            await self._work.wait()
            self._work.clear()
            # Looked at before sending: what `close` gives up is sent once more after it was called.
            is_last = self._closing.is_set()
            try:
                await self._send()
            except (RedisError, TransientError) as error:
                failures += 1
                if failures == 1:
                    logger.warning("no claims, so nothing new starts until the servers are back: %s", error)
                self._keep_for_later(error)
                await self._closes_within(self._pause_s(failures))
                self._work.set()
            else:
                if failures and not is_last:
                    logger.warning("claims work again")
                failures = 0
            if is_last:
                return

    async def _send(self) -> None:
        """Send all that is waiting; on an error the rest is waiting still."""
        while self._asked or self._releasing:
            await self._send_releases()
            await self._send_claims()

    async def _send_releases(self) -> None:
        now = asyncio.get_running_loop().time()
        self._releasing = {key: until for key, until in self._releasing.items() if until > now}
        keys = list(self._releasing)
        await self._claims.release(keys)
        for key in keys:
            self._releasing.pop(key, None)

    async def _send_claims(self) -> None:
        if self._closing.is_set():
            self._refuse(_closed())
        asked = {key: answer for key, answer in self._asked.items() if not answer.done()}
        self._asking = dict(islice(asked.items(), KEYS_PER_CALL))
        self._asked = dict(islice(asked.items(), KEYS_PER_CALL, None))
        if not self._asking:
            return
        keys = list(self._asking)
        won = await self._claims.claim(keys)
        try:
            stored = await self._read(keys)
        except (RedisError, TransientError):
            raise
        except Exception as error:  # noqa: BLE001 - the archive's fault belongs to those who asked, not to this task
            self._refuse_asking(error)
            return
        if self._closing.is_set():
            self._refuse_asking(_closed())
        self._answer(won, stored)

    def _answer(self, won: set[str], stored: Mapping[str, Generation]) -> None:
        asking, self._asking = self._asking, {}
        for key, answer in asking.items():
            generation = stored.get(key)
            is_mine = key in won and generation is None and not answer.done()
            if is_mine:
                self._wins += 1
                self._held[key] = self._wins
            elif key in won:
                self._release_later(key)
            if answer.done():
                continue
            if generation is not None:
                answer.set_result(Stored(generation))
            else:
                answer.set_result(Won() if is_mine else Held())

    def _keep_for_later(self, error: Exception) -> None:
        """Ask again what the failed call asked, unless the process is stopping."""
        if self._halted() or self._closing.is_set():
            self._refuse(HandBack(f"no claim could be taken and the process is stopping: {error}"))
            return
        for key, answer in self._asking.items():
            if answer.done():
                self._release_later(key)
        self._asked = self._asking | self._asked
        self._asking = {}

    def _refuse(self, error: BaseException) -> None:
        self._refuse_asking(error)
        asked, self._asked = self._asked, {}
        _fail(asked.values(), error)

    def _refuse_asking(self, error: BaseException) -> None:
        """Whether the call in question took its claims is not known, so they are given up."""
        asking, self._asking = self._asking, {}
        for key in asking:
            self._release_later(key)
        _fail(asking.values(), error)

    def _release_later(self, key: str) -> None:
        self._releasing[key] = asyncio.get_running_loop().time() + self._claims.lease_s

    def _pause_s(self, failures: int) -> float:
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(failures, 10))
        return longest * (0.5 + 0.5 * self._jitter())

    async def _closes_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return False
        return True

    # --- the renewal

    async def _renew_for_ever(self) -> None:
        while not await self._closes_within(self._claims.lease_s / 4):
            held = dict(self._held)
            try:
                still = await self._claims.renew(list(held))
            except RedisError as error:
                logger.warning("%d claims cannot be renewed yet: %s", len(held), error)
                continue
            # A key may have been given up and won again meanwhile; the answer is not about that claim.
            lost = [key for key, win in held.items() if key not in still and self._held.get(key) == win]
            for key in lost:
                del self._held[key]
            if lost:
                logger.warning("%d claims ran out; at worst their generations are made twice", len(lost))


def _closed() -> HandBack:
    return HandBack("claims are closed: the process is stopping")


def _fail(answers: Iterable[asyncio.Future[Claim]], error: BaseException) -> None:
    for answer in answers:
        if not answer.done():
            answer.set_exception(error)
