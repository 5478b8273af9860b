"""Takes groups that messages name, has them run, and sees each finished or handed back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from coalq.archive import Archive, GroupAttempt, StartedGroup
from coalq.errors import HandBack, TransientError
from coalq_workers.drain import Drain
from coalq_workers.executions import Execution, Executions
from coalq_workers.group_run import GroupEnd, GroupRunner
from coalq_workers.work_threads import WorkThreads

logger = logging.getLogger(__name__)


class GroupOwner:
    """Owns groups in SQL for as long as they run here. Used from the event loop only.

    Args:
        ended: Called after each group: the next ones may be waiting for it.
    """

    def __init__(
        self,
        archive: Archive,
        threads: WorkThreads,
        *,
        runner: GroupRunner,
        executions: Executions,
        drain: Drain,
        process_id: str,
        lease_s: float,
        ended: Callable[[], None],
    ) -> None:
        self._archive = archive
        self._threads = threads
        self._runner = runner
        self._executions = executions
        self._drain = drain
        self._process_id = process_id
        self._lease_s = lease_s
        self._ended = ended
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """The process drains: halt everything; what is in flight is cut off when the drain time is over."""
        self._executions.halt_all("the worker is stopping")
        self._stopping.set()

    async def execute(self, attempt: GroupAttempt) -> str:
        """Run the group if this attempt may still be started; returns a line for people."""
        execution, group = await self._start(attempt)
        if execution is None or group is None:
            return "nothing to do: the group is finished, owned or published again"
        try:
            return await self._execute(group, execution)
        finally:
            self._executions.end(execution)
            self._ended()

    async def _execute(self, group: StartedGroup, execution: Execution) -> str:
        try:
            end = await self._run_within_drain_time(group, execution)
        except (HandBack, TransientError) as error:
            await self._hand_back(execution, reason=str(error), progressed=False)
            return f"handed back: {error}"
        if not end.finished:
            reason = execution.halt.reason or "what is left is being generated elsewhere"
            await self._hand_back(execution, reason=reason, progressed=end.metrics.requested > 0)
        return str(end)

    async def _start(self, attempt: GroupAttempt) -> tuple[Execution | None, StartedGroup | None]:
        """Take ownership; a database that is away is waited for, as the message is already acknowledged."""
        while not self._drain.is_begun():
            granted_at = self._executions.now()
            try:
                group = await self._threads.database(
                    self._archive.start, *attempt, process_id=self._process_id, lease_s=self._lease_s
                )
            except TransientError as error:
                logger.warning("cannot start a group yet: %s", error)
                continue
            # `start` says yes again to the owner: a doubled message must not run the group twice at once.
            if group is None or attempt in self._executions:
                return None, None
            return self._executions.begin(attempt, granted_at=granted_at), group
        try:
            await self._threads.database(self._archive.unmark, [attempt])
        except TransientError as error:
            logger.warning("a group is left to the sweep: %s", error)
        return None, None

    async def _run_within_drain_time(self, group: StartedGroup, execution: Execution) -> GroupEnd:
        running = asyncio.create_task(self._runner.run(group, execution))
        cut = asyncio.create_task(self._cut_after_drain(running))
        try:
            return await running
        except asyncio.CancelledError as error:
            raise HandBack("the drain time is over") from error
        finally:
            cut.cancel()

    async def _cut_after_drain(self, running: asyncio.Task[GroupEnd]) -> None:
        await self._stopping.wait()
        await asyncio.sleep(self._drain.left_s)
        running.cancel()

    async def _hand_back(self, execution: Execution, *, reason: str, progressed: bool) -> None:
        run_id, number, _ = execution.attempt
        logger.warning("group %d of run %s is handed back: %s", number, run_id, reason)
        try:
            await self._threads.database(
                self._archive.hand_back, [execution.attempt], process_id=self._process_id, progressed=progressed
            )
        except TransientError as error:
            logger.warning("it is left to the sweep: %s", error)
