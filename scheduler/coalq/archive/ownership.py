"""Who executes a group: start, renew, hand back, sweep. Each is guarded by the state it leaves.

planned ──publish──> published ──start──> owned ──flush of the last record──> finished
   ^                     │                  │
   └──────────── unmark, hand back, sweep ──┘
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, and_, case, literal, or_, select, update

from coalq.archive.clock import now
from coalq.archive.rows import GroupAttempt, StartedGroup
from coalq.archive.statements import is_attempt, is_key, lock_groups, moment, of_live_run
from coalq.archive.tables import groups

_LONGEST_PAUSE_S = 60
_DOUBLINGS = 6  # 1, 2, 4, ... 32 s, then the longest


def start(connection: Connection, attempt: GroupAttempt, *, process_id: str, lease_s: float) -> StartedGroup | None:
    """Take ownership of a published group; None if this attempt is stale, taken, finished or its run not live.

    One statement, so of doubled messages in two processes one wins. Idempotent: the owner of this very attempt is told
    yes again and counts no further start, because a commit whose answer was lost is repeated. A crash right after it
    costs one lease.
    """
    is_mine = groups.c.owner == process_id
    started = connection.execute(
        update(groups)
        .where(
            is_attempt([attempt]),
            groups.c.published_at.is_not(None),
            or_(groups.c.owner.is_(None), is_mine),
            groups.c.finished_at.is_(None),
            of_live_run(),
        )
        .values(
            owner=process_id,
            lease_until=now() + lease_s,
            starts=case((is_mine, groups.c.starts), else_=groups.c.starts + 1),
        )
        .returning(groups.c.masks, groups.c.count, groups.c.prefix_hash, groups.c.starts)
    ).one_or_none()
    if started is None:
        return None
    masks, count, prefix_hash, starts = started
    return StartedGroup(
        run_id=attempt.run_id,
        group_number=attempt.group_number,
        attempt=attempt.attempt,
        masks=bytes(masks),
        count=count,
        prefix_hash=prefix_hash,
        starts=starts,
    )


def renew(
    connection: Connection, attempts: Collection[GroupAttempt], *, process_id: str, lease_s: float
) -> set[GroupAttempt]:
    """Extend the leases of these executions; returns those that are still the process's and whose run is live."""
    if not attempts or not lock_groups(connection, *_held(attempts, process_id)):
        return set()
    renewed = connection.execute(
        update(groups)
        .where(*_held(attempts, process_id), of_live_run())
        .values(lease_until=now() + lease_s)
        .returning(groups.c.run_id, groups.c.group_number, groups.c.attempt)
    )
    return {GroupAttempt(*row) for row in renewed}


def hand_back(connection: Connection, attempts: Collection[GroupAttempt], *, process_id: str, progressed: bool) -> None:
    """Give up executions that ended early for no fault of the group: it is published again, later each time.

    The start is not counted. The pause grows from 1 to 60 s, so that a group nobody can run does not loop hot; it
    starts again at 1 s when the executions recorded something. Idempotent: afterwards nobody owns the groups.
    """
    if not attempts or not lock_groups(connection, *_held(attempts, process_id)):
        return
    in_vain: ColumnElement[int] = literal(0) if progressed else groups.c.hand_backs
    pause_s = case((in_vain < _DOUBLINGS, literal(1).bitwise_lshift(in_vain)), else_=_LONGEST_PAUSE_S)
    connection.execute(
        update(groups)
        .where(*_held(attempts, process_id))
        .values(
            owner=None,
            lease_until=None,
            published_at=None,
            starts=case((groups.c.starts > 0, groups.c.starts - 1), else_=0),
            hand_backs=in_vain + 1,
            not_before=now() + pause_s,
        )
    )


def sweep(connection: Connection, queues: Collection[str], *, lease_s: float, empty_queues: Collection[str]) -> int:
    """Unmark groups whose owner or message is lost; returns how many.

    An owner is lost when its lease ran out. A message is lost when its group was published over one lease ago and
    never started, and the queue is empty or a group of the same queue and priority that was published one lease later
    has started already. A waiting backlog is never published twice.

    Args:
        connection: In a transaction.
        queues: Queues the caller consumes.
        lease_s: The lease, seconds.
        empty_queues: Those of them in which the broker holds no message.
    """
    lost = _lost(queues, lease_s=lease_s, empty_queues=empty_queues)
    # A row somebody holds is being renewed or flushed; if it is lost, the next sweep finds it.
    locked = lock_groups(connection, *lost, skip_locked=True)
    if locked:
        connection.execute(update(groups).where(is_key(locked)).values(owner=None, lease_until=None, published_at=None))
    return len(locked)


def any_lost(connection: Connection, queues: Collection[str], *, lease_s: float, empty_queues: Collection[str]) -> bool:
    """Whether `sweep` would find anything; without a lock."""
    lost = _lost(queues, lease_s=lease_s, empty_queues=empty_queues)
    return connection.execute(select(groups.c.run_id).where(*lost).limit(1)).first() is not None


def _lost(queues: Collection[str], *, lease_s: float, empty_queues: Collection[str]) -> tuple[ColumnElement[bool], ...]:
    later = groups.alias("later")
    overtaken = (
        select(later.c.run_id)
        .where(
            later.c.queue == groups.c.queue,
            later.c.priority == groups.c.priority,
            later.c.published_at >= groups.c.published_at + lease_s,
            or_(later.c.owner.is_not(None), later.c.finished_at.is_not(None)),
        )
        .exists()
    )
    owner_lost = groups.c.lease_until < moment
    message_lost = and_(
        groups.c.owner.is_(None),
        groups.c.published_at < moment - lease_s,
        or_(groups.c.queue.in_(list(empty_queues)), overtaken),
    )
    return (
        groups.c.queue.in_(list(queues)),
        groups.c.finished_at.is_(None),
        or_(and_(groups.c.owner.is_not(None), owner_lost), message_lost),
    )


def _held(attempts: Collection[GroupAttempt], process_id: str) -> tuple[ColumnElement[bool], ...]:
    return (is_attempt(attempts), groups.c.owner == process_id, groups.c.finished_at.is_(None))
