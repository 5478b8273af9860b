"""Databases that go away, are locked, or fail for good."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, event, select, text
from sqlalchemy.exc import SQLAlchemyError

from archive_runs import ArchiveRun
from coalq.archive import Archive, open_engine, upgrade
from coalq.archive.clock import now
from coalq.archive.transactions import may_pass
from coalq.errors import TransientError
from coalq.outcome import RunStatus
from servers import PostgresServer
from threads import in_thread


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A PostgreSQL that the test may stop."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def hasty_sqlite(sqlite_url: str) -> Iterator[Engine]:
    """An SQLite engine whose connections wait for a lock for a moment only."""
    engine = open_engine(sqlite_url)
    engine.dispose()

    @event.listens_for(engine, "connect")
    def _hasten(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA busy_timeout = 20")

    yield engine
    engine.dispose()


def test_a_cut_connection_is_not_noticed_by_callers(postgres_url: str) -> None:
    archive = Archive(open_engine(postgres_url))
    run = ArchiveRun.create(archive)
    base = run.start_next()
    other = open_engine(postgres_url)
    with other.connect() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )

    run.flush(run.drafts(base))

    other.dispose()
    assert archive.recorded(run.run_id, 0) == {(b"\x07", 0), (b"\x00", 0)}
    archive.close()


def test_a_flush_waits_for_a_server_that_comes_back(own_server: PostgresServer) -> None:
    url = own_server.create_database("archive")
    upgrade(url)
    archive = Archive(open_engine(url), patience_s=30)
    run = ArchiveRun.create(archive)
    drafts = run.drafts(run.start_next())
    own_server.stop()

    flushed = in_thread(lambda: run.flush(drafts))
    own_server.start()

    assert flushed.result(30).written == {draft.key for draft in drafts}
    archive.close()


def test_a_server_that_stays_away_is_told_after_the_patience_without_a_password(own_server: PostgresServer) -> None:
    url = own_server.create_database("archive").replace("postgres:@", "postgres:secret@")
    upgrade(url)
    archive = Archive(open_engine(url), patience_s=0.2)
    own_server.stop()

    with pytest.raises(TransientError, match=r"postgres:\*\*\*@.* does not answer") as told:
        archive.list_runs()

    assert "secret" not in str(told.value)
    archive.close()


def test_a_locked_file_is_waited_for(sqlite_url: str, hasty_sqlite: Engine) -> None:
    archive = Archive(hasty_sqlite, patience_s=30)
    run = ArchiveRun.create(archive)
    holder = open_engine(sqlite_url)

    with holder.begin():
        paused = in_thread(lambda: archive.pause(run.run_id, "no credit"))
        still_running = run.status

    assert paused.result(30)
    assert (still_running, run.status) == (RunStatus.RUNNING, RunStatus.PAUSED)
    holder.dispose()


def test_a_file_that_stays_locked_is_told_after_the_patience(sqlite_url: str, hasty_sqlite: Engine) -> None:
    archive = Archive(hasty_sqlite, patience_s=0.2)
    run = ArchiveRun.create(archive)
    holder = open_engine(sqlite_url)

    with holder.begin(), pytest.raises(TransientError, match="database is locked"):
        archive.pause(run.run_id, "no credit")

    holder.dispose()


def test_reading_does_not_wait_for_a_writer(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)

    with engine.begin() as connection:
        connection.execute(text("UPDATE runs SET status = 'paused'"))

        assert archive.run(run.run_id).status is RunStatus.RUNNING


def test_a_fault_of_the_statement_is_not_repeated(archive: Archive, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE workers"))

    with pytest.raises(SQLAlchemyError) as fault:
        archive.live_workers()

    assert not may_pass(fault.value)


def test_errors_of_the_database_show_no_prompts_or_answers(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    with engine.begin() as connection:
        connection.execute(text("DROP VIEW coalition_records"))
        connection.execute(text("DROP TABLE generations"))

    with pytest.raises(SQLAlchemyError) as fault:
        run.flush(run.drafts(base, text=lambda _mask, _sample: "the answer is 42"))

    assert "the answer is 42" not in str(fault.value)


def test_the_clock_is_the_databases_and_goes_on_within_a_transaction(archive: Archive, engine: Engine) -> None:
    with engine.begin() as connection:
        first = connection.execute(select(now())).scalar_one()
        ticks = 0
        while connection.execute(select(now())).scalar_one() <= first:
            ticks += 1
            assert ticks < 1_000_000
