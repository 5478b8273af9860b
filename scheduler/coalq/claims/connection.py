"""Opens Redis for claims, and checks before anything else that the server is of a kind that works."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry as PlainRetry

from coalq.errors import InputError, NotBuiltError, ServerError
from coalq.settings import mask_password

OLDEST_VERSION = (6, 2)

_CHECK_S = 9.0
"""All of `check_redis`, also where a name server does not answer: the user is told within ten seconds."""

_ALLOWED = "redis://[user:password@]host[:port][/database] or rediss://… (TLS)"


def open_redis(url: str) -> redis.asyncio.Redis:
    """A client whose calls end: 3 s without an answer, then three more tries. Connects at its first call.

    Raises:
        InputError: The URL cannot be read.
    """
    _check_url(url)
    return redis.asyncio.Redis.from_url(
        url,
        socket_connect_timeout=3,
        socket_timeout=3,
        socket_keepalive=True,
        health_check_interval=25,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.1), 3),
        protocol=2,
        decode_responses=True,
    )


def check_redis(url: str) -> None:
    """Connect to the server once and ask what it is. Takes ten seconds at most.

    Raises:
        InputError: The URL cannot be read.
        NotBuiltError: It names a Sentinel.
        ServerError: The server does not answer, refuses us, is a cluster or too old. The password is masked.
    """
    _check_url(url)
    answers: list[Mapping[str, Any] | Exception] = []
    # In a thread that is left behind if need be: looking a host name up cannot be given a time limit.
    asking = threading.Thread(target=lambda: answers.append(_ask_server(url)), daemon=True, name="coalq-check-redis")
    asking.start()
    asking.join(_CHECK_S)
    named = f"COALQ_REDIS_URL: {mask_password(url)}"
    if not answers:
        raise ServerError(f"{named}: the server does not answer within {_CHECK_S:.0f} s")
    answer = answers[0]
    if isinstance(answer, Exception):
        raise ServerError(f"{named}: cannot use the server: {answer}") from answer
    _check_kind(answer, named)


def _ask_server(url: str) -> Mapping[str, Any] | Exception:
    client = redis.Redis.from_url(
        url, socket_connect_timeout=3, socket_timeout=3, retry=PlainRetry(NoBackoff(), 0), protocol=2
    )
    try:
        with client:
            answer: Mapping[str, Any] = client.info()
            return answer
    except (redis.RedisError, OSError, ValueError) as error:
        return error


def _check_kind(server: Mapping[str, Any], named: str) -> None:
    mode = str(server.get("redis_mode", "standalone"))
    if mode == "cluster" or str(server.get("cluster_enabled", 0)) == "1":
        raise ServerError(
            f"{named}: this is a Redis Cluster, which Celery cannot use; use a standalone Redis or Valkey"
        )
    if mode == "sentinel":
        raise ServerError(f"{named}: this is a Sentinel, not a Redis; name the Redis or Valkey server itself")
    version = str(server.get("redis_version", ""))
    if _version_numbers(version) < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        raise ServerError(f"{named}: the server is of version {version or 'unknown'}; at least {oldest} is needed")


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_broken = "@" in parts.path + parts.query + parts.fragment or parts.port == 0
    except ValueError:
        is_broken = True
    if is_broken:
        # Not shown, not even in part: it may be a piece of the password that was taken for a port.
        raise InputError(
            f"COALQ_REDIS_URL: not a URL; allowed is {_ALLOWED}, with /, #, ? and @ in a password written as "
            "%2F, %23, %3F and %40"
        )
    shown = mask_password(url)
    if parts.scheme in {"sentinel", "redis+sentinel"}:
        raise NotBuiltError(f"COALQ_REDIS_URL: {shown}: Sentinel is not built yet; allowed is {_ALLOWED}")
    if parts.scheme not in {"redis", "rediss"} or not parts.hostname:
        raise InputError(f"COALQ_REDIS_URL: {shown!r} is not the URL of a Redis; allowed is {_ALLOWED}")
    database = parts.path.strip("/")
    if database and not database.isdecimal():
        raise InputError(f"COALQ_REDIS_URL: {shown}: the database must be a number, not {database!r}")
