"""The archive's schema: bring it up to date, tell its revision, refuse one that does not fit."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from coalq.archive.engine import is_postgres, open_engine, parse_url, shown_url
from coalq.archive.tables import SCHEMA_REVISION
from coalq.errors import ServerError

_UPGRADE_LOCK = 7164051968203281  # any number, the same in every version


def upgrade(url: str) -> None:
    """Create the schema or bring it up to date; a no-op if it is. Makes the folder of an SQLite file.

    Several processes may do this at once: the first does it in one transaction, the others wait.

    Raises:
        ServerError: If the schema is newer than this version of coalq, or the database unreachable.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = open_engine(url)
    try:
        with engine.begin() as connection:
            if is_postgres(connection):
                connection.execute(text("SET LOCAL statement_timeout = 0"))
                connection.execute(text("SET LOCAL lock_timeout = 0"))
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _UPGRADE_LOCK})
            revision = _read_revision(connection)
            if revision == SCHEMA_REVISION:
                return
            _refuse_newer(engine, revision)
            if revision is not None and revision not in _known_revisions(connection):
                raise ServerError(
                    f"the database {shown_url(engine.url)} has the schema {revision}, which this coalq does not know"
                )
            command.upgrade(_alembic_config(connection), SCHEMA_REVISION)
    finally:
        engine.dispose()


def current(url: str) -> str | None:
    """The revision of the schema, None if there is none."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return _read_revision(connection)
    finally:
        engine.dispose()


def check_schema(engine: Engine) -> None:
    """Make sure that this version of coalq can work with the schema.

    Raises:
        ServerError: Says what the schema is, what is needed, and how to get there.
    """
    with engine.connect() as connection:
        revision = _read_revision(connection)
    if revision == SCHEMA_REVISION:
        return
    _refuse_newer(engine, revision)
    state = "has no archive yet" if revision is None else f"has the old schema {revision}"
    raise ServerError(
        f"the database {shown_url(engine.url)} {state}, {SCHEMA_REVISION} is needed: run `coalq db upgrade`"
    )


def _known_revisions(connection: Connection) -> set[str]:
    scripts = ScriptDirectory.from_config(_alembic_config(connection))
    return {script.revision for script in scripts.walk_revisions()}


def _refuse_newer(engine: Engine, revision: str | None) -> None:
    # Revisions are numbers with leading zeros, so text order is their order.
    if revision is not None and revision > SCHEMA_REVISION:
        raise ServerError(
            f"the database {shown_url(engine.url)} has the schema {revision}, newer than {SCHEMA_REVISION} of this "
            "coalq: install a newer coalq"
        )


def _read_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return None if found is None else str(found)


def _alembic_config(connection: Connection) -> Config:
    config = Config()
    # The option is read by configparser, which gives % a meaning.
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
