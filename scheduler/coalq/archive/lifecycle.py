"""The status of a run: every change is guarded by the status it leaves, so of two racing ones exactly one wins.

running ──> complete | incomplete     by the flush of the last record, or by whoever closes the plan
running ──> paused | cancelled        by people, or a worker whose endpoint refuses to go on
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, case, select, update

from coalq.archive.clock import now
from coalq.archive.tables import runs
from coalq.outcome import RunStatus

_ENDED = frozenset({RunStatus.COMPLETE, RunStatus.INCOMPLETE, RunStatus.CANCELLED})


def set_status(
    connection: Connection, run_id: str, *, from_: RunStatus, to: RunStatus, reason: str | None = None
) -> bool:
    """Move a run from one status to another; False if it is not in the first one.

    Its groups stay as they are. Owners notice when they renew; groups published meanwhile are not started.
    """
    moved = connection.execute(
        update(runs)
        .where(runs.c.run_id == run_id, runs.c.status == from_)
        .values(status=to, reason=reason, finished_at=now() if to in _ENDED else None)
        .returning(runs.c.run_id)
    )
    return moved.one_or_none() is not None


def final_status(
    plan_closed: ColumnElement[bool], *, nothing_open: ColumnElement[bool], failed: ColumnElement[int]
) -> ColumnElement[str | None]:
    """How a run ends once its plan is closed and nothing is open; NULL if it does not end.

    Must read nothing but the run's own row: an UPDATE that waited for another one sees that row anew, and only that.
    """
    ending = case((failed == 0, RunStatus.COMPLETE), else_=RunStatus.INCOMPLETE)
    return case((plan_closed & nothing_open, ending), else_=None)


def live_runs(connection: Connection, queues: list[str]) -> set[str]:
    """Live runs of these queues."""
    live = select(runs.c.run_id).where(runs.c.queue.in_(queues), runs.c.status == RunStatus.RUNNING)
    return set(connection.execute(live).scalars())
