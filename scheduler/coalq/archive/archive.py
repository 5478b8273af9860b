"""`Archive`, the one door to the database: every method is one transaction, or one read, retried while faults pass.

All methods are synchronous; callers with an event loop run them in threads. Any number of threads may use one archive.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from sqlalchemy import Engine

from coalq.archive import flush, lifecycle, ownership, plan, publication, reading, workers
from coalq.archive.rows import (
    Draft,
    FlushResult,
    GroupKey,
    NewRun,
    Publication,
    RunProgress,
    RunRow,
    StartedGroup,
    WorkerRow,
)
from coalq.archive.statements import as_attempts
from coalq.archive.storing import storable_or_none
from coalq.archive.transactions import Transactions
from coalq.attribution import UtilityRecord
from coalq.generation import Generation
from coalq.outcome import RunStatus

PATIENCE_S = 10.0

Attempt = tuple[str, int, int]
"""(run_id, group_number, attempt), in any tuple form."""


class Archive:
    """Runs, groups, generations and records in one database.

    Every method raises `TransientError` when the database's fault did not pass within the patience.

    Args:
        engine: From `open_engine`, its schema checked; closed by `close`.
        patience_s: How long a failing transaction is repeated, seconds; None repeats it for ever.
    """

    def __init__(self, engine: Engine, *, patience_s: float | None = PATIENCE_S) -> None:
        self._transactions = Transactions(engine, patience_s=patience_s)

    def close(self) -> None:
        """Close every connection."""
        self._transactions.engine.dispose()

    @cached_property
    def archive_id(self) -> str:
        """The random id of this database; read once."""
        return self._transactions.read(reading.read_archive_id)

    # Plan.

    def create_run(self, new: NewRun) -> None:
        """Store a live run; a no-op if it is there."""
        self._transactions.write(lambda connection: plan.create_run(connection, new))

    def runs_to_advance(self, queues: Iterable[str]) -> list[str]:
        """Live runs of the queues for which `advance` may have something to do, higher priority and older first."""
        wanted = sorted(set(queues))
        return self._transactions.read(lambda connection: plan.runs_to_advance(connection, wanted))

    def advance(self, run_id: str, *, room_ahead: int | None = None) -> bool:
        """Plan the run's next groups, close its plan, or end it; True if this call changed something. Idempotent.

        Group 0 comes alone; the others follow in chunks of at most 4 × room once it is finished. A run whose group 0
        has a failed record ends incomplete with that record's error, its plan left open.

        Args:
            run_id: Any run; one that is not live is left alone.
            room_ahead: Groups that the queue has room for; counted in the archive if None.
        """
        step = self._transactions.read(lambda connection: plan.look(connection, run_id, room_ahead=room_ahead))
        if step is None:
            return False
        return self._transactions.write(lambda connection: plan.apply(connection, step))

    # Publication.

    def take_publications(self, queue: str, *, limit: int | None = None) -> list[Publication]:
        """Mark the groups there is room for as published and return them in sending order; the caller sends them."""
        if not self._transactions.read(lambda connection: publication.may_publish(connection, queue)):
            return []
        return self._transactions.write(
            lambda connection: publication.take_publications(connection, queue, limit=limit)
        )

    def unmark(self, attempts: Iterable[Attempt]) -> None:
        """Take back publications that could not be sent."""
        named = as_attempts(attempts)
        self._transactions.write(lambda connection: publication.unmark(connection, named))

    # Ownership.

    def start(
        self, run_id: str, group_number: int, attempt: int, *, process_id: str, lease_s: float
    ) -> StartedGroup | None:
        """Take ownership of a published group; None if this attempt is stale, taken, finished or its run not live.

        The owner of this very attempt gets it again.
        """
        (named,) = as_attempts([(run_id, group_number, attempt)])
        return self._transactions.write(
            lambda connection: ownership.start(connection, named, process_id=process_id, lease_s=lease_s)
        )

    def renew(self, attempts: Iterable[Attempt], *, process_id: str, lease_s: float) -> set[Attempt]:
        """Extend leases; returns the executions that still are the process's and whose run is live."""
        named = as_attempts(attempts)
        return set(
            self._transactions.write(
                lambda connection: ownership.renew(connection, named, process_id=process_id, lease_s=lease_s)
            )
        )

    def hand_back(self, attempts: Iterable[Attempt], *, process_id: str, progressed: bool = False) -> None:
        """Give up executions that ended early for no fault of their groups; flush what they finished first.

        Args:
            attempts: The executions.
            process_id: Who owns them; what somebody else owns is left alone.
            progressed: Whether they recorded something: then the pause before the next one is the shortest again.
        """
        named = as_attempts(attempts)
        self._transactions.write(
            lambda connection: ownership.hand_back(connection, named, process_id=process_id, progressed=progressed)
        )

    def sweep(self, queues: Iterable[str], *, lease_s: float, empty_queues: Iterable[str] = ()) -> int:
        """Unmark the groups of these queues whose owner or message is lost; returns how many."""
        wanted, empty = sorted(set(queues)), sorted(set(empty_queues))
        if not self._transactions.read(
            lambda connection: ownership.any_lost(connection, wanted, lease_s=lease_s, empty_queues=empty)
        ):
            return 0
        return self._transactions.write(
            lambda connection: ownership.sweep(connection, wanted, lease_s=lease_s, empty_queues=empty)
        )

    # Records.

    def flush(
        self, drafts: Iterable[Draft], *, process_id: str, checked_groups: Iterable[GroupKey] = ()
    ) -> FlushResult:
        """Commit finished jobs and whatever they complete; see `FlushResult` for what is left to do."""
        batch, checked = list(drafts), list(checked_groups)
        return self._transactions.write(
            lambda connection: flush.flush(connection, batch, process_id=process_id, checked_groups=checked)
        )

    def recorded(self, run_id: str, group_number: int) -> set[tuple[bytes, int]]:
        """(packed mask, sample) of the records that a group has."""
        return self._transactions.read(lambda connection: reading.recorded(connection, run_id, group_number))

    def generations(self, keys: Iterable[str]) -> dict[str, Generation]:
        """The archived generations of those coalition keys that have one."""
        wanted = sorted(set(keys))
        return self._transactions.read(lambda connection: reading.read_generations(connection, wanted))

    def base_generation(self, run_id: str) -> Generation | None:
        """The grand coalition's generation, sample 0; None if it has none."""
        return self._transactions.read(lambda connection: reading.base_generation(connection, run_id))

    def utility_records(self, run_id: str) -> list[UtilityRecord]:
        """All records of a run in mask order, samples in order."""
        return self._transactions.read(lambda connection: reading.utility_records(connection, run_id))

    # Runs.

    def run(self, run_id: str) -> RunRow:
        """One run by its full id; `InputError` if there is none."""
        return self._transactions.read(lambda connection: reading.run(connection, run_id))

    def manifest(self, run_id: str) -> dict[str, Any]:
        """The run's manifest as JSON; `InputError` if there is no such run."""
        return self._transactions.read(lambda connection: reading.manifest(connection, run_id))

    def find_run(self, reference: str) -> RunRow:
        """The run a user means by id, unique prefix or suffix, name or `@last`; `InputError` if none or several."""
        return self._transactions.read(lambda connection: reading.find_run(connection, reference))

    def list_runs(self, limit: int = 20) -> list[RunRow]:
        """The latest runs, newest first."""
        return self._transactions.read(lambda connection: reading.list_runs(connection, limit))

    def progress(self, run_id: str) -> RunProgress:
        """Where a run stands; `InputError` if there is no such run."""
        return self._transactions.read(lambda connection: reading.progress(connection, run_id))

    def live_runs(self, queues: Iterable[str]) -> set[str]:
        """Live runs of these queues."""
        wanted = sorted(set(queues))
        return self._transactions.read(lambda connection: lifecycle.live_runs(connection, wanted))

    def set_status(self, run_id: str, *, from_: RunStatus, to: RunStatus, reason: str | None = None) -> bool:
        """Move a run from one status to another; False if it is not in the first one.

        Raises:
            ValueError: If a run is to go back to running: its groups would be left as they are.
        """
        if to is RunStatus.RUNNING:
            raise ValueError(f"a run does not go back from {from_} to running by its status alone")
        words = storable_or_none(reason)
        return self._transactions.write(
            lambda connection: lifecycle.set_status(connection, run_id, from_=from_, to=to, reason=words)
        )

    def pause(self, run_id: str, reason: str) -> bool:
        """Pause a live run; False if it is not live."""
        return self.set_status(run_id, from_=RunStatus.RUNNING, to=RunStatus.PAUSED, reason=reason)

    # Workers.

    def heartbeat(self, worker: WorkerRow) -> None:
        """Report a worker process."""
        self._transactions.write(lambda connection: workers.heartbeat(connection, worker))

    def forget_worker(self, process_id: str) -> None:
        """Remove a worker process that ends."""
        self._transactions.write(lambda connection: workers.forget_worker(connection, process_id))

    def live_workers(self, model: str | None = None, *, within_s: float = workers.LIVE_S) -> list[WorkerRow]:
        """Worker processes heard of a moment ago, all or those that serve a model."""
        return self._transactions.read(lambda connection: workers.live_workers(connection, model, within_s=within_s))
