"""What a worker does beside its groups: plans and publishes for live runs, renews leases, sweeps, shows a heartbeat.

Every worker does the same, so a run goes on whoever dies. The loops are apart: a broker that is away holds up
publishing, never the renewal of leases.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence

from coalq.archive import Archive, WorkerRow
from coalq.broker import GroupSender
from coalq.errors import TransientError
from coalq.publisher import Publisher
from coalq_workers.executions import Executions
from coalq_workers.work_threads import WorkThreads

logger = logging.getLogger(__name__)

BUSY_TICK_S = 0.25
IDLE_TICK_S = 1.0


class Upkeep:
    """The periodic work of one process on the queues it consumes.

    Args:
        describe: This process as other machines see it, made anew for each heartbeat.
    """

    def __init__(
        self,
        archive: Archive,
        threads: WorkThreads,
        *,
        queues: Sequence[str],
        publisher: Publisher,
        sender: GroupSender,
        executions: Executions,
        process_id: str,
        lease_s: float,
        describe: Callable[[], WorkerRow],
    ) -> None:
        self._archive = archive
        self._threads = threads
        self._queues = tuple(queues)
        self._publisher = publisher
        self._sender = sender
        self._executions = executions
        self._process_id = process_id
        self._lease_s = lease_s
        self._describe = describe
        self._sweep_after = 0.0
        self._soon = asyncio.Event()

    def hurry(self) -> None:
        """Plan and publish at once: a group has ended, and the next ones may be waiting for it."""
        self._soon.set()

    async def serve(self) -> None:
        """All loops, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._publish_loop())
            tasks.create_task(self._every_quarter_lease(self._renew))
            tasks.create_task(self._every_quarter_lease(self._sweep))

    async def _publish_loop(self) -> None:
        while True:
            self._soon.clear()
            busy = await self._guarded(self._publish)
            seconds = (BUSY_TICK_S if busy else IDLE_TICK_S) * random.uniform(0.8, 1.2)  # noqa: S311 - spreads ticks
            try:
                async with asyncio.timeout(seconds):
                    await self._soon.wait()
            except TimeoutError:
                continue

    async def _publish(self) -> bool:
        """One tick; True while runs are live."""
        attempts = self._executions.attempts()
        live = await self._threads.database(self._archive.live_runs, self._queues)
        self._executions.halt_runs(attempts, live=live)
        if live:
            for queue in self._queues:
                await self._threads.broker(self._publisher.drive, queue)
        return bool(live)

    async def _renew(self) -> bool:
        attempts = self._executions.attempts()
        if attempts:
            granted_at = self._executions.now()
            survivors = await self._threads.database(
                self._archive.renew, attempts, process_id=self._process_id, lease_s=self._lease_s
            )
            self._executions.renewed(attempts, survivors=set(survivors), granted_at=granted_at)
        await self._threads.database(self._archive.heartbeat, self._describe())
        return True

    async def _sweep(self) -> bool:
        if self._executions.now() < self._sweep_after:
            return False
        ready = await self._threads.broker(self._sender.ready_counts, self._queues)
        empty = {queue for queue, waiting in ready.items() if waiting == 0}
        swept = await self._threads.database(
            self._archive.sweep, self._queues, lease_s=self._lease_s, empty_queues=empty
        )
        if swept:
            logger.warning("put %d groups back that no live worker was running", swept)
            self.hurry()
        return bool(swept)

    async def _every_quarter_lease(self, step: Callable[[], Awaitable[bool]]) -> None:
        while True:
            await self._guarded(step)
            await asyncio.sleep(self._lease_s / 4 * random.uniform(0.8, 1.0))  # noqa: S311 - spreads ticks

    async def _guarded(self, step: Callable[[], Awaitable[bool]]) -> bool:
        """Run a step; a server that is away is waited for, and nobody's lease is judged until it could be renewed."""
        try:
            return await step()
        except TransientError as error:
            self._sweep_after = self._executions.now() + self._lease_s / 4
            logger.warning("%s", error)
        except Exception:
            logger.exception("upkeep failed; it goes on")
        return False
