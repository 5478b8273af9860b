"""The typer application with all its commands."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Annotated

import typer

from coalq.cli.explain import explain
from coalq.cli.look import results, runs, status
from coalq.cli.machines import database, serve, worker
from coalq.cli.submit import submit

app = typer.Typer(
    name="coalq",
    help="Explain a language model's answer: which parts of the prompt drove it.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(explain)
app.command()(submit)
app.command()(runs)
app.command()(status)
app.command()(results)
# Everything else on the line is Celery's.
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(worker)
app.command()(serve)
app.add_typer(database, name="db")


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        typer.echo(f"coalq {version('coalq')} (Python {platform.python_version()})")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)
