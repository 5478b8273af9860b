"""Creates runs and plans their groups, a chunk at a time, so that memory and archive stay small at any size.

no group ──plan──> group 0 alone ──finished──> chunks ahead of publication ──last chunk──> plan closed
                                 └──failed──> run incomplete, plan not closed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, case, func, insert, select, true, update

from coalq.archive.clock import now
from coalq.archive.lifecycle import final_status
from coalq.archive.publication import busy_groups
from coalq.archive.rows import NewRun
from coalq.archive.statements import insert_into
from coalq.archive.tables import groups, records, runs
from coalq.config import Manifest
from coalq.grouping import GroupPlan
from coalq.masks import pack_masks
from coalq.outcome import Outcome, RunStatus

_REFILL_BELOW = 2
_FILL_UP_TO = 4


def create_run(connection: Connection, new: NewRun) -> None:
    """Insert a live run without groups; a no-op if it is there. After a crash right here any worker plans it."""
    manifest = new.manifest
    connection.execute(
        insert_into(connection, runs)
        .values(
            run_id=new.run_id,
            name=new.name,
            campaign=new.campaign,
            item_id=new.item_id,
            metadata=dict(new.metadata),
            model=new.model,
            queue=new.queue,
            status=RunStatus.RUNNING,
            priority=new.priority,
            give_up_after_s=new.give_up_after_s,
            n_players=len(manifest["players"]),
            samples=manifest["samples_per_coalition"],
            absence_policy=manifest["absence"],
            manifest=dict(manifest),
            snapshot_id=new.snapshot_id,
            snapshot=list(new.snapshot),
            created_at=now(),
        )
        .on_conflict_do_nothing()
    )


def runs_to_advance(connection: Connection, queues: list[str]) -> list[str]:
    """Live runs of these queues that `advance` may have something to do for, higher priority and older first."""
    found: list[str] = []
    base = groups.alias("base")
    base_finished = (
        select(base.c.run_id)
        .where(base.c.run_id == runs.c.run_id, base.c.group_number == 0, base.c.finished_at.is_not(None))
        .exists()
    )
    ready = _ready_groups().where(groups.c.run_id == runs.c.run_id).correlate(runs).scalar_subquery()
    for queue in queues:
        low = _REFILL_BELOW * busy_groups(connection, queue)
        chosen = (
            select(runs.c.run_id)
            .where(runs.c.status == RunStatus.RUNNING, runs.c.queue == queue, runs.c.plan_closed.is_(False))
            .where((runs.c.next_group == 0) | (base_finished & (ready < low)))
            .order_by(runs.c.priority.desc(), runs.c.created_at, runs.c.run_id)
        )
        found.extend(connection.execute(chosen).scalars())
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """What `advance` is about to do, decided without a lock; `apply` does it only if nobody was faster.

    Attributes:
        next_group: The planning cursor it was decided at.
        queue: Where the run's groups are published.
        reason: Why the run ends here; None if it goes on.
        groups: Rows to insert.
        n_groups: Groups of the whole plan.
        n_planned: Coalitions of the whole plan.
    """

    run_id: str
    next_group: int
    reason: str | None = None
    groups: tuple[dict[str, Any], ...] = ()
    n_groups: int = 0
    n_planned: int = 0


def look(connection: Connection, run_id: str, *, room_ahead: int | None) -> Step | None:
    """Decide the next step of a run without locking anything; None if there is none now.

    Args:
        connection: Read only.
        run_id: Any run.
        room_ahead: Groups that the queue has room for; counted if None.
    """
    run = connection.execute(
        select(runs.c.status, runs.c.plan_closed, runs.c.next_group, runs.c.n_groups, runs.c.queue).where(
            runs.c.run_id == run_id
        )
    ).one_or_none()
    if run is None or run.status != RunStatus.RUNNING or run.plan_closed:
        return None
    if run.next_group == 0:
        return _chunk(connection, run_id, 0, 1)
    base = connection.execute(
        select(groups.c.finished_at, groups.c.failed).where(groups.c.run_id == run_id, groups.c.group_number == 0)
    ).one()
    if base.finished_at is None:
        return None
    if base.failed:
        return Step(run_id, run.next_group, reason=_first_error(connection, run_id))
    if run.next_group >= run.n_groups:
        return Step(run_id, run.next_group, n_groups=run.n_groups)
    return _look_ahead(connection, run_id, run.next_group, queue=run.queue, room_ahead=room_ahead)


def _look_ahead(
    connection: Connection, run_id: str, next_group: int, *, queue: str, room_ahead: int | None
) -> Step | None:
    """The next chunk, once less than twice the room waits for publication: fewer and larger transactions."""
    room = busy_groups(connection, queue) if room_ahead is None else max(1, room_ahead)
    ready = connection.execute(_ready_groups().where(groups.c.run_id == run_id)).scalar_one()
    if ready >= _REFILL_BELOW * room:
        return None
    return _chunk(connection, run_id, next_group, next_group + _FILL_UP_TO * room - ready)


def apply(connection: Connection, step: Step) -> bool:
    """Take the step in one transaction that locks the run's row; False if another process took it first.

    The cursor guards it: of two processes with the same step the second finds the cursor moved.
    """
    run = connection.execute(
        select(runs.c.queue, runs.c.priority)
        .where(
            runs.c.run_id == step.run_id,
            runs.c.status == RunStatus.RUNNING,
            runs.c.plan_closed.is_(False),
            runs.c.next_group == step.next_group,
        )
        .with_for_update()
    ).one_or_none()
    if run is None:
        return False
    if step.reason is not None:
        changes: dict[str, Any] = {"status": RunStatus.INCOMPLETE, "reason": step.reason, "finished_at": now()}
    else:
        if step.groups:
            connection.execute(
                insert(groups), [{**row, "queue": run.queue, "priority": run.priority} for row in step.groups]
            )
        changes = _planned(step)
    connection.execute(update(runs).where(runs.c.run_id == step.run_id).values(**changes))
    return True


def _planned(step: Step) -> dict[str, Any]:
    """The run's new columns: cursor moved, and closed with the last group; whoever closes tests for the end."""
    cursor = step.next_group + len(step.groups)
    changes: dict[str, Any] = {"next_group": cursor, "open_groups": runs.c.open_groups + len(step.groups)}
    if step.groups:
        changes.update(n_groups=step.n_groups, n_planned=step.n_planned)
    if not step.groups:
        ended = final_status(true(), nothing_open=runs.c.open_groups == 0, failed=runs.c.failed)
        changes["status"] = func.coalesce(ended, runs.c.status)
        changes["finished_at"] = case((ended.is_not(None), now()), else_=runs.c.finished_at)
    # Not with group 0, even if there is no other: when it fails, the plan must be open for a retry.
    if cursor >= step.n_groups and step.next_group > 0:
        changes["plan_closed"] = True
    return changes


def _chunk(connection: Connection, run_id: str, start: int, stop: int) -> Step:
    stored = connection.execute(select(runs.c.manifest).where(runs.c.run_id == run_id)).scalar_one()
    manifest = Manifest.model_validate(stored)
    plan = GroupPlan(manifest)
    rows = tuple(
        {
            "run_id": run_id,
            "group_number": group.number,
            "prefix_hash": group.prefix_hash,
            "masks": pack_masks(group.masks, manifest.n_players),
            "count": len(group.masks),
        }
        for group in plan.groups(start, stop)
    )
    return Step(run_id, start, groups=rows, n_groups=plan.n_groups, n_planned=plan.n_coalitions)


def _ready_groups() -> Select[int]:
    """Counts groups that are planned and wait for publication."""
    return select(func.count()).where(groups.c.finished_at.is_(None), groups.c.published_at.is_(None))


def _first_error(connection: Connection, run_id: str) -> str:
    # The grand coalition's comes first: the empty one's error may follow from it.
    found = connection.execute(
        select(records.c.error)
        .where(records.c.run_id == run_id, records.c.group_number == 0, records.c.outcome == Outcome.FAILED)
        .order_by(records.c.mask.desc(), records.c.sample)
        .limit(1)
    ).scalar_one_or_none()
    return found or "the base generation failed"
