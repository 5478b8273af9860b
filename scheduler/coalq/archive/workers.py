"""The worker processes that report themselves, so that producers know who serves a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, select

from coalq.archive.clock import now
from coalq.archive.rows import WorkerRow
from coalq.archive.statements import insert_into, moment
from coalq.archive.storing import storable_or_none
from coalq.archive.tables import workers

LIVE_S = 30.0
"""A worker not heard of for longer does not count as live."""

_FORGET_S = 24 * 3600.0


def heartbeat(connection: Connection, worker: WorkerRow) -> None:
    """Insert or update the worker's row, and forget those not heard of for a day."""
    row = {
        "process_id": worker.process_id,
        "host": worker.host,
        "version": worker.version,
        "endpoint": worker.endpoint,
        "identity": dict(worker.identity),
        "profile": dict(worker.profile),
        "models": list(worker.models),
        "in_flight": worker.in_flight,
        "inflight_limit": worker.limit,
        "last_error": storable_or_none(worker.last_error),
        "heartbeat_at": now(),
    }
    statement = insert_into(connection, workers).values(**row)
    changed = {name: statement.excluded[name] for name in row if name != "process_id"}
    connection.execute(statement.on_conflict_do_update(index_elements=["process_id"], set_=changed))
    connection.execute(delete(workers).where(workers.c.heartbeat_at < moment - _FORGET_S))


def forget_worker(connection: Connection, process_id: str) -> None:
    """Delete the row of a worker that ends."""
    connection.execute(delete(workers).where(workers.c.process_id == process_id))


def live_workers(connection: Connection, model: str | None, *, within_s: float) -> list[WorkerRow]:
    """Workers heard of a moment ago, all or those that serve a model."""
    rows = connection.execute(
        select(workers).where(workers.c.heartbeat_at >= moment - within_s).order_by(workers.c.process_id)
    )
    found = [_worker_row(row._asdict()) for row in rows]
    return [worker for worker in found if model is None or model in worker.models]


def _worker_row(columns: Mapping[str, Any]) -> WorkerRow:
    fields = {name: value for name, value in columns.items() if name not in {"models", "inflight_limit"}}
    return WorkerRow(**fields, models=tuple(columns["models"]), limit=columns["inflight_limit"])
