"""Opens the database: URL rules, connection settings, and how SQLite begins a transaction."""

from __future__ import annotations

import sqlite3

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry

from coalq.errors import InputError, ServerError

_ALLOWED = "allowed: postgresql://user:password@host/name (through psycopg 3) or sqlite:///path/to/file.db"

_POSTGRES_SETTINGS = {
    "connect_timeout": 3,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 5000,
    "application_name": "coalq",
}
# A process frozen inside a transaction would keep its group rows locked: the server ends such a session.
_POSTGRES_OPTIONS = "-c statement_timeout=10s -c lock_timeout=5s -c idle_in_transaction_session_timeout=10s"

_SQLITE_BUSY_TIMEOUT_S = 10.0


def open_engine(url: str) -> Engine:
    """Open the archive's database and make sure that it answers.

    Raises:
        InputError: If the URL is none, or not of PostgreSQL or an SQLite file.
        ServerError: If the database cannot be reached within 10 s. Never shows a password.
    """
    parsed = parse_url(url)
    engine = _sqlite_engine(parsed) if parsed.get_backend_name() == "sqlite" else _postgres_engine(parsed)
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
    except DBAPIError as error:
        engine.dispose()
        raise ServerError(f"cannot use the database {shown_url(parsed)}: {reason_of(error)}") from error
    return engine


def parse_url(url: str) -> URL:
    """The URL with the one driver that coalq uses for its kind of database.

    Raises:
        InputError: Names COALQ_DATABASE_URL and what is allowed.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        # Not the URL itself: one that cannot be parsed may hold a password anywhere.
        raise InputError(f"COALQ_DATABASE_URL is not a database URL; {_ALLOWED}") from error
    if parsed.drivername in {"postgresql", "postgres", "postgresql+psycopg"}:
        if "@" in (parsed.database or "") or "@" in (parsed.host or ""):
            # A piece of the password was read as something else, and would be shown as such.
            raise InputError(
                "COALQ_DATABASE_URL: user and password must not hold @, /, ? or # as they are; write %40, %2F, %3F, %23"
            )
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in {"sqlite", "sqlite+pysqlite"}:
        raise InputError(f"COALQ_DATABASE_URL: {shown_url(parsed)}: unsupported {parsed.drivername!r}; {_ALLOWED}")
    if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:"):
        raise InputError(f"COALQ_DATABASE_URL: {shown_url(parsed)}: SQLite needs the path of a file; {_ALLOWED}")
    return parsed.set(drivername="sqlite")


def shown_url(url: URL) -> str:
    """The URL for messages and logs, every password in it replaced."""
    if "password" in url.query:
        url = url.update_query_dict({"password": "***"})
    return url.render_as_string(hide_password=True)


def reason_of(error: BaseException) -> str:
    """The database's own words in one line, without the statement or its parameters."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    words = " ".join(str(cause).split())
    return words or type(cause).__name__


def is_postgres(connection: Connection) -> bool:
    """Whether the connection is one to PostgreSQL."""
    return connection.dialect.name == "postgresql"


def _postgres_engine(url: URL) -> Engine:
    settings = {name: value for name, value in _POSTGRES_SETTINGS.items() if name not in url.query}
    own = url.query.get("options", "")
    settings["options"] = f"{_POSTGRES_OPTIONS} {own if isinstance(own, str) else ' '.join(own)}".strip()
    return create_engine(
        url,
        connect_args=settings,
        pool_size=4,
        max_overflow=0,
        pool_timeout=5,
        # The guards of this package rely on a blocked UPDATE seeing what the one before it committed.
        isolation_level="READ COMMITTED",
        # Parameters hold prompts and answers; an error must not print them.
        hide_parameters=True,
    )


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(
        url,
        connect_args={"timeout": _SQLITE_BUSY_TIMEOUT_S},
        pool_size=4,
        max_overflow=0,
        pool_timeout=5,
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # BEGIN is ours, see _begin
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            connection.execute("PRAGMA journal_mode = WAL")
        # FULL: a commit survives a power cut. A flush is one commit, so this costs one sync per 256 records.
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A writer that began as a reader fails at once, without waiting, when somebody else wrote in between.
        reads = connection.get_execution_options().get("coalq_reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine
