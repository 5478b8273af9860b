from __future__ import annotations

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, select, text

import coalq.archive
from coalq.archive import Archive, check_schema, current, open_engine, upgrade
from coalq.archive.tables import SCHEMA_REVISION, archive_identity, metadata
from coalq.errors import InputError, ServerError
from servers import free_port
from threads import run_together


def test_an_upgrade_makes_a_database_usable(empty_url: str) -> None:
    before = None if empty_url.startswith("sqlite") else current(empty_url)

    upgrade(empty_url)

    engine = open_engine(empty_url)
    check_schema(engine)
    archive = Archive(engine)
    assert (before, current(empty_url), len(archive.archive_id)) == (None, SCHEMA_REVISION, 16)
    archive.close()


def test_upgrading_again_changes_nothing(empty_url: str) -> None:
    upgrade(empty_url)
    first = Archive(open_engine(empty_url))
    archive_id = first.archive_id
    first.close()

    upgrade(empty_url)

    second = Archive(open_engine(empty_url))
    assert second.archive_id == archive_id
    second.close()


def test_processes_that_upgrade_at_once_make_one_archive(empty_url: str) -> None:
    run_together(*[lambda: upgrade(empty_url)] * 4)

    engine = open_engine(empty_url)
    with engine.connect() as connection:
        ids = connection.execute(select(archive_identity.c.archive_id)).scalars().all()
    engine.dispose()
    assert len(ids) == 1


def test_the_migrations_make_the_tables_that_the_code_uses(archive_url: str) -> None:
    engine = open_engine(archive_url)

    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
        views = inspect(connection).get_view_names()

    engine.dispose()
    assert differences == []
    assert views == ["coalition_records"]


def test_the_code_names_the_latest_migration() -> None:
    migrations = Path(coalq.archive.__file__).parent / "migrations"

    assert ScriptDirectory(str(migrations)).get_current_head() == SCHEMA_REVISION


def test_an_upgrade_makes_the_folder_of_its_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a/b/archive.db"

    upgrade(url)

    assert current(url) == SCHEMA_REVISION


@pytest.mark.parametrize(("revision", "told"), [("0000", "old schema 0000"), ("9999", "newer than")])
def test_another_schema_is_refused(archive_url: str, revision: str, told: str) -> None:
    engine = open_engine(archive_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})

    with pytest.raises(ServerError, match=told):
        check_schema(engine)

    engine.dispose()


def test_a_newer_schema_is_not_upgraded(archive_url: str) -> None:
    engine = open_engine(archive_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()

    with pytest.raises(ServerError, match="install a newer coalq"):
        upgrade(archive_url)


def test_a_database_without_an_archive_is_refused_with_the_way_to_make_one(empty_url: str) -> None:
    engine = open_engine(empty_url)

    with pytest.raises(ServerError, match="run `coalq db upgrade`"):
        check_schema(engine)

    engine.dispose()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "not a url",
        "mysql://user:secret@head/name",
        "postgresql+asyncpg://user:secret@head/name",
        "sqlite://",
        "sqlite:///:memory:",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_what_is_allowed(url: str) -> None:
    with pytest.raises(InputError, match=r"COALQ_DATABASE_URL.*allowed: postgresql://") as refused:
        open_engine(url)

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("kind", ["postgresql", "postgres", "postgresql+psycopg"])
def test_an_unreachable_server_is_named_without_its_password(kind: str) -> None:
    url = f"{kind}://user:secret@127.0.0.1:{free_port()}/name?password=secret"

    with pytest.raises(ServerError, match=r"user:\*\*\*@127.0.0.1") as refused:
        open_engine(url)

    assert "secret" not in str(refused.value)


def test_a_folder_that_is_not_there_and_a_file_that_is_no_database_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database, but long enough to have a header")

    for path in ("nowhere/archive.db", "text.db"):
        with pytest.raises(ServerError, match=path):
            open_engine(f"sqlite:///{tmp_path}/{path}")


def test_postgres_connections_carry_their_limits(postgres_url: str) -> None:
    engine = open_engine(postgres_url)
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_isolation")

    with engine.connect() as connection:
        shown = [connection.execute(text(f"SHOW {name}")).scalar_one() for name in names]

    engine.dispose()
    assert shown == ["10s", "5s", "10s", "read committed"]


def test_sqlite_files_are_written_ahead_and_synced(sqlite_url: str) -> None:
    engine = open_engine(sqlite_url)

    with engine.connect() as connection:
        shown = [connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("journal_mode", "synchronous")]

    engine.dispose()
    assert shown == ["wal", 2]


@pytest.mark.parametrize("password", ["SE@CR", "SE/CR@ET", "SE@CR/ET"])
def test_a_password_that_is_not_encoded_is_refused_without_showing_any_of_it(password: str) -> None:
    with pytest.raises(InputError, match="%40") as caught:
        open_engine(f"postgresql://user:{password}@127.0.0.1:1/coalq")

    assert "CR" not in str(caught.value)


def test_a_schema_of_unknown_revision_is_not_upgraded(archive_url: str) -> None:
    engine = open_engine(archive_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    engine.dispose()

    with pytest.raises(ServerError, match="does not know"):
        upgrade(archive_url)
