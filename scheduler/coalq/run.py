"""A submitted run: where it stands, waiting for it, and its attribution, all read from the archive."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from coalq.archive import Archive, RunProgress, RunRow
from coalq.attribution import Attribution, Losses, attribute, count_losses
from coalq.config import Manifest
from coalq.errors import RunFailedError, TransientError
from coalq.outcome import RunStatus
from coalq.publisher import Publisher

logger = logging.getLogger(__name__)

_POLL_S = 0.25
UNSERVED_AFTER_S = 10.0
"""Without a worker for the model for this long, the waiting user is told."""


class Run:
    """One run in an archive. Any number of processes may look at the same run.

    Args:
        archive: Where it is stored.
        run_id: Its id.
        publisher: Given to a process that may drive the run forward; readers have none.
    """

    def __init__(self, archive: Archive, run_id: str, *, publisher: Publisher | None = None) -> None:
        self.id = run_id
        self._archive = archive
        self._publisher = publisher

    @property
    def status(self) -> RunStatus:
        """Where the run stands now."""
        return self._archive.run(self.id).status

    def row(self) -> RunRow:
        """The run's archive row."""
        return self._archive.run(self.id)

    def manifest(self) -> Manifest:
        """What was decided when the run was made."""
        return Manifest.model_validate(self._archive.manifest(self.id))

    def progress(self) -> RunProgress:
        """Counters by outcome, groups and tokens so far."""
        return self._archive.progress(self.id)

    def drive(self) -> None:
        """Plan and publish what there is room for, as every worker does too; a broker that is away is left to them."""
        if self._publisher is None:
            return
        queue = self._archive.run(self.id).queue
        self._publisher.advance(queue)
        try:
            self._publisher.publish(queue)
        except TransientError as error:
            logger.warning("run %s: %s; the workers will publish it", self.id, error)

    def wait(
        self,
        timeout: float | None = None,
        *,
        on_progress: Callable[[RunProgress], None] | None = None,
        on_unserved: Callable[[str], None] | None = None,
    ) -> RunStatus:
        """Wait until the run is no longer running, and drive it meanwhile.

        Args:
            timeout: Seconds to wait at most; None waits for ever.
            on_progress: Called several times a second with the counters.
            on_unserved: Called once with the model's name when no worker has served it for ten seconds.

        An archive or a broker that is away is waited for.

        Returns:
            The status at the end, or `running` when the time ran out.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        watch = _UnservedWatch(self._archive, self._archive.run(self.id).model, on_unserved)
        while True:
            progress = self._progress_or_none()
            if progress is None:
                if deadline is not None and time.monotonic() >= deadline:
                    return RunStatus.RUNNING
                continue
            if on_progress is not None:
                on_progress(progress)
            if progress.status is not RunStatus.RUNNING:
                return progress.status
            if deadline is not None and time.monotonic() >= deadline:
                return progress.status
            try:
                watch.look(progress)
                self.drive()
            except TransientError as error:
                logger.warning("run %s: %s; waiting goes on", self.id, error)
            time.sleep(_POLL_S)

    def _progress_or_none(self) -> RunProgress | None:
        """The counters, or None while the archive is away: the workers go on, and so does the waiting."""
        try:
            return self.progress()
        except TransientError as error:
            logger.warning("run %s: %s; waiting goes on", self.id, error)
            return None

    def attribution(self) -> Attribution:
        """The values of all players, computed from the archive.

        Raises:
            RunFailedError: If v(∅), v(N) or a coalition that the estimator needs is missing; says how many and why.
        """
        row = self._archive.run(self.id)
        if row.status is not RunStatus.COMPLETE:
            losses = self.losses()
            reason = row.reason or (str(losses) if losses is not None else None)
            raise RunFailedError(f"run {self.id} is {row.status}" + (f": {reason}" if reason else ""))
        return attribute(self.manifest(), self._archive.utility_records(self.id))

    def losses(self) -> Losses | None:
        """What an incomplete run lacks and why; None for a run in any other state."""
        if self.status is not RunStatus.INCOMPLETE:
            return None
        return count_losses(self.manifest(), self._archive.utility_records(self.id))


class _UnservedWatch:
    """Notices once that nobody works on a model."""

    def __init__(self, archive: Archive, model: str, tell: Callable[[str], None] | None) -> None:
        self._archive = archive
        self._model = model
        self._tell = tell
        self._unserved_since = time.monotonic()

    def look(self, progress: RunProgress) -> None:
        if self._tell is None:
            return
        now = time.monotonic()
        if progress.groups_executing or self._archive.live_workers(self._model):
            self._unserved_since = now
        elif now - self._unserved_since >= UNSERVED_AFTER_S:
            self._tell(self._model)
            self._tell = None
