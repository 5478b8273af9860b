"""The order to start nothing new: one per group, given when it is no longer ours to run."""

from __future__ import annotations

import asyncio


class Halt:
    """Tells a group's jobs to start nothing new, and why. Used from the event loop only.

    What is in flight ends normally; only waiting is cut short.
    """

    def __init__(self) -> None:
        self._given = asyncio.Event()
        self.reason: str | None = None

    def give(self, reason: str) -> None:
        """Give the order; the first reason stays."""
        if self.reason is None:
            self.reason = reason
        self._given.set()

    def __call__(self) -> bool:
        """Whether the order was given."""
        return self._given.is_set()

    async def given(self) -> None:
        """Wait for the order."""
        await self._given.wait()

    async def pause(self, seconds: float) -> None:
        """Sleep, but no longer than until the order is given."""
        try:
            async with asyncio.timeout(seconds):
                await self._given.wait()
        except TimeoutError:
            return
