"""The report of one run at a terminal: answer, coloured prompt, table of players, counters."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from coalq.attribution import Attribution
from coalq.outcome import RunStatus
from coalq.report.document import counters, outcome_words, tokens
from coalq.report.printable import one_line, printable
from coalq.report.summary import RunSummary
from coalq.template import Player

_MOST_ROWS = 40
_WEAKEST_SHOWN = 0.02
"""Share of the largest value below which a player is left without colour."""

_STRONG = 0.5
"""Share of the largest value from which a player is strong where there are two steps only."""

_PALEST = 225
_STRONGEST = 105


def show_summary(summary: RunSummary, console: Console) -> None:
    """Print the report. Colours are added only where the console has them; the table says the same in numbers."""
    _show_answer(summary, console)
    for warning in summary.warnings:
        console.print(Text(f"! {warning}", style="bold yellow"), soft_wrap=True)
    if summary.warnings:
        console.print()
    _show_prompt(summary, console)
    if summary.attribution is not None:
        console.print(_table(summary.attribution))
        console.print(_totals(summary, summary.attribution), soft_wrap=True)
    elif summary.why_none is not None:
        console.print(Text(f"no attribution: {printable(summary.why_none)}", style="bold"), soft_wrap=True)
    lines = (_counter_line(summary), _token_line(summary), _footer(summary))
    console.print(*(line for line in lines if line is not None), sep="\n", soft_wrap=True)


def player_style(value: float, largest: float, *, few_colours: bool = False) -> str | None:
    """On red for a player that raises the value, on blue for one that lowers it, paler for weaker ones.

    Args:
        value: The player's.
        largest: Largest absolute value of all players.
        few_colours: Whether the terminal has no shades; weaker players then have coloured letters instead.
    """
    share = abs(value) / largest if largest > 0 else 0.0
    if share < _WEAKEST_SHOWN:
        return None
    if few_colours:
        name = "red" if value > 0 else "blue"
        return f"white on {name}" if share >= _STRONG else name
    faded = round(_PALEST - share * (_PALEST - _STRONGEST))
    red, blue = (255, faded) if value > 0 else (faded, 255)
    return f"black on rgb({red},{faded},{blue})"


def _show_answer(summary: RunSummary, console: Console) -> None:
    answer = summary.answer
    if answer is None:
        return
    ending = f", {answer.finish_reason}" if answer.finish_reason else ""
    console.print(Text(f"Answer ({summary.manifest.model}{ending})", style="bold"))
    console.print(Padding(Text(printable(answer.text)), (0, 0, 1, 2), expand=False))


def _show_prompt(summary: RunSummary, console: Console) -> None:
    heading = Text("Prompt", style="bold")
    if summary.has_signal and console.color_system is not None and not console.no_color:
        heading.append(f"  (red raises {summary.manifest.value}, blue lowers it)", style="not bold dim")
    console.print(heading)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for index, message in enumerate(summary.manifest.template.grand().messages):
        text = Text(printable(message["content"]))
        if summary.attribution is not None and summary.has_signal:
            _colour(text, summary.attribution, message=index, few_colours=console.color_system == "standard")
        grid.add_row(f"  {message['role']}", text)
    console.print(Padding(grid, (0, 0, 1, 0), expand=False))


def _colour(text: Text, attribution: Attribution, *, message: int, few_colours: bool) -> None:
    largest = float(abs(attribution.values).max())
    for player in attribution.players:
        style = player_style(float(attribution.values[player.index]), largest, few_colours=few_colours)
        if player.message == message and style is not None:
            text.stylize(style, player.start, player.end)


def _table(attribution: Attribution) -> Padding:
    shown = attribution.top(_MOST_ROWS)
    digits = _digits(attribution)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    rows = [_row(player, value, attribution=attribution, digits=digits) for player, value in shown]
    # Numbers are never cut, however narrow the terminal is.
    table.add_column("value", justify="right", no_wrap=True, min_width=max(len(row[0]) for row in rows))
    if attribution.std_errors is not None:
        table.add_column("std error", justify="right", no_wrap=True, min_width=max(len(row[1]) for row in rows))
    table.add_column("player", no_wrap=True)
    table.add_column("text", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*row)
    left_off = len(attribution.players) - len(shown)
    if left_off:
        cells: Sequence[str] = [""] * (len(table.columns) - 1)
        table.add_row(*cells, f"… {left_off} weaker ones; all are in --json", style="dim")
    return Padding(table, (0, 0, 1, 2), expand=False)


def _row(player: Player, value: float, *, attribution: Attribution, digits: str) -> list[str | Text]:
    error = [] if attribution.std_errors is None else [f"{attribution.std_errors[player.index]:.2g}"]
    # 0.0 is added because a negative zero would be shown as "-0.0000".
    return [f"{value + 0.0:+{digits}}", *error, Text(one_line(player.id)), Text(one_line(player.text))]


def _digits(attribution: Attribution) -> str:
    """The format of all values: four decimals, unless they are too small for that."""
    largest = float(abs(attribution.values).max())
    return ".4f" if largest == 0 or largest >= 0.001 else ".3e"


def _totals(summary: RunSummary, attribution: Attribution) -> Text:
    digits = _digits(attribution)
    gap = attribution.grand_value - attribution.empty_value
    return Text.assemble(
        ("v(∅) = ", "dim"),
        f"{attribution.empty_value:{digits}}",
        ("   v(N) = ", "dim"),
        f"{attribution.grand_value:{digits}}",
        ("   difference = ", "dim"),
        f"{gap + 0.0:+{digits}}",
        ("   Σφ = ", "dim"),
        f"{float(attribution.values.sum()) + 0.0:+{digits}}",
        (f"   ({attribution.value_function}; {summary.manifest.estimator} {attribution.estimand}, ", "dim"),
        (f"{attribution.n_used:,} coalitions of {len(attribution.players)} {summary.manifest.players_kind})", "dim"),
    )


def _counter_line(summary: RunSummary) -> Text:
    counted = counters(summary.progress)
    line = f"{counted['requested']:,} requested"
    if summary.progress.total is not None and counted["requested"] != summary.progress.total:
        line += f" of {summary.progress.total:,}"
    line += f": {outcome_words(summary.progress)}"
    return Text(line)


def _token_line(summary: RunSummary) -> Text | None:
    reported = [f"{count:,} {kind}" for kind, count in tokens(summary.progress).items() if count]
    return Text(f"tokens: {', '.join(reported)}") if reported else None


def _footer(summary: RunSummary) -> Text:
    style = "green" if summary.progress.status is RunStatus.COMPLETE else "bold yellow"
    named = f" ({one_line(summary.name)})" if summary.name else ""
    return Text.assemble(("run ", "dim"), summary.run_id, (named, "dim"), " ", (str(summary.progress.status), style))
