"""Alembic migrations of the archive, packaged so that `coalq db upgrade` finds them."""
