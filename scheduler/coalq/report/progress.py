"""Live progress on standard error: one line that changes, plain lines, JSON lines, or nothing."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from coalq.archive import RunProgress
from coalq.outcome import RunStatus
from coalq.report.document import counters, outcome_words

_WINDOW_S = 10.0
"""The rate is that of the last ten seconds, so that a pause shows soon."""

_PLAIN_EVERY_S = 5.0


class ProgressMode(StrEnum):
    """How progress is shown; `auto` is the changing line on a terminal and plain lines elsewhere."""

    AUTO = "auto"
    PLAIN = "plain"
    JSON = "json"
    NONE = "none"


class RateMeter:
    """Records per second over the last seconds, from (time, done) pairs."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, done: int) -> None:
        """Note how many records there are now; times never go back."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _WINDOW_S:
            self._seen.popleft()

    @property
    def per_second(self) -> float | None:
        """None until some time has passed."""
        if not self._seen:
            return None
        (began, first), (now, last) = self._seen[0], self._seen[-1]
        return (last - first) / (now - began) if now > began else None

    def seconds_left(self, total: int | None) -> float | None:
        """None while the total is unknown or nothing moves."""
        rate = self.per_second
        if total is None or not rate:
            return None
        return max(0, total - self._seen[-1][1]) / rate


class ProgressReporter(Protocol):
    """Told the progress several times a second; a context manager that leaves the terminal clean."""

    def __call__(self, progress: RunProgress) -> None:
        """Show it, or not, as the mode wants."""

    def note(self, message: str) -> None:
        """Show one line for the reader's orientation."""

    def warn(self, message: str) -> None:
        """Show one warning line."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def make_reporter(
    mode: ProgressMode, *, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> ProgressReporter:
    """The reporter of a mode, writing to standard error unless told otherwise."""
    stream = stream or sys.stderr
    match mode:
        case ProgressMode.AUTO if stream.isatty():
            return _LiveLine(stream, clock=clock)
        case ProgressMode.AUTO | ProgressMode.PLAIN:
            return _PlainLines(stream, clock=clock)
        case ProgressMode.JSON:
            return _JsonLines(stream)
        case ProgressMode.NONE:
            return _Silent(stream)


def progress_line(progress: RunProgress, rate: RateMeter) -> str:
    """E.g. `64/128 · 12.3/s · ETA 0:05 · 60 executed, 0 deduplicated, 4 cache hits, 0 failed`."""
    of = f"/{progress.total:,}" if progress.total is not None else ""
    parts = [f"{progress.done:,}{of}"]
    if (per_second := rate.per_second) is not None:
        parts.append(f"{per_second:,.1f}/s")
    if progress.status is RunStatus.RUNNING and (left := rate.seconds_left(progress.total)) is not None:
        parts.append(f"ETA {_clock_time(left)}")
    return " · ".join([*parts, outcome_words(progress)])


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Silent:
    """Only warnings."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, progress: RunProgress) -> None:
        del progress

    def note(self, message: str) -> None:
        del message

    def warn(self, message: str) -> None:
        self._write(f"coalq: warning: {message}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


class _PlainLines(_Silent):
    """A line every few seconds while something changes, and one at the end."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float]) -> None:
        super().__init__(stream)
        self._clock = clock
        self._rate = RateMeter()
        self._last: RunProgress | None = None
        self._written: RunProgress | None = None
        self._due = clock() + _PLAIN_EVERY_S

    def __call__(self, progress: RunProgress) -> None:
        now = self._clock()
        self._rate.add(now, progress.done)
        self._last = progress
        if now >= self._due and progress != self._written:
            self._show(progress)
            self._due = now + _PLAIN_EVERY_S

    def note(self, message: str) -> None:
        self._write(f"coalq: {message}")

    def __exit__(self, *_: object) -> None:
        if self._last is not None and self._last != self._written:
            self._show(self._last)

    def _show(self, progress: RunProgress) -> None:
        self._written = progress
        self._write(f"coalq: {progress_line(progress, self._rate)}")


class _JsonLines(_Silent):
    """One JSON object for every change."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._written: RunProgress | None = None

    def __call__(self, progress: RunProgress) -> None:
        if progress == self._written:
            return
        self._written = progress
        self._tell(
            "progress",
            status=str(progress.status),
            reason=progress.reason,
            total=progress.total,
            done=progress.done,
            counters=counters(progress),
        )

    def note(self, message: str) -> None:
        self._tell("note", message=message)

    def warn(self, message: str) -> None:
        self._tell("warning", message=message)

    def _tell(self, event: str, **fields: object) -> None:
        self._write(json.dumps({"event": event, **fields}, ensure_ascii=False))


class _LiveLine(_Silent):
    """One line that changes in place and disappears at the end; warnings stay above it."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float]) -> None:
        super().__init__(stream)
        self._clock = clock
        self._rate = RateMeter()
        self._live = Live(console=Console(file=stream), auto_refresh=False, transient=True)

    def __call__(self, progress: RunProgress) -> None:
        self._rate.add(self._clock(), progress.done)
        line = Text(progress_line(progress, self._rate), no_wrap=True, overflow="ellipsis")
        self._live.update(line, refresh=True)

    def note(self, message: str) -> None:
        self._live.console.print(Text(f"coalq: {message}", style="dim"))

    def warn(self, message: str) -> None:
        self._live.console.print(Text(f"coalq: warning: {message}", style="yellow"))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
