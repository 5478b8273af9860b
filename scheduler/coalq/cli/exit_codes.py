"""Exit codes (interface.md section 3) and which error or status gives which."""

from __future__ import annotations

from enum import IntEnum

from coalq.errors import CoalqError, InputError, RunFailedError, ServerError
from coalq.outcome import RunStatus


class ExitCode(IntEnum):
    """What the shell sees."""

    COMPLETE = 0
    INTERNAL = 1
    BAD_INPUT = 2
    INCOMPLETE = 3
    CANCELLED = 4
    LIMIT = 5
    INTERRUPTED = 130


def of_error(error: CoalqError) -> ExitCode:
    """The exit code of an error that ended a command."""
    if isinstance(error, InputError | ServerError):
        return ExitCode.BAD_INPUT
    return ExitCode.INCOMPLETE if isinstance(error, RunFailedError) else ExitCode.INTERNAL


def of_status(status: RunStatus) -> ExitCode:
    """The exit code of a command that shows a run; one that still runs is no fault."""
    match status:
        case RunStatus.COMPLETE | RunStatus.RUNNING:
            return ExitCode.COMPLETE
        case RunStatus.CANCELLED:
            return ExitCode.CANCELLED
        case RunStatus.INCOMPLETE | RunStatus.PAUSED:
            return ExitCode.INCOMPLETE
