"""The status of a run: every change is guarded by the status it leaves, so of two racing ones exactly one wins.

running ──> complete | incomplete     by the flush of the last record, or by whoever closes the plan
running ──> paused | cancelled        by people, or a worker whose endpoint refuses to go on
paused  ──> running
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, case, select, update

from coalq.archive.clock import now
from coalq.archive.statements import is_key, lock_groups
from coalq.archive.tables import groups, runs
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


def go_on(connection: Connection, run_id: str) -> bool:
    """Make a paused run live again; False if it is not paused.

    Groups first, then the run. Publications that nobody started while it was paused may have been thrown away, so
    they are taken back; a run whose last record was committed meanwhile ends at once.
    """
    is_paused = select(runs.c.run_id).where(runs.c.run_id == run_id, runs.c.status == RunStatus.PAUSED).exists()
    locked = lock_groups(connection, groups.c.run_id == run_id, *_not_started(), is_paused)
    if locked:
        connection.execute(update(groups).where(is_key(locked)).values(published_at=None))
    ended = final_status(runs.c.plan_closed, nothing_open=runs.c.open_groups == 0, failed=runs.c.failed)
    moved = connection.execute(
        update(runs)
        .where(runs.c.run_id == run_id, runs.c.status == RunStatus.PAUSED)
        .values(
            status=case((ended.is_not(None), ended), else_=RunStatus.RUNNING),
            reason=None,
            finished_at=case((ended.is_not(None), now()), else_=None),
        )
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


def move_queue(connection: Connection, run_id: str, queue: str) -> None:
    """First half of moving a run to another queue: groups planned from now on go there."""
    connection.execute(update(runs).where(runs.c.run_id == run_id).values(queue=queue))


def move_groups(connection: Connection, run_id: str, queue: str) -> None:
    """Second half, in a transaction of its own: the open groups follow, and are published there again.

    One transaction for both halves could miss a chunk that is planned at the same time, or would have to lock groups
    after their run. A crash between the halves is healed by moving again.
    """
    moving = (groups.c.run_id == run_id, groups.c.finished_at.is_(None), groups.c.queue != queue)
    locked = lock_groups(connection, *moving)
    if not locked:
        return
    published_at = case((groups.c.owner.is_(None), None), else_=groups.c.published_at)
    connection.execute(update(groups).where(is_key(locked)).values(queue=queue, published_at=published_at))


def live_runs(connection: Connection, run_ids: list[str]) -> set[str]:
    """Those of the runs that are live."""
    live = select(runs.c.run_id).where(runs.c.run_id.in_(run_ids), runs.c.status == RunStatus.RUNNING)
    return set(connection.execute(live).scalars())


def live_runs_of(connection: Connection, queues: list[str]) -> set[str]:
    """Live runs of these queues."""
    live = select(runs.c.run_id).where(runs.c.queue.in_(queues), runs.c.status == RunStatus.RUNNING)
    return set(connection.execute(live).scalars())


def _not_started() -> tuple[ColumnElement[bool], ...]:
    return (groups.c.finished_at.is_(None), groups.c.owner.is_(None), groups.c.published_at.is_not(None))
