"""The groups this process executes now: their leases and their orders to halt."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from coalq.archive import GroupAttempt
from coalq_workers.halt import Halt


class Execution:
    """One group being executed.

    Args:
        attempt: Which one.
        expires_at: Local monotonic time, seconds, after which nothing new is started unless the lease is renewed.
        clock: Monotonic seconds.
    """

    def __init__(self, attempt: GroupAttempt, *, expires_at: float, clock: Callable[[], float]) -> None:
        self.attempt = attempt
        self.halt = Halt()
        self.expires_at = expires_at
        self._clock = clock

    def halted(self) -> bool:
        """Whether nothing new may be started: ordered so, or the lease has run out by this machine's clock."""
        if not self.halt() and self._clock() >= self.expires_at:
            self.halt.give("the lease ran out before it could be renewed")
        return self.halt()


class Executions:
    """All executions of the process. Used from the event loop only."""

    def __init__(self, *, lease_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease_s = lease_s
        self._clock = clock
        self._by_attempt: dict[GroupAttempt, Execution] = {}
        self._stopping: str | None = None

    def now(self) -> float:
        """The clock of leases, monotonic seconds; taken *before* the statement that grants one."""
        return self._clock()

    def begin(self, attempt: GroupAttempt, *, granted_at: float) -> Execution:
        """Register a group whose ownership was granted by a statement sent at `granted_at`."""
        execution = Execution(attempt, expires_at=granted_at + self._lease_s, clock=self._clock)
        self._by_attempt[attempt] = execution
        if self._stopping is not None:
            execution.halt.give(self._stopping)
        return execution

    def end(self, execution: Execution) -> None:
        """Forget it: it is finished or handed back."""
        self._by_attempt.pop(execution.attempt, None)

    def attempts(self) -> list[GroupAttempt]:
        """Every execution, in key order."""
        return sorted(self._by_attempt)

    def renewed(
        self, asked: Iterable[GroupAttempt], *, survivors: Collection[tuple[str, int, int]], granted_at: float
    ) -> None:
        """Extend the survivors' leases; the others are no longer ours, or their run is no longer live."""
        for attempt in asked:
            execution = self._by_attempt.get(attempt)
            if execution is None:
                continue
            if attempt in survivors:
                execution.expires_at = granted_at + self._lease_s
            else:
                execution.halt.give("the group is no longer this process's to run")

    def halt_runs(self, asked: Iterable[GroupAttempt], *, live: Collection[str]) -> None:
        """Halt those groups whose run is not live; `asked` are the executions that there were before live was read."""
        for attempt in asked:
            execution = self._by_attempt.get(attempt)
            if execution is not None and attempt.run_id not in live:
                execution.halt.give("the run is no longer running")

    def halt_all(self, reason: str) -> None:
        """Halt everything, and whatever begins later: the process is stopping."""
        self._stopping = reason
        for execution in self._by_attempt.values():
            execution.halt.give(reason)

    def __contains__(self, attempt: GroupAttempt) -> bool:
        """Whether this very attempt is being executed here."""
        return attempt in self._by_attempt

    def __len__(self) -> int:
        return len(self._by_attempt)
