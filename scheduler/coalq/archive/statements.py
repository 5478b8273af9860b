"""Statements that several transitions share, or that the two databases spell differently."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import ColumnElement, Connection, Table, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from coalq.archive.clock import now
from coalq.archive.engine import is_postgres
from coalq.archive.rows import GroupAttempt, GroupKey
from coalq.archive.tables import groups, runs
from coalq.outcome import RunStatus

moment = select(now()).scalar_subquery()
"""The time for comparisons with an indexed column: as a subquery it is read once, so the index is used."""


def insert_into(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An INSERT that knows ON CONFLICT."""
    return postgresql.insert(table) if is_postgres(connection) else sqlite.insert(table)


def is_key(keys: Collection[GroupKey]) -> ColumnElement[bool]:
    """Whether a group is one of these."""
    return tuple_(groups.c.run_id, groups.c.group_number).in_(list(keys))


def is_attempt(attempts: Collection[GroupAttempt]) -> ColumnElement[bool]:
    """Whether a group is one of these and at that very attempt."""
    return tuple_(groups.c.run_id, groups.c.group_number, groups.c.attempt).in_(list(attempts))


def of_live_run() -> ColumnElement[bool]:
    """Whether a group's run is live."""
    return select(runs.c.run_id).where(runs.c.run_id == groups.c.run_id, runs.c.status == RunStatus.RUNNING).exists()


def lock_groups(connection: Connection, *conditions: ColumnElement[bool], skip_locked: bool = False) -> list[GroupKey]:
    """Lock the groups that meet the conditions, in key order, so that two transactions never wait for each other.

    Must come before any lock on their runs. On SQLite the writer's lock covers them. Conditions are tested again on
    what a transaction that was waited for left behind.

    Args:
        connection: In a transaction.
        conditions: Any on `groups`.
        skip_locked: Leave out what somebody else holds, instead of waiting.
    """
    chosen = (
        select(groups.c.run_id, groups.c.group_number)
        .where(*conditions)
        .order_by(groups.c.run_id, groups.c.group_number)
        .with_for_update(of=groups, skip_locked=skip_locked)
    )
    return [GroupKey(run_id, number) for run_id, number in connection.execute(chosen)]


def as_attempts(attempts: Iterable[tuple[str, int, int]]) -> set[GroupAttempt]:
    """The attempts by name."""
    return {GroupAttempt(*attempt) for attempt in attempts}
