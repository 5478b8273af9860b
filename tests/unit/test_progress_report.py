from __future__ import annotations

import io
import json

import pytest

from coalq.archive import RunProgress
from coalq.outcome import RunStatus
from coalq.report import ProgressMode, make_reporter
from coalq.report.progress import RateMeter, progress_line
from report_summaries import progress


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def running(done: int) -> RunProgress:
    return progress(status=RunStatus.RUNNING, done=done, executed=done, cache_hits=0, deduplicated=0)


def test_the_line_tells_done_total_rate_time_left_and_outcomes() -> None:
    rate = RateMeter()
    rate.add(0.0, 0)
    rate.add(2.0, 5)

    line = progress_line(progress(status=RunStatus.RUNNING, done=5, total=1205), rate)

    assert line == "5/1,205 · 2.5/s · ETA 8:00 · 5 executed, 1 deduplicated, 2 cache hits, 0 failed"


def test_nothing_is_guessed_before_anything_moved() -> None:
    rate = RateMeter()
    rate.add(0.0, 0)

    assert progress_line(progress(done=0, total=None), rate).startswith("0 · 5 executed")


def test_the_rate_is_that_of_the_last_ten_seconds() -> None:
    rate = RateMeter()
    for second in range(31):
        rate.add(float(second), second * 10 if second <= 20 else 200)

    assert rate.per_second == 0.0
    assert rate.seconds_left(400) is None


def test_hours_are_told_as_hours() -> None:
    rate = RateMeter()
    rate.add(0.0, 0)
    rate.add(1.0, 1)

    assert "ETA 2:46:39" in progress_line(progress(status=RunStatus.RUNNING, done=1, total=10_000), rate)


def test_a_run_that_ended_has_no_time_left() -> None:
    rate = RateMeter()
    rate.add(0.0, 0)
    rate.add(1.0, 1)

    assert "ETA" not in progress_line(progress(status=RunStatus.INCOMPLETE, done=1), rate)


def test_plain_progress_is_a_line_every_few_seconds_and_one_at_the_end() -> None:
    clock, stream = Clock(), io.StringIO()

    with make_reporter(ProgressMode.PLAIN, stream=stream, clock=clock) as report:
        for second in range(9):
            clock.now = float(second)
            report(running(second))

    lines = stream.getvalue().splitlines()
    assert [line.split(" · ")[0] for line in lines] == ["coalq: 5/8", "coalq: 8/8"]


def test_plain_progress_does_not_repeat_itself() -> None:
    clock, stream = Clock(), io.StringIO()

    with make_reporter(ProgressMode.AUTO, stream=stream, clock=clock) as report:
        for second in range(60):
            clock.now = float(second)
            report(running(3))

    assert len(stream.getvalue().splitlines()) == 1


def test_json_progress_is_one_object_for_every_change() -> None:
    stream = io.StringIO()

    with make_reporter(ProgressMode.JSON, stream=stream) as report:
        for done in (1, 1, 2):
            report(running(done))
        report.note("7 slots")
        report.warn("nobody works")

    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("done") for line in told] == [1, 2, None, None]
    assert told[0]["counters"]["requested"] == 1
    assert told[2] == {"event": "note", "message": "7 slots"}
    assert told[3] == {"event": "warning", "message": "nobody works"}


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["file", "terminal"])
def test_without_progress_only_warnings_are_told(stream: io.StringIO) -> None:
    with make_reporter(ProgressMode.NONE, stream=stream) as report:
        report(running(1))
        report.note("7 slots")
        report.warn("nobody works")

    assert stream.getvalue() == "coalq: warning: nobody works\n"


def test_on_a_terminal_the_line_changes_in_place_and_is_gone_at_the_end() -> None:
    stream = Terminal()

    with make_reporter(ProgressMode.AUTO, stream=stream) as report:
        report(running(1))
        report(running(2))
        report.warn("nobody works")

    written = stream.getvalue()
    assert "1/8" in written
    assert "2/8" in written
    assert "coalq: warning: nobody works" in written
    assert written.rstrip().endswith("\x1b[2K")
