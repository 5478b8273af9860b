"""Chooses and marks the groups that are published next. Backpressure is counted here, so broker memory is flat."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Connection, Select, func, select, text, update

from coalq.archive.clock import now
from coalq.archive.engine import is_postgres
from coalq.archive.rows import GroupAttempt, GroupKey, Publication
from coalq.archive.statements import is_attempt, is_key, lock_groups, moment, of_live_run
from coalq.archive.tables import groups, runs
from coalq.outcome import RunStatus

LEAST_ROOM = 16
"""Groups published and waiting in a queue even when nothing executes."""

_RECENT_S = 2.0


def busy_groups(connection: Connection, queue: str) -> int:
    """How many groups a queue may have waiting: as many as execute or finished in the last 2 s, at least 16."""
    executing = _count(groups.c.queue == queue, groups.c.finished_at.is_(None), groups.c.owner.is_not(None))
    # Cheap groups come and go between two ticks; what finished a moment ago tells how fast they go.
    recent = _count(groups.c.queue == queue, groups.c.finished_at > moment - _RECENT_S)
    counts = connection.execute(select(executing.scalar_subquery(), recent.scalar_subquery())).one()
    return max(LEAST_ROOM, *(int(count) for count in counts))


def room(connection: Connection, queue: str) -> int:
    """How many groups of a queue may be published now; never negative.

    Groups of runs that are paused or cancelled do not count as waiting: nobody will start them.
    """
    waiting = _count(
        groups.c.queue == queue,
        groups.c.finished_at.is_(None),
        groups.c.owner.is_(None),
        groups.c.published_at.is_not(None),
        of_live_run(),
    )
    return max(0, busy_groups(connection, queue) - connection.execute(waiting).scalar_one())


def may_publish(connection: Connection, queue: str) -> bool:
    """Whether a group waits for publication and there is room for it; without a lock."""
    found = select(groups.c.run_id).where(groups.c.queue == queue, *_publishable(), of_live_run()).limit(1)
    return connection.execute(found).first() is not None and room(connection, queue) > 0


def take_publications(connection: Connection, queue: str, *, limit: int | None = None) -> list[Publication]:
    """Mark what there is room for as published and return it in the order in which it should be sent.

    One publisher at a time per queue (an advisory lock; SQLite's writer lock): whoever comes second gets nothing, as
    both would count the same room. A crash after the commit leaves marked groups without a message: the sweep finds
    them.

    Args:
        connection: In a transaction.
        queue: One queue.
        limit: At most so many groups.
    """
    if is_postgres(connection):
        taken = connection.execute(text("SELECT pg_try_advisory_xact_lock(:lock)"), {"lock": _queue_lock(queue)})
        if not taken.scalar_one():
            return []
    allowed = room(connection, queue)
    if limit is not None:
        allowed = min(allowed, limit)
    if allowed <= 0:
        return []
    ranked = [GroupKey(run_id, number) for run_id, number in connection.execute(_next_in_turn(queue, allowed))]
    marked = {GroupKey(p.run_id, p.group_number): p for p in _mark(connection, ranked)}
    return [marked[key] for key in ranked if key in marked]


def unmark(connection: Connection, attempts: Collection[GroupAttempt]) -> None:
    """Take back publications that were not sent. One that was started all the same did arrive and stays."""
    if attempts and lock_groups(connection, is_attempt(attempts)):
        connection.execute(
            update(groups)
            .where(is_attempt(attempts), groups.c.owner.is_(None), groups.c.finished_at.is_(None))
            .values(published_at=None)
        )


def _mark(connection: Connection, keys: Sequence[GroupKey]) -> list[Publication]:
    # A group that a late flush holds is about to finish or will be there in the next tick.
    locked = lock_groups(connection, is_key(keys), *_publishable(), skip_locked=True) if keys else []
    if not locked:
        return []
    n_groups = select(runs.c.n_groups).where(runs.c.run_id == groups.c.run_id).scalar_subquery()
    marked = connection.execute(
        update(groups)
        .where(is_key(locked))
        .values(published_at=now(), attempt=groups.c.attempt + 1)
        .returning(
            groups.c.run_id,
            groups.c.group_number,
            groups.c.attempt,
            groups.c.count,
            groups.c.prefix_hash,
            groups.c.priority,
            groups.c.queue,
            n_groups.label("n_groups"),
        )
    )
    return [Publication(*row) for row in marked]


def _publishable() -> tuple[ColumnElement[bool], ...]:
    return (
        groups.c.finished_at.is_(None),
        groups.c.published_at.is_(None),
        groups.c.owner.is_(None),
        groups.c.not_before <= moment,
    )


def _next_in_turn(queue: str, allowed: int) -> Select[str, int]:
    """Round robin over live runs: the run with the fewest groups under way is next, of equal ones the oldest."""
    under_way = (
        select(groups.c.run_id, func.count().label("count"))
        .where(groups.c.queue == queue, groups.c.finished_at.is_(None), groups.c.published_at.is_not(None))
        .group_by(groups.c.run_id)
        .subquery()
    )
    turn = func.row_number().over(partition_by=groups.c.run_id, order_by=groups.c.group_number)
    ready = (
        select(groups.c.run_id, groups.c.group_number, groups.c.priority, runs.c.created_at, turn.label("turn"))
        .join(runs, runs.c.run_id == groups.c.run_id)
        .where(groups.c.queue == queue, *_publishable(), runs.c.status == RunStatus.RUNNING)
        .subquery()
    )
    place = func.coalesce(under_way.c.count, 0) + ready.c.turn
    return (
        select(ready.c.run_id, ready.c.group_number)
        .outerjoin(under_way, under_way.c.run_id == ready.c.run_id)
        .order_by(ready.c.priority.desc(), place, ready.c.created_at, ready.c.run_id, ready.c.group_number)
        .limit(allowed)
    )


def _count(*conditions: ColumnElement[bool]) -> Select[int]:
    return select(func.count()).select_from(groups).where(*conditions)


def _queue_lock(queue: str) -> int:
    return int.from_bytes(hashlib.blake2b(queue.encode(), digest_size=8).digest(), "big", signed=True)
