"""Looks at group rows in an archive, and lets time pass for them."""

from __future__ import annotations

from sqlalchemy import Engine, select, update

from archive_runs import LEASE_S, ArchiveRun, make_manifest
from coalq.archive import Archive, Publication, StartedGroup
from coalq.archive.clock import now
from coalq.archive.tables import groups

Attempt = tuple[str, int, int]


def attempt_of(group: Publication | StartedGroup) -> Attempt:
    """What names this publication of the group."""
    return (group.run_id, group.group_number, group.attempt)


def column(engine: Engine, group: Publication | StartedGroup, name: str) -> object:
    """One column of the group's row."""
    with engine.connect() as connection:
        return connection.execute(
            select(groups.c[name]).where(groups.c.run_id == group.run_id, groups.c.group_number == group.group_number)
        ).scalar_one()


def shift(engine: Engine, group: Publication | StartedGroup, **seconds: float) -> None:
    """Set time columns of a group relative to the database's clock."""
    with engine.begin() as connection:
        connection.execute(
            update(groups)
            .where(groups.c.run_id == group.run_id, groups.c.group_number == group.group_number)
            .values(**{name: now() + value for name, value in seconds.items()})
        )


def two_groups(archive: Archive, engine: Engine) -> tuple[ArchiveRun, Publication, Publication]:
    """A run with two published groups of its own besides the finished base group."""
    run = ArchiveRun.create(archive, make_manifest(3, group_size=4))
    base = run.publish()[0]
    run.execute(base)
    shift(engine, base, published_at=-100 * LEASE_S)
    first, second = run.publish()
    return run, first, second
