"""When the supervisor is to stop: its standard input ended, or it was sent a signal."""

from __future__ import annotations

import os
import selectors
import signal
from types import FrameType


class StopOrder:
    """Listens to one file descriptor and to signals. A signal after the order means: do not wait for anybody.

    Every wait ends early when an order comes or a child process ends.
    """

    def __init__(self, input_fd: int) -> None:
        self.given = False
        self.hurry = False
        self._input_fd = input_fd
        self._selector = selectors.DefaultSelector()
        wake_fd, written_fd = os.pipe()
        os.set_blocking(wake_fd, False)
        os.set_blocking(written_fd, False)
        self._wake_fd = wake_fd
        self._selector.register(wake_fd, selectors.EVENT_READ)
        self._selector.register(input_fd, selectors.EVENT_READ)
        signal.set_wakeup_fd(written_fd, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # only its wake-up matters

    def wait(self, seconds: float) -> None:
        """Wait until an order comes, a child ends or the time is over, whichever is first."""
        for key, _ in self._selector.select(max(0.0, seconds)):
            if key.fd == self._wake_fd:
                self._drain()
            elif not os.read(self._input_fd, 4096):
                self._selector.unregister(self._input_fd)
                self.given = True

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.hurry = self.given
        self.given = True

    def _drain(self) -> None:
        try:
            while os.read(self._wake_fd, 4096):
                pass
        except BlockingIOError:
            return
