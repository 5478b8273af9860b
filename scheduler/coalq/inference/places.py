"""The places in flight: how many generations may run at once, and how much may be finished but not committed."""

from __future__ import annotations

import asyncio
import heapq
from types import TracebackType
from typing import Self


class Place:
    """The right to run one generation, from before its claim until its record is committed.

    Used as a context manager. Its two parts, the generation and the commit, are each given back exactly once, however
    often they are asked to be.
    """

    __slots__ = ("_committing", "_generating", "_places")

    def __init__(self, places: Places) -> None:
        self._places = places
        self._generating = True
        self._committing = True

    def leave(self) -> None:
        """The generation is over: somebody else may start one while this one is being committed."""
        if self._generating:
            self._generating = False
            self._places.give_back(generating=1)

    def close(self) -> None:
        """All is over: committed, or never begun."""
        self.leave()
        if self._committing:
            self._committing = False
            self._places.give_back(uncommitted=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Places:
    """A fair limit shared by all calls of one scheduler: the oldest call first, within a call in order of asking.

    Serving older calls first keeps two groups from ending together and leaving the endpoint idle.

    A place is granted while fewer than `limit` generations run and fewer than 1.5 × `limit` are running or not
    committed, so a writer that falls behind stops new starts. Whoever gives something back hands it to the next in line
    at once. So nobody waits while there is room, and no newcomer overtakes.

    Args:
        limit: Generations that may run at once, at least 1.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._uncommitted_limit = limit + limit // 2
        self._in_flight = 0
        self._uncommitted = 0
        self._asked = 0
        self._queue: list[tuple[int, int, asyncio.Future[Place | None]]] = []

    @property
    def in_flight(self) -> int:
        """Generations running now."""
        return self._in_flight

    @property
    def uncommitted(self) -> int:
        """Generations running or finished but not committed."""
        return self._uncommitted

    async def take(self, call: int) -> Place | None:
        """Wait for a place.

        Args:
            call: Number of the call that asks; lower ones are older and come first.

        Returns:
            The place, or None if `refuse` was called for this call meanwhile.
        """
        if self._has_room():
            return self._grant()
        waiting: asyncio.Future[Place | None] = asyncio.get_running_loop().create_future()
        self._asked += 1
        heapq.heappush(self._queue, (call, self._asked, waiting))
        try:
            return await waiting
        except asyncio.CancelledError:
            # The place may have been handed over in the same turn in which the waiting job was cancelled.
            if waiting.done() and not waiting.cancelled() and (place := waiting.result()) is not None:
                place.close()
            raise

    def refuse(self, call: int) -> None:
        """Send everybody of one call away who is still waiting."""
        kept = [entry for entry in self._queue if entry[0] != call]
        refused = [waiting for number, _, waiting in self._queue if number == call]
        heapq.heapify(kept)
        self._queue = kept
        for waiting in refused:
            if not waiting.done():
                waiting.set_result(None)

    def give_back(self, *, generating: int = 0, uncommitted: int = 0) -> None:
        """Count down and serve whoever waits. Called by `Place` only."""
        self._in_flight -= generating
        self._uncommitted -= uncommitted
        while self._queue and self._has_room():
            _, _, waiting = heapq.heappop(self._queue)
            if not waiting.done():
                waiting.set_result(self._grant())

    def _has_room(self) -> bool:
        return self._in_flight < self._limit and self._uncommitted < self._uncommitted_limit

    def _grant(self) -> Place:
        self._in_flight += 1
        self._uncommitted += 1
        return Place(self)
