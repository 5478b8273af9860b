from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from coalq.cli.output import write_summary
from coalq.generation import Generation
from coalq.outcome import RunStatus
from coalq.report import RunSummary, show_summary
from coalq.report.printable import one_line, printable
from coalq.report.terminal import player_style
from report_summaries import attribution, failed_summary, manifest, progress, summary

RED, BLUE = "255;105;105", "105;105;255"


def shown(run: RunSummary, *, colours: bool = False, width: int = 100) -> str:
    stream = io.StringIO()
    show_summary(
        run,
        Console(
            file=stream,
            width=width,
            force_terminal=colours,
            color_system="truecolor" if colours else None,
            no_color=None,
        ),
    )
    return stream.getvalue()


def test_the_report_shows_answer_prompt_values_and_counters() -> None:
    text = shown(summary())

    assert "Answer (smollm2, stop)\n  Within 14 days." in text
    assert "system  Be short." in text
    assert "Opened in 2011. Paid within 14 days. Closed at six." in text
    assert "+1.0000  notes-1  Paid within 14 days." in text
    assert "-0.2500  notes-0  Opened in 2011." in text
    assert "v(∅) = 0.0000   v(N) = 0.7500   difference = +0.7500   Σφ = +0.7500" in text
    assert "8 requested: 5 executed, 1 deduplicated, 2 cache hits, 0 failed" in text
    assert "tokens: 1,234 prompt, 56 completion" in text
    assert "run 3f2a9c1e00112233 complete" in text


def test_players_are_listed_by_the_size_of_their_value() -> None:
    text = shown(summary())

    table = text[text.index("player") :]
    assert [table.index(f"notes-{index}") for index in (1, 0, 2)] == sorted(
        table.index(f"notes-{index}") for index in range(3)
    )


def test_a_player_that_raises_the_value_is_red_and_one_that_lowers_it_blue() -> None:
    text = shown(summary(attribution=attribution((-1.0, 1.0, 0.0))), colours=True)

    assert f"48;2;{BLUE}mOpened in 2011." in text
    assert f"48;2;{RED}mPaid within 14 days." in text
    assert "mClosed at six." not in text


@pytest.mark.parametrize(("value", "style"), [(0.0, None), (0.01, None), (1.0, "black on rgb(255,105,105)")])
def test_colour_is_stronger_for_larger_values(value: float, style: str | None) -> None:
    assert player_style(value, 1.0) == style


def test_weaker_players_are_paler() -> None:
    assert player_style(-0.5, 1.0) == "black on rgb(165,165,255)"


def test_a_terminal_of_few_colours_tells_strong_from_weak_players() -> None:
    styles = [player_style(value, 4.0, few_colours=True) for value in (4.0, -2.0, 1.0, -0.5, 0.0)]

    assert styles == ["white on red", "white on blue", "red", "blue", None]


def test_without_signal_there_is_a_banner_and_no_colour() -> None:
    silent = attribution((0.0, 0.0, 0.0), warnings=("no signal: every coalition has the same utility",))

    text = shown(summary(attribution=silent), colours=True)

    assert "! no signal: every coalition has the same utility" in text
    assert "48;2;" not in text


def test_a_negative_zero_is_shown_as_zero() -> None:
    text = shown(summary(attribution=attribution((-0.0, 1.0, 0.0))))

    assert "-0.0000" not in text


def test_tiny_values_keep_their_digits() -> None:
    text = shown(summary(attribution=attribution((1e-7, -2.5e-6, 0.0))))

    assert "-2.500e-06" in text


def test_estimated_errors_have_a_column() -> None:
    text = shown(summary(attribution=attribution(std_errors=np.array([0.125, 0.0, 0.25]))))

    assert "std error" in text
    assert "0.12" in text


def test_a_truncated_base_answer_is_a_warning() -> None:
    text = shown(summary(answer=Generation(text="Within", finish_reason="length")))

    assert "! the base answer was cut off at 12 tokens" in text


def test_a_run_without_attribution_says_why() -> None:
    text = shown(failed_summary())

    assert "no attribution: HTTP 400: context too long" in text
    assert "2 requested of 8: 0 executed, 0 deduplicated, 0 cache hits, 2 failed" in text
    assert "tokens" not in text
    assert "run 3f2a9c1e00112233 incomplete" in text


def test_a_running_run_shows_how_far_it_is() -> None:
    running = replace(progress(), status=RunStatus.RUNNING, total=None, done=3, executed=0)

    text = shown(summary(progress=running, attribution=None))

    assert "3 requested: 0 executed" in text
    assert "run 3f2a9c1e00112233 running" in text


def test_control_characters_never_reach_the_terminal() -> None:
    text = shown(
        summary(
            answer=Generation(text="\x1b[2Jgone\x9b31m\u202ereversed"),
            manifest=manifest(("Opened\x1b]0;title\x07.", "b", "c")),
        )
    )

    assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "␛[2Jgone" in text


def test_markup_in_texts_is_shown_as_it_is() -> None:
    text = shown(summary(answer=Generation(text="[bold]14[/bold]"), manifest=manifest(("[red]x", "b", "c"))))

    assert "[bold]14[/bold]" in text
    assert "[red]x" in text


def test_making_text_printable_keeps_its_length_and_its_lines() -> None:
    text = "a\tb\nc\r\x00\x7f"

    assert printable(text) == "a\tb\nc␍␀\ufffd"
    assert one_line(" a\n\tb ") == "a b"


def test_values_are_whole_on_a_narrow_terminal() -> None:
    text = shown(summary(attribution=attribution((-0.25, 1234.5678, 0.0))), width=30)

    assert "+1234.5678" in text
    assert "-0.2500" in text


@pytest.mark.parametrize("width", ["30", "200"])
def test_what_is_no_terminal_gets_no_spaces_at_the_ends_of_lines(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)

    write_summary(summary(), as_json=False)

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 10
    assert [line for line in lines if line != line.rstrip()] == []
