"""The statements of a flush, built once: building them anew each time costs as much as executing them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Integer,
    bindparam,
    case,
    func,
    select,
    tuple_,
    update,
)

from coalq.archive.clock import now
from coalq.archive.lifecycle import final_status
from coalq.archive.reading import TOKENS, counted
from coalq.archive.tables import generations, groups, records, runs
from coalq.outcome import Outcome, RunStatus

_KEYS: BindParameter[Any] = bindparam("keys", expanding=True)


def _increased(column: Column[Any]) -> ColumnElement[int]:
    """The column plus the parameter of its name; an unknown one adds nothing, and two unknown ones stay unknown."""
    step: BindParameter[int] = bindparam(column.name, type_=BigInteger)
    return func.coalesce(column + step, step, column)


LOCK = (
    select(
        groups.c.run_id,
        groups.c.group_number,
        (groups.c.count * runs.c.samples).label("expected"),
        groups.c.finished_at.is_not(None).label("is_finished"),
    )
    .join(runs, runs.c.run_id == groups.c.run_id)
    .where(tuple_(groups.c.run_id, groups.c.group_number).in_(_KEYS))
    .order_by(groups.c.run_id, groups.c.group_number)
    .with_for_update(of=groups)
)

COUNT = select(
    groups.c.run_id,
    groups.c.group_number,
    select(func.count())
    .select_from(records)
    .where(records.c.run_id == groups.c.run_id, records.c.group_number == groups.c.group_number)
    .correlate(groups)
    .scalar_subquery(),
).where(tuple_(groups.c.run_id, groups.c.group_number).in_(_KEYS))

COUNTED = tuple(column.name for column in counted())

COUNTERS = (
    select(records.c.run_id, records.c.group_number, *counted())
    .outerjoin(
        generations,
        (generations.c.coalition_key == records.c.coalition_key) & (records.c.outcome == Outcome.EXECUTED),
    )
    .where(tuple_(records.c.run_id, records.c.group_number).in_(_KEYS))
    .group_by(records.c.run_id, records.c.group_number)
)

SPENT = ("kv_cache_hits", *TOKENS)
"""Columns of a group that say what generations cost: those of executed and of failed records."""

_THE_GROUP = (groups.c.run_id == bindparam("of_run"), groups.c.group_number == bindparam("of_number"))

# A failed record does not tell whether a text was generated for it: what that cost is added when it is written.
SPEND = update(groups).where(*_THE_GROUP).values(**{name: _increased(groups.c[name]) for name in SPENT})

FINISH = (
    update(groups)
    .where(*_THE_GROUP)
    .values(
        finished_at=now(),
        owner=None,
        lease_until=None,
        starts=0,
        **{name: bindparam(name, type_=BigInteger) for name in COUNTED if name not in SPENT},
        **{name: _increased(groups.c[name]) for name in SPENT},
    )
)

_FINISHED_NOW = bindparam("finished_now", type_=Integer)
_FAILED_NOW = bindparam("failed_now", type_=BigInteger)
_END = final_status(
    runs.c.plan_closed & (runs.c.status == RunStatus.RUNNING),
    nothing_open=runs.c.open_groups == _FINISHED_NOW,
    failed=runs.c.failed + _FAILED_NOW,
)

COUNT_DOWN = (
    update(runs)
    .where(runs.c.run_id == bindparam("of_run"))
    .values(
        open_groups=runs.c.open_groups - _FINISHED_NOW,
        failed=runs.c.failed + _FAILED_NOW,
        status=func.coalesce(_END, runs.c.status),
        finished_at=case((_END.is_not(None), now()), else_=runs.c.finished_at),
    )
    .returning(runs.c.status, runs.c.plan_closed, runs.c.open_groups)
)
