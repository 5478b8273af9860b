"""Reads of the archive. Nothing here locks or writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Label,
    Row,
    Select,
    and_,
    cast,
    func,
    or_,
    select,
    text,
    tuple_,
    union_all,
)

from coalq.archive.engine import is_postgres
from coalq.archive.rows import RecordKey, RunProgress, RunRow, StoredRecord
from coalq.archive.tables import archive_identity, generations, groups, records, runs
from coalq.attribution import UtilityRecord
from coalq.errors import InputError
from coalq.generation import Generation
from coalq.masks import grand_mask, pack_mask, unpack_mask
from coalq.outcome import Outcome, RunStatus

_CHUNK = 250

_GENERATION_FIELDS = tuple(Generation.__dataclass_fields__)
_GENERATION_COLUMNS = tuple(generations.c[name] for name in _GENERATION_FIELDS)
_RUN_COLUMNS = tuple(runs.c[name] for name in RunRow.__dataclass_fields__)

_COUNTERS = ("executed", "cache_hits", "deduplicated", "failed", "kv_cache_hits")
TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
"""What is summed over generations, by its name in `generations` and in `groups`."""


def read_archive_id(connection: Connection) -> str:
    """The random id of this database."""
    return str(connection.execute(select(archive_identity.c.archive_id)).scalar_one())


def read_generations(connection: Connection, keys: Sequence[str]) -> dict[str, Generation]:
    """The archived generations of those keys that have one."""
    if not keys:
        return {}
    columns = (generations.c.coalition_key, *_GENERATION_COLUMNS)
    if is_postgres(connection):
        chosen = text("generations.coalition_key = ANY(CAST(:keys AS text[]))").bindparams(keys=list(keys))
        rows: Iterable[Row[Any]] = connection.execute(select(*columns).where(chosen))
    else:
        rows = [
            row
            for begin in range(0, len(keys), _CHUNK)
            for row in connection.execute(
                select(*columns).where(generations.c.coalition_key.in_(keys[begin : begin + _CHUNK]))
            )
        ]
    return {row.coalition_key: _generation(row) for row in rows}


def read_records(connection: Connection, keys: Sequence[RecordKey]) -> dict[RecordKey, StoredRecord]:
    """Those of the records that exist."""
    found: dict[RecordKey, StoredRecord] = {}
    for begin in range(0, len(keys), _CHUNK):
        wanted = list(keys[begin : begin + _CHUNK])
        chosen = select(
            records.c.run_id, records.c.mask, records.c.sample, records.c.outcome, records.c.utility, records.c.error
        ).where(tuple_(records.c.run_id, records.c.mask, records.c.sample).in_(wanted))
        for run_id, mask, sample, outcome, utility, error in connection.execute(chosen):
            found[RecordKey(run_id, bytes(mask), sample)] = StoredRecord(Outcome(outcome), utility, error)
    return found


def recorded(connection: Connection, run_id: str, group_number: int) -> set[tuple[bytes, int]]:
    """(packed mask, sample) of the records that a group has."""
    rows = connection.execute(
        select(records.c.mask, records.c.sample).where(
            records.c.run_id == run_id, records.c.group_number == group_number
        )
    )
    return {(bytes(mask), sample) for mask, sample in rows}


def base_generation(connection: Connection, run_id: str) -> Generation | None:
    """The grand coalition's generation, sample 0; None if it has none (yet)."""
    n_players = connection.execute(select(runs.c.n_players).where(runs.c.run_id == run_id)).scalar_one_or_none()
    if n_players is None:
        return None
    row = connection.execute(
        select(*_GENERATION_COLUMNS)
        .join(records, records.c.coalition_key == generations.c.coalition_key)
        .where(
            records.c.run_id == run_id,
            records.c.mask == pack_mask(grand_mask(n_players), n_players),
            records.c.sample == 0,
            records.c.outcome != Outcome.FAILED,
        )
    ).one_or_none()
    return None if row is None else _generation(row)


def manifest(connection: Connection, run_id: str) -> dict[str, Any]:
    """The run's manifest.

    Raises:
        InputError: If there is no such run.
    """
    found = connection.execute(select(runs.c.manifest).where(runs.c.run_id == run_id)).scalar_one_or_none()
    if found is None:
        raise InputError(f"there is no run {run_id!r}")
    return dict(found)


def run(connection: Connection, run_id: str) -> RunRow:
    """One run by its full id.

    Raises:
        InputError: If there is no such run.
    """
    row = connection.execute(select(*_RUN_COLUMNS).where(runs.c.run_id == run_id)).one_or_none()
    if row is None:
        raise InputError(f"there is no run {run_id!r}")
    return _run_row(row._asdict())


def list_runs(connection: Connection, limit: int) -> list[RunRow]:
    """The latest runs, newest first."""
    newest = select(*_RUN_COLUMNS).order_by(runs.c.created_at.desc(), runs.c.run_id.desc()).limit(limit)
    return [_run_row(row._asdict()) for row in connection.execute(newest)]


def find_run(connection: Connection, reference: str) -> RunRow:
    """The run that a user means: id, unique prefix or suffix of one, name, or `@last`.

    Raises:
        InputError: If there is none, or more than one.
    """
    if reference == "@last":
        latest = list_runs(connection, 1)
        if not latest:
            raise InputError("there is no run yet")
        return latest[0]
    if not reference:
        raise InputError("a run is an id, a unique prefix or suffix of one, a name, or @last; got nothing")
    meant = or_(
        runs.c.run_id.startswith(reference, autoescape=True),
        runs.c.run_id.endswith(reference, autoescape=True),
        runs.c.name == reference,
    )
    newest = select(*_RUN_COLUMNS).where(meant).order_by(runs.c.created_at.desc()).limit(_CHUNK)
    found = [_run_row(row._asdict()) for row in connection.execute(newest)]
    exact = [row for row in found if row.run_id == reference]
    if exact:
        return exact[0]
    if not found:
        raise InputError(f"there is no run {reference!r}; `coalq runs` lists them")
    if len(found) > 1:
        some = ", ".join(row.run_id for row in found[:5])
        raise InputError(f"{reference!r} means {len(found)} runs ({some}{', …' if len(found) > 5 else ''}); say more")
    return found[0]


def utility_records(connection: Connection, run_id: str) -> list[UtilityRecord]:
    """All records of a run, in mask order, samples in order."""
    rows = connection.execute(
        select(records.c.mask, records.c.sample, records.c.outcome, records.c.utility, records.c.error).where(
            records.c.run_id == run_id
        )
    )
    found = [
        UtilityRecord(unpack_mask(bytes(mask)), sample, Outcome(outcome), utility, error)
        for mask, sample, outcome, utility, error in rows
    ]
    return sorted(found, key=lambda record: (record.mask, record.sample))


def progress(connection: Connection, run_id: str) -> RunProgress:
    """Where a run stands. Finished groups are summed from their counters, open ones counted from their records too.

    Raises:
        InputError: If there is no such run.
    """
    row = run(connection, run_id)
    counters = connection.execute(_totals(run_id)).one()._asdict()
    states = connection.execute(_group_states(run_id)).one()
    counts = {name: int(counters[name] or 0) for name in _COUNTERS}
    return RunProgress(
        status=row.status,
        reason=row.reason,
        total=None if row.n_planned is None else row.n_planned * row.samples,
        done=sum(counts[name] for name in _COUNTERS if name != "kv_cache_hits"),
        groups_waiting=int(states.waiting),
        groups_executing=int(states.executing),
        groups_finished=int(states.finished),
        prompt_tokens=_int_or_none(counters["prompt_tokens"]),
        cached_tokens=_int_or_none(counters["cached_tokens"]),
        completion_tokens=_int_or_none(counters["completion_tokens"]),
        reasoning_tokens=_int_or_none(counters["reasoning_tokens"]),
        **counts,
    )


def counted() -> list[Label[Any]]:
    """Counters and token sums over records joined with the generations they executed, named as in `groups`."""
    outcomes = {
        "executed": Outcome.EXECUTED,
        "cache_hits": Outcome.CACHE_HIT,
        "deduplicated": Outcome.DEDUPLICATED,
        "failed": Outcome.FAILED,
    }
    return [
        *(func.count().filter(records.c.outcome == value).label(name) for name, value in outcomes.items()),
        func.count().filter(generations.c.cached_tokens > 0).label("kv_cache_hits"),
        # PostgreSQL sums bigint to numeric.
        *(cast(func.sum(generations.c[name]), BigInteger).label(name) for name in TOKENS),
    ]


def _totals(run_id: str) -> Select[Any]:
    """One statement, so that a group that finishes meanwhile is counted on one side.

    Until a group finishes, its own columns hold nothing but what generations of failed records cost.
    """
    names = (*_COUNTERS, *TOKENS)
    written = select(*(groups.c[name] for name in names)).where(groups.c.run_id == run_id)
    opened = (
        select(*counted())
        .select_from(groups)
        .join(records, and_(records.c.run_id == groups.c.run_id, records.c.group_number == groups.c.group_number))
        .outerjoin(
            generations,
            (generations.c.coalition_key == records.c.coalition_key) & (records.c.outcome == Outcome.EXECUTED),
        )
        .where(groups.c.run_id == run_id, groups.c.finished_at.is_(None))
    )
    parts = union_all(written, opened).subquery()
    return select(*(func.sum(parts.c[name]).label(name) for name in names))


def _group_states(run_id: str) -> Select[int, int, int]:
    is_open: ColumnElement[bool] = groups.c.finished_at.is_(None)
    return select(
        func.count().filter(is_open, groups.c.owner.is_(None)).label("waiting"),
        func.count().filter(is_open, groups.c.owner.is_not(None)).label("executing"),
        func.count().filter(groups.c.finished_at.is_not(None)).label("finished"),
    ).where(groups.c.run_id == run_id)


def _generation(row: Row[Any]) -> Generation:
    return Generation(**{name: getattr(row, name) for name in _GENERATION_FIELDS})


def _run_row(columns: Mapping[str, Any]) -> RunRow:
    return RunRow(**{**columns, "status": RunStatus(columns["status"])})


def _int_or_none(value: object) -> int | None:
    return None if value is None else int(str(value))
