"""The folder COALQ_HOME: whether the embedded archive can be made there, and whether there is one."""

from __future__ import annotations

import os
import tempfile

from coalq.errors import InputError
from coalq.settings import Settings


def prepare_home(settings: Settings) -> None:
    """Make the folder, and make sure that an archive and logs can be written there.

    Raises:
        InputError: Names COALQ_HOME and the reason.
    """
    home = settings.home
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
        archive = home.resolve() / "archive.db"
        if archive.exists() and not os.access(archive, os.R_OK | os.W_OK):
            raise PermissionError(None, "archive.db in it cannot be written")
    except (OSError, RuntimeError) as error:  # RuntimeError: links that go round in a circle
        raise _unusable(settings, error) from error


def lacks_archive(settings: Settings) -> bool:
    """Whether the archive is the embedded one and was never made.

    Raises:
        InputError: COALQ_HOME is not a folder, or may not be looked into.
    """
    if settings.database_url is not None:
        return False
    home = settings.home
    try:
        if home.exists() and not home.is_dir():
            raise NotADirectoryError(None, "it is not a folder")
        return not (home / "archive.db").exists()
    except OSError as error:
        raise _unusable(settings, error) from error


def require_shared_archive(settings: Settings) -> None:
    """For commands that work with a Redis of the user's.

    Raises:
        InputError: No database is named, and there is none in COALQ_HOME to stand in for it.
    """
    if settings.redis_url is not None and lacks_archive(settings):
        raise InputError(
            "COALQ_DATABASE_URL: not set; it names the archive that producers and workers share, "
            "e.g. postgresql://user:password@head/coalq, or sqlite:////path/to/archive.db with a Redis on this machine"
        )


def _unusable(settings: Settings, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(
        f"COALQ_HOME: {str(settings.home)!r} cannot be used: {reason}; it must be a folder that can be written to"
    )
