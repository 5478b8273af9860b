from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from coalq.local import StackOptions, worker_command
from coalq.local.worker_command import embedded_environment
from coalq.settings import Settings

REDIS_URL = "redis://:secret@127.0.0.1:1/0"


@pytest.fixture
def options() -> StackOptions:
    return StackOptions(log_dir=Path("/logs"), local_id="abc", archive_url="sqlite:////a.db", model="additive:1,2")


def test_a_worker_is_celery_with_the_app_and_nothing_that_talks_to_other_workers() -> None:
    command = worker_command(name="gpu1", log_level="DEBUG", extra=["--concurrency", "3"])

    assert command == [
        *(sys.executable, "-m", "celery", "--app", "coalq_workers", "worker"),
        *("--without-gossip", "--without-mingle", "--loglevel", "DEBUG", "--hostname", "gpu1@%h"),
        *("--concurrency", "3"),
    ]


def test_the_embedded_worker_is_connected_to_the_stack(options: StackOptions) -> None:
    environment = embedded_environment({"PATH": "/bin"}, options=options, redis_url=REDIS_URL, base_url=None)

    settings = Settings.load(environment)

    assert environment["PATH"] == "/bin"
    assert settings.redis_url == REDIS_URL
    assert settings.archive_url == "sqlite:////a.db"
    assert settings.local_id == "abc"
    assert settings.models == ("additive:1,2",)
    assert (settings.drain_s, settings.endpoint_wait_s) == (10.0, 30.0)


def test_an_endpoint_of_the_users_own_keeps_its_key(options: StackOptions) -> None:
    own = {"COALQ_BASE_URL": "http://gpu:8000/v1", "COALQ_API_KEY": "secret"}

    settings = Settings.load(embedded_environment(own, options=options, redis_url=REDIS_URL, base_url=None))

    assert settings.base_url == "http://gpu:8000/v1"
    assert settings.api_key is not None


def test_the_bundled_model_gets_no_key_and_as_many_prompts_as_it_decodes_at_once(options: StackOptions) -> None:
    own = {"COALQ_API_KEY": "secret", "COALQ_MAX_INFLIGHT": ""}

    environment = embedded_environment(own, options=options, redis_url=REDIS_URL, base_url="http://127.0.0.1:5/v1")

    settings = Settings.load(environment)
    assert settings.base_url == "http://127.0.0.1:5/v1"
    assert settings.api_key is None
    assert settings.max_inflight == options.parallel
    assert json.loads(environment["COALQ_MODELS"]) == ["additive:1,2"]


def test_a_limit_of_the_users_own_is_kept(options: StackOptions) -> None:
    own = {"COALQ_MAX_INFLIGHT": "2"}

    environment = embedded_environment(own, options=options, redis_url=REDIS_URL, base_url="http://127.0.0.1:5/v1")

    assert environment["COALQ_MAX_INFLIGHT"] == "2"
