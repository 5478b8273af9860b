"""Runs a piece of work in one transaction, again and again while the database's fault may pass."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from coalq.archive.engine import reason_of, shown_url
from coalq.errors import TransientError

T = TypeVar("T")

_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 2.0

# SQLite has one class of error for a locked file and for a wrong statement; the codes tell them apart.
_PASSING_SQLITE_CODES = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)


class Transactions:
    """One engine and how long its faults are waited out; for ever if `patience_s` is None.

    Work may run more than once, also after a commit whose answer was lost: it must be idempotent.
    """

    def __init__(self, engine: Engine, *, patience_s: float | None) -> None:
        self.engine = engine
        self._patience_s = patience_s

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run the work in one transaction; committed when this returns.

        Raises:
            TransientError: If the database's fault did not pass in time.
        """

        def attempt() -> T:
            with self.engine.begin() as connection:
                return work(connection)

        return self._persist(attempt)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run work that only reads: PostgreSQL in autocommit, SQLite beside any writer.

        Raises:
            TransientError: If the database's fault did not pass in time.
        """
        options = {"isolation_level": "AUTOCOMMIT"} if self.engine.name == "postgresql" else {"coalq_reads": True}

        def attempt() -> T:
            with self.engine.connect() as connection:
                return work(connection.execution_options(**options))

        return self._persist(attempt)

    def _persist(self, attempt: Callable[[], T]) -> T:
        deadline = None if self._patience_s is None else time.monotonic() + self._patience_s
        longest = _FIRST_WAIT_S
        while True:
            try:
                return attempt()
            except SQLAlchemyError as error:
                if not may_pass(error):
                    raise
                wait_s = random.uniform(0, longest)  # noqa: S311 - spreads retries, guards nothing
                longest = min(2 * longest, _LONGEST_WAIT_S)
                if deadline is not None and time.monotonic() + wait_s > deadline:
                    url = shown_url(self.engine.url)
                    raise TransientError(f"the database {url} does not answer: {reason_of(error)}") from error
            time.sleep(wait_s)


def may_pass(error: SQLAlchemyError) -> bool:
    """Whether the same transaction may succeed later: deadlock, serialisation, lock, connection, full disk."""
    if isinstance(error, PoolTimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        code = getattr(error.orig, "sqlite_errorcode", None)
        return code is not None and code & 0xFF in _PASSING_SQLITE_CODES
    wrong = isinstance(error, DataError | IntegrityError | ProgrammingError | NotSupportedError)
    return error.connection_invalidated or not wrong
