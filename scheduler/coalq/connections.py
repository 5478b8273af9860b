"""Opens the servers that the settings name, and refuses combinations that cannot work, before anything is enqueued."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from coalq.archive import Archive, check_schema, open_engine
from coalq.claims import check_redis
from coalq.errors import InputError, ServerError
from coalq.settings import Settings, mask_password


def open_archive(settings: Settings) -> Archive:
    """The archive, reachable and of this version's schema.

    Raises:
        ServerError: If it cannot be reached within ten seconds, or its schema is another version's.
    """
    engine = open_engine(settings.archive_url)
    try:
        check_schema(engine)
        return Archive(engine)
    except BaseException:
        engine.dispose()
        raise


def check_broker(settings: Settings) -> str:
    """The Redis URL, after checking that the server can be used.

    Raises:
        InputError: If none is configured, or it is on another machine while the archive is a local SQLite file.
        ServerError: If it cannot be reached within ten seconds or is of a kind that does not work.
    """
    if settings.redis_url is None:
        raise InputError(
            "COALQ_REDIS_URL: not set; it names the Redis or Valkey that producers and workers share, "
            "e.g. redis://:password@head:6379/0"
        )
    _refuse_remote_redis_with_sqlite(settings)
    check_redis(settings.redis_url)
    return settings.redis_url


def _refuse_remote_redis_with_sqlite(settings: Settings) -> None:
    if not settings.archive_url.startswith("sqlite") or settings.redis_url is None:
        return
    host = urlsplit(settings.redis_url).hostname
    if host is None or _is_this_machine(host):
        return
    raise InputError(
        f"COALQ_DATABASE_URL: {mask_password(settings.archive_url)!r} is a file on this machine, but COALQ_REDIS_URL "
        f"{mask_password(settings.redis_url)!r} is shared with others, who could not write to it; "
        "use PostgreSQL: postgresql://user:password@head/coalq"
    )


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise ServerError(f"COALQ_REDIS_URL: the host {host!r} is unknown: {error}") from error
    return all(ipaddress.ip_address(str(address)).is_loopback for address in addresses)
