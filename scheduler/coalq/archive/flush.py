"""Commits finished jobs: generations, records, finished groups and ended runs, in one transaction.

    lock groups ─> generations ─> records ─> count, finish groups ─> count down runs

Every flush locks in this order and sorts within each step, so flushes wait for each other but never in a circle. The
first write of a generation or a record stays; a crash before the commit leaves nothing, after it everything.

A record is written beside the text it was made of, or not at all. Each generation row belongs to the one record that
brought it: an executed one, or a failed one whose value could not be computed from its own text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from coalq.archive import flush_statements
from coalq.archive.reading import TOKENS, read_generations, read_records
from coalq.archive.rows import Draft, FlushResult, GroupKey, RecordKey, StoredRecord
from coalq.archive.storing import store_generations, store_records
from coalq.generation import Generation
from coalq.outcome import Outcome, RunStatus


def flush(
    connection: Connection, drafts: Iterable[Draft], *, process_id: str, checked_groups: Iterable[GroupKey]
) -> FlushResult:
    """Write what is not there yet, finish the groups that are complete, end the runs whose last group that was.

    Idempotent: the same drafts again change nothing. Nobody needs to own a group to flush into it.

    Args:
        connection: In a transaction of its own.
        drafts: Finished jobs of any groups and runs; of two for one record, one that did not fail wins.
        process_id: Stored with each generation.
        checked_groups: Groups that may be complete although no draft belongs to them.
    """
    batch = _distinct(drafts)
    touched = {draft.group for draft in batch} | set(checked_groups)
    if not touched:
        return FlushResult(frozenset(), {}, {}, frozenset(), frozenset(), frozenset(), {})
    locked = _lock(connection, touched)
    open_groups = {key: group.expected for key, group in locked.items() if not group.is_finished}
    stored = _store(connection, batch, open_groups=open_groups, process_id=process_id)
    complete = _complete_groups(connection, open_groups)
    failed_by_group = _finish(connection, complete) if complete else {}
    ended = _count_down(connection, failed_by_group)
    before = {key for key, group in locked.items() if group.is_finished}
    return FlushResult(
        written=stored.written,
        present=stored.present,
        conflicts=stored.conflicts,
        missing=stored.missing,
        dropped=stored.dropped,
        finished=frozenset(before | failed_by_group.keys()),
        ended=ended,
    )


@dataclass(frozen=True, slots=True)
class _LockedGroup:
    expected: int
    is_finished: bool


@dataclass(frozen=True, slots=True)
class _StoredBatch:
    written: frozenset[RecordKey]
    present: Mapping[RecordKey, StoredRecord]
    conflicts: Mapping[str, Generation]
    missing: frozenset[RecordKey]
    dropped: frozenset[RecordKey]


def _distinct(drafts: Iterable[Draft]) -> list[Draft]:
    """Each record once, in key order; a real outcome before a failed one, the earlier of equals."""
    by_key: dict[RecordKey, Draft] = {}
    for draft in drafts:
        known = by_key.get(draft.key)
        if known is None or (known.outcome is Outcome.FAILED and draft.outcome is not Outcome.FAILED):
            by_key[draft.key] = draft
    return [by_key[key] for key in sorted(by_key)]


def _lock(connection: Connection, keys: Collection[GroupKey]) -> dict[GroupKey, _LockedGroup]:
    """Step 1: lock the group rows in key order. From here on nobody else writes records of these groups."""
    rows = connection.execute(flush_statements.LOCK, {"keys": sorted(keys)})
    return {GroupKey(row.run_id, row.group_number): _LockedGroup(row.expected, bool(row.is_finished)) for row in rows}


def _store(
    connection: Connection, batch: Sequence[Draft], *, open_groups: Collection[GroupKey], process_id: str
) -> _StoredBatch:
    """Steps 2 and 3: generations, then records of those drafts whose stored text is their own."""
    writable = [draft for draft in batch if draft.group in open_groups]
    kept = _store_texts(connection, writable, process_id=process_id)
    lost = {draft.key for draft in batch if _brings_a_text(draft)} - kept
    recordable = [draft for draft in writable if draft.key not in lost]
    written = store_records(connection, recordable) if recordable else set()
    unwritten = [draft for draft in batch if draft.key not in written]
    present = read_records(connection, [draft.key for draft in unwritten])
    conflicts = read_generations(
        connection, sorted({d.coalition_key for d in unwritten if d.key in lost or d.key in present})
    )
    absent = [draft for draft in unwritten if draft.key not in present]
    to_score_again = {draft.key for draft in absent if draft.key in lost and draft.coalition_key in conflicts}
    dropped = {draft.key for draft in absent if draft.group not in open_groups}
    return _StoredBatch(
        written=frozenset(written),
        present=present,
        conflicts=conflicts,
        missing=frozenset({draft.key for draft in absent} - to_score_again - dropped),
        dropped=frozenset(dropped),
    )


def _store_texts(connection: Connection, drafts: Iterable[Draft], *, process_id: str) -> set[RecordKey]:
    """Step 2: insert the generations; returns the drafts whose own text is the stored one."""
    own = _own_generations(drafts)
    if not own:
        return set()
    won = store_generations(connection, [own[key] for key in sorted(own)], process_id=process_id)
    kept = [own[key] for key in sorted(won)]
    _spend(connection, [draft for draft in kept if draft.outcome is Outcome.FAILED])
    return {draft.key for draft in kept}


def _own_generations(drafts: Iterable[Draft]) -> dict[str, Draft]:
    """By coalition key, the draft whose text is stored: of an executed and a failed one the executed.

    A draft that failed only because its value could not be computed brings its text too: it was paid for, it shows
    what went wrong, and a run with another value finds it.
    """
    own: dict[str, Draft] = {}
    for draft in sorted(drafts, key=lambda draft: draft.outcome is Outcome.FAILED):
        if draft.generation is not None:
            own.setdefault(draft.coalition_key, draft)
    return own


def _brings_a_text(draft: Draft) -> bool:
    return draft.outcome is Outcome.EXECUTED or draft.generation is not None


def _spend(connection: Connection, failed: Iterable[Draft]) -> None:
    """Add what the kept texts of failed drafts cost to their groups: it was paid, though nothing came of it."""
    steps = [
        {
            "of_run": draft.run_id,
            "of_number": draft.group_number,
            "kv_cache_hits": int(bool(draft.generation.cached_tokens)),
            **{name: getattr(draft.generation, name) for name in TOKENS},
        }
        for draft in failed
        if draft.generation is not None
    ]
    if steps:
        connection.execute(flush_statements.SPEND, steps)


def _complete_groups(connection: Connection, expected: Mapping[GroupKey, int]) -> list[GroupKey]:
    """Step 4, first half, a statement of its own: the inserting one does not see its own rows."""
    if not expected:
        return []
    counts = connection.execute(flush_statements.COUNT, {"keys": sorted(expected)})
    return sorted(GroupKey(run_id, number) for run_id, number, n in counts if n >= expected[GroupKey(run_id, number)])


def _finish(connection: Connection, complete: Sequence[GroupKey]) -> dict[GroupKey, int]:
    """Step 4, second half: counters counted from the records, owner and lease cleared; returns failed by group."""
    rows = [dict(row) for row in connection.execute(flush_statements.COUNTERS, {"keys": list(complete)}).mappings()]
    connection.execute(
        flush_statements.FINISH,
        [
            {
                "of_run": row["run_id"],
                "of_number": row["group_number"],
                **{name: row[name] for name in flush_statements.COUNTED},
            }
            for row in rows
        ],
    )
    return {GroupKey(row["run_id"], row["group_number"]): int(row["failed"]) for row in rows}


def _count_down(connection: Connection, failed_by_group: Mapping[GroupKey, int]) -> dict[str, RunStatus]:
    """Step 5, last: per run in id order, one UPDATE that reads nothing but the run's own row."""
    ended: dict[str, RunStatus] = {}
    for run_id in sorted({key.run_id for key in failed_by_group}):
        failed_counts = [failed for key, failed in failed_by_group.items() if key.run_id == run_id]
        step = {"of_run": run_id, "finished_now": len(failed_counts), "failed_now": sum(failed_counts)}
        row = connection.execute(flush_statements.COUNT_DOWN, step).one()
        status = RunStatus(row.status)
        if row.plan_closed and row.open_groups == 0 and status in {RunStatus.COMPLETE, RunStatus.INCOMPLETE}:
            ended[run_id] = status
    return ended
