"""The database's clock as SQL: one time for all machines that share an archive."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Double
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import FunctionElement


class now(FunctionElement[float]):  # noqa: N801 - an SQL function, written like those of sqlalchemy.func
    """Seconds since the epoch when the statement is executed; PostgreSQL to the µs, SQLite to the ms."""

    type = Double()
    inherit_cache = True


@compiles(now, "postgresql")
def _postgresql(_element: now, _compiler: SQLCompiler, **_: Any) -> str:  # noqa: ANN401 - SQLAlchemy's protocol
    # Not now(): that is the start of the transaction, which may have waited long for a lock.
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)"


@compiles(now, "sqlite")
def _sqlite(_element: now, _compiler: SQLCompiler, **_: Any) -> str:  # noqa: ANN401 - SQLAlchemy's protocol
    # unixepoch('subsec') needs SQLite 3.42.
    return "((julianday('now') - 2440587.5) * 86400.0)"
