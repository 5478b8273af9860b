"""Inserts many generations and records in few statements, as each database likes it best.

PostgreSQL takes all rows as one JSON parameter in one statement. On SQLite the caller's transaction is the only
writer, so what is there can be looked up first without a race.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, insert, select, text

from coalq.archive.clock import now
from coalq.archive.engine import is_postgres
from coalq.archive.reading import read_records
from coalq.archive.rows import Draft, RecordKey
from coalq.archive.tables import generations, records
from coalq.outcome import Outcome
from coalq.storable_text import storable

_CLOCK = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)"

_TEXT_COLUMNS = ("finish_reason", "reasoning", "refusal", "tool_calls", "fingerprint", "endpoint")
_TOKEN_COLUMNS = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")

_CHUNK = 500

# One JSON text costs a third of the client's time for arrays. The scalar subqueries keep the planner from joining: it
# must probe the index, whatever its statistics say.
_GENERATIONS_SQL = text(
    f"""
    INSERT INTO generations (coalition_key, model_id, text, {", ".join(_TEXT_COLUMNS + _TOKEN_COLUMNS)},
                             elapsed_ms, worker, created_at)
    SELECT d.coalition_key, d.model_id, d.text, {", ".join(f"d.{name}" for name in _TEXT_COLUMNS + _TOKEN_COLUMNS)},
           d.elapsed_ms, :worker, {_CLOCK}
    FROM json_to_recordset(CAST(:rows AS json))
         AS d(run_id text, mask text, sample integer, coalition_key text, model_id text, text text,
              {", ".join(f"{name} text" for name in _TEXT_COLUMNS)},
              {", ".join(f"{name} bigint" for name in _TOKEN_COLUMNS)}, elapsed_ms double precision)
    WHERE (SELECT count(*) FROM records r
           WHERE r.run_id = d.run_id AND r.mask = decode(d.mask, 'hex') AND r.sample = d.sample) = 0
    ORDER BY d.coalition_key
    ON CONFLICT DO NOTHING
    RETURNING coalition_key
    """  # noqa: S608 - column names of this module
)

_RECORDS_SQL = text(
    f"""
    INSERT INTO records (run_id, mask, sample, group_number, coalition_key, outcome, utility, error, created_at)
    SELECT d.run_id, decode(d.mask, 'hex'), d.sample, d.group_number, d.coalition_key, d.outcome, d.utility, d.error,
           {_CLOCK}
    FROM json_to_recordset(CAST(:rows AS json))
         AS d(run_id text, mask text, sample integer, group_number integer, coalition_key text, outcome text,
              utility double precision, error text)
    WHERE d.outcome = 'failed'
       OR (SELECT count(*) FROM generations g WHERE g.coalition_key = d.coalition_key) > 0
    ORDER BY d.run_id, d.mask, d.sample
    ON CONFLICT DO NOTHING
    RETURNING run_id, mask, sample
    """  # noqa: S608 - one constant of this module
)


def store_generations(connection: Connection, drafts: Sequence[Draft], *, process_id: str) -> set[str]:
    """Insert the generations that drafts bring, sorted by key; returns the keys that were not there before.

    A draft whose record is there already adds no generation: each generation row belongs to the record that made it.

    Args:
        connection: In a transaction that holds the drafts' groups.
        drafts: Each with its generation, each key once.
        process_id: Who generated them.
    """
    rows = [_generation_row(draft) for draft in drafts]
    if is_postgres(connection):
        parameters = {"rows": _as_json(rows), "worker": process_id}
        return set(connection.execute(_GENERATIONS_SQL, parameters).scalars())
    present = read_records(connection, [draft.key for draft in drafts])
    known = _known_keys(connection, [draft.coalition_key for draft in drafts])
    fresh = [
        {name: value for name, value in row.items() if name not in {"run_id", "mask", "sample"}}
        for draft, row in zip(drafts, rows, strict=True)
        if draft.key not in present and draft.coalition_key not in known
    ]
    if fresh:
        connection.execute(insert(generations).values(worker=process_id, created_at=now()), fresh)
    return {row["coalition_key"] for row in fresh}


def store_records(connection: Connection, drafts: Sequence[Draft]) -> set[RecordKey]:
    """Insert records, sorted by key; returns those that were not there before.

    One that is not failed needs its generation: without it no record is written.

    Args:
        connection: In a transaction that holds the drafts' groups.
        drafts: Each record once.
    """
    rows = [_record_row(draft) for draft in drafts]
    if is_postgres(connection):
        written = connection.execute(_RECORDS_SQL, {"rows": _as_json(rows)})
        return {RecordKey(run_id, bytes(mask), sample) for run_id, mask, sample in written}
    present = read_records(connection, [draft.key for draft in drafts])
    known = _known_keys(connection, [d.coalition_key for d in drafts if d.outcome is not Outcome.FAILED])
    fresh = [
        (draft.key, row)
        for draft, row in zip(drafts, rows, strict=True)
        if draft.key not in present and (draft.outcome is Outcome.FAILED or draft.coalition_key in known)
    ]
    if fresh:
        connection.execute(insert(records).values(created_at=now()), [row for _, row in fresh])
    return {key for key, _ in fresh}


def storable_or_none(words: str | None) -> str | None:
    """`storable` of a text that may be unknown."""
    return None if words is None else storable(words)


def _as_json(rows: Sequence[dict[str, Any]]) -> str:
    return orjson.dumps([{**row, "mask": row["mask"].hex()} for row in rows]).decode()


def _generation_row(draft: Draft) -> dict[str, Any]:
    generation = draft.generation
    if generation is None:
        raise ValueError(f"draft of {draft.coalition_key} has no generation")
    return {
        "run_id": draft.run_id,
        "mask": draft.mask,
        "sample": draft.sample,
        "coalition_key": draft.coalition_key,
        "model_id": draft.model_id,
        "text": storable(generation.text),
        **{name: storable_or_none(getattr(generation, name)) for name in _TEXT_COLUMNS},
        **{name: getattr(generation, name) for name in _TOKEN_COLUMNS},
        "elapsed_ms": generation.elapsed_ms,
    }


def _record_row(draft: Draft) -> dict[str, Any]:
    return {
        "run_id": draft.run_id,
        "mask": draft.mask,
        "sample": draft.sample,
        "group_number": draft.group_number,
        "coalition_key": draft.coalition_key,
        "outcome": draft.outcome.value,
        "utility": draft.utility,
        "error": storable_or_none(draft.error),
    }


def _known_keys(connection: Connection, keys: Iterable[str]) -> set[str]:
    wanted = sorted(set(keys))
    known: set[str] = set()
    for begin in range(0, len(wanted), _CHUNK):
        chunk = wanted[begin : begin + _CHUNK]
        found = select(generations.c.coalition_key).where(generations.c.coalition_key.in_(chunk))
        known.update(connection.execute(found).scalars())
    return known
