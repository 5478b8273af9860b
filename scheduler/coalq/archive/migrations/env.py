"""Alembic's entry: runs the migrations on the connection that `schema.upgrade` opened and locked."""

from __future__ import annotations

from alembic import context

from coalq.archive.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # The caller's transaction holds the lock and the changes, on SQLite too: all of an upgrade or none of it.
    transactional_ddl=True,
)
context.run_migrations()
