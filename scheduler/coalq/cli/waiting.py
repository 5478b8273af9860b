"""Waiting for a run at the terminal: progress, and a warning when nobody works on it."""

from __future__ import annotations

from pathlib import Path

from coalq.archive import RunProgress
from coalq.local import EmbeddedStack
from coalq.outcome import RunStatus
from coalq.report import ProgressReporter
from coalq.run import Run


def wait_for(
    run: Run, *, report: ProgressReporter, stack: EmbeddedStack | None = None, log_dir: Path | None = None
) -> RunStatus:
    """Wait until the run ends and show its progress.

    Raises:
        RunFailedError: A process of the embedded stack died.
    """

    def on_progress(progress: RunProgress) -> None:
        # First the stack: when it is gone the counters never change again.
        if stack is not None:
            stack.check()
        report(progress)

    def on_unserved(model: str) -> None:
        report.warn(unserved_warning(model, log_dir=log_dir))

    return run.wait(on_progress=on_progress, on_unserved=on_unserved)


def unserved_warning(model: str, *, log_dir: Path | None) -> str:
    """What to say when no worker has served the model for a while.

    Args:
        model: The run's model.
        log_dir: Logs of the embedded stack, whose worker should have been there by now.
    """
    if log_dir is not None:
        return f"the embedded worker does not serve {model!r} yet; its log is {log_dir / 'worker.log'}"
    return (
        f"no worker serves {model!r}; start one where the model can be reached: "
        "COALQ_REDIS_URL=… COALQ_DATABASE_URL=… COALQ_BASE_URL=http://HOST:PORT/v1 coalq worker"
    )
