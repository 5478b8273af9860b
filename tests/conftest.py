"""Fixtures every test may ask for: databases with the schema in place, and an empty Valkey."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from sqlalchemy import Engine, text

from coalq.archive.archive import Archive
from coalq.archive.engine import open_engine
from coalq.archive.schema import upgrade
from coalq.identity import new_id
from servers import PostgresServer, ValkeyServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL for all tests of this process."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """The name of a database that holds the schema and that nobody is connected to."""
    upgrade(postgres_server.create_database("archive_template"))
    return "archive_template"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file that holds the schema and that nobody has open."""
    path = tmp_path_factory.mktemp("template") / "archive.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh PostgreSQL database without any table."""
    name = f"test_{uuid.uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A fresh PostgreSQL archive with an id of its own."""
    name = f"test_{uuid.uuid4().hex}"
    url = postgres_server.create_database(name, template=postgres_template)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE archive_identity SET archive_id = %s", [new_id()])
    yield url
    postgres_server.drop_database(name)


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'empty.db'}"


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    """A fresh SQLite archive with an id of its own."""
    url = f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'archive.db')}"
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE archive_identity SET archive_id = :id"), {"id": new_id()})
    engine.dispose()
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def archive_url(request: pytest.FixtureRequest) -> str:
    """A fresh archive on each database in turn."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest) -> str:
    """A fresh database without any table, on each database in turn."""
    url: str = request.getfixturevalue("empty_sqlite_url" if request.param == "sqlite" else "empty_postgres_url")
    return url


@pytest.fixture
def engine(archive_url: str) -> Iterator[Engine]:
    """An engine on a fresh archive, on each database in turn."""
    engine = open_engine(archive_url)
    yield engine
    engine.dispose()


@pytest.fixture
def archive(engine: Engine) -> Archive:
    """A fresh archive, on each database in turn."""
    return Archive(engine)


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    """One Valkey for all tests of this process. A test that kills it starts its own instead."""
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def redis_url(valkey_server: ValkeyServer) -> str:
    """The URL of an empty Valkey."""
    with redis.Redis.from_url(valkey_server.url) as client:
        client.flushall()
    return valkey_server.url
