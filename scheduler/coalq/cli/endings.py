"""Signals that end a command: they become exceptions, so that what was started is stopped and its run is paused."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


class Ended(KeyboardInterrupt):
    """A signal other than Ctrl-C's asked the command to end; its text is the signal's name."""


@contextmanager
def ends_raised() -> Iterator[None]:
    """Raise `Ended` on SIGTERM and SIGHUP; one that is ignored (`nohup`) stays so."""
    before = {number: signal.getsignal(number) for number in _ENDINGS}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:
            signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise(number: int, _: FrameType | None) -> None:
    raise Ended(signal.Signals(number).name)
