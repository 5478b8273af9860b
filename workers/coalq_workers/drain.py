"""The end of a worker process: it was told to stop, and what is in flight may end within the drain time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Drain:
    """Begun once, from a signal handler or any thread; asked from everywhere.

    Args:
        drain_s: How long what is in flight may go on, seconds.
        clock: Monotonic seconds.
    """

    def __init__(self, drain_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._drain_s = drain_s
        self._clock = clock
        self._begun = threading.Event()
        self._deadline = 0.0

    def begin(self) -> None:
        """Stop; asking again changes nothing."""
        if not self._begun.is_set():
            self._deadline = self._clock() + self._drain_s
            self._begun.set()

    def is_begun(self) -> bool:
        """Whether nothing new may be started."""
        return self._begun.is_set()

    def is_over(self) -> bool:
        """Whether even what is in flight has to be given up."""
        return self._begun.is_set() and self._clock() >= self._deadline

    @property
    def left_s(self) -> float:
        """Seconds until it is over; the whole drain time before it begins."""
        return max(0.0, self._deadline - self._clock()) if self._begun.is_set() else self._drain_s
