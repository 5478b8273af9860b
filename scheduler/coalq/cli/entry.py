"""Runs a command line and turns whatever happens into one line on standard error and an exit code."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence

import typer

from coalq.cli.app import app
from coalq.cli.exit_codes import ExitCode, of_error
from coalq.errors import CoalqError


def run(arguments: Sequence[str]) -> int:
    """Run one command line; never raises."""
    try:
        returned = app(args=list(arguments), prog_name="coalq", standalone_mode=False)
        sys.stdout.flush()
    except (CoalqError, typer.TyperException) as error:
        return _fail(error)
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        # The reader of our output is gone, e.g. `coalq runs | head`; Python would complain again while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.INTERNAL
    except Exception as error:  # noqa: BLE001 - the last stop of the program
        return _fail(error)
    if returned == ExitCode.INTERRUPTED and not isinstance(returned, ExitCode):
        return _interrupted()  # typer caught it; a command that caught it itself has said more
    return returned if isinstance(returned, int) else ExitCode.COMPLETE


def _interrupted() -> ExitCode:
    sys.stderr.write("coalq: interrupted\n")
    return ExitCode.INTERRUPTED


def _fail(error: Exception) -> ExitCode:
    """Tell an error in one line; where it happened only if it is ours and the user asked for more."""
    if isinstance(error, typer.TyperException):
        code, message = ExitCode.BAD_INPUT, error.format_message()
    elif isinstance(error, CoalqError):
        code, message = of_error(error), str(error)
    else:
        code, message = ExitCode.INTERNAL, f"internal error: {type(error).__name__}: {error} (-v shows where)"
        if logging.getLogger("coalq").isEnabledFor(logging.INFO):
            traceback.print_exception(error)
    sys.stderr.write(f"coalq: error: {message}\n")
    return code
