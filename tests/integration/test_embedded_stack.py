from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from coalq.archive import upgrade
from coalq.errors import RunFailedError, ServerError
from coalq.local import EmbeddedStack, StackOptions, find_model
from embedded import is_alive, running_parent
from waiting import wait_until

pytestmark = pytest.mark.model


@pytest.fixture
def options(tmp_path: Path) -> StackOptions:
    bundled = find_model()
    return StackOptions(
        log_dir=tmp_path,
        local_id="test",
        archive_url=f"sqlite:///{tmp_path / 'archive.db'}",
        model=bundled.name,
        model_path=bundled.path,
        with_worker=False,
    )


def test_the_stack_serves_a_broker_and_the_bundled_model_and_leaves_nothing(options: StackOptions) -> None:
    with EmbeddedStack(options) as stack:
        numbers = [stack.supervisor_number, *stack.ready.process_numbers.values()]
        with redis.Redis.from_url(stack.ready.redis_url) as client:
            policy = client.config_get("maxmemory-policy")
        with urllib.request.urlopen(f"{stack.ready.base_url}/models", timeout=10) as reply:  # noqa: S310
            served = [model["id"] for model in json.load(reply)["data"]]
        identity = stack.ready.identity
        stack.check()

    assert policy == {"maxmemory-policy": "noeviction"}
    assert served == ["smollm2-135m-instruct"]
    assert identity is not None
    assert identity.startswith("smollm2-135m-instruct@sha256:")
    assert not [number for number in numbers if is_alive(number)]


def test_the_broker_is_closed_to_those_without_its_password(options: StackOptions) -> None:
    with EmbeddedStack(options.model_copy(update={"model_path": None})) as stack:
        port = int(stack.ready.redis_url.rpartition(":")[2].partition("/")[0])
        with redis.Redis(port=port, retry=Retry(NoBackoff(), 0)) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()


@pytest.mark.parametrize("end", ["stdin ends", "SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"])
def test_nothing_survives_its_parent(options: StackOptions, end: str) -> None:
    with running_parent(options) as parent:
        assert set(parent.survivors()) == set(parent.numbers)

        if end == "stdin ends":
            assert parent.process.stdin is not None
            parent.process.stdin.close()
        else:
            parent.process.send_signal(signal.Signals[end])

        wait_until(lambda: not parent.survivors(), f"nothing runs after {end}")


def test_a_signal_to_the_supervisor_stops_everything(options: StackOptions) -> None:
    with running_parent(options) as parent:
        os.kill(parent.supervisor, signal.SIGTERM)

        wait_until(lambda: not parent.survivors(), "nothing runs after SIGTERM")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children that their parent died")
def test_nothing_survives_a_killed_supervisor(options: StackOptions) -> None:
    with running_parent(options) as parent:
        os.kill(parent.supervisor, signal.SIGKILL)

        wait_until(lambda: not parent.survivors(), "nothing runs after SIGKILL")


@pytest.mark.parametrize("name", ["valkey", "model"])
def test_a_child_that_dies_is_reported_with_the_end_of_its_log(options: StackOptions, name: str) -> None:
    with EmbeddedStack(options) as stack:
        numbers = stack.ready.process_numbers

        os.kill(numbers[name], signal.SIGKILL)

        wait_until(lambda: not any(map(is_alive, numbers.values())), "the rest is stopped")
        wait_until(lambda: not is_alive(stack.supervisor_number), "the supervisor ends")
        for _ in range(2):
            with pytest.raises(RunFailedError, match=rf"embedded {name} was killed by signal 9.*log:\n  \| "):
                stack.check()


def test_a_model_that_cannot_be_loaded_is_an_error_that_shows_the_log(options: StackOptions, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"not a model")

    with pytest.raises(ServerError, match=r"the embedded model ended with exit code 2") as failure:
        EmbeddedStack(options.model_copy(update={"model_path": broken})).__enter__()

    assert "broken.gguf cannot be served" in str(failure.value)


def test_a_taken_port_is_left_to_its_owner(options: StackOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import coalq.local.valkey as v, coalq.local.supervisor as s, sys\n"
        "ports = iter([int(sys.argv.pop()), v.free_port()])\n"
        "s.ValkeyPlace = lambda: v.ValkeyPlace(port=next(ports))\n"
        "sys.exit(s.main())\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, "-c", script, str(taken.getsockname()[1])]
        told = options.model_copy(update={"model_path": None}).model_dump_json()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as supervisor:
            assert supervisor.stdin is not None
            assert supervisor.stdout is not None
            supervisor.stdin.write(told.encode() + b"\n")
            supervisor.stdin.flush()

            ready = json.loads(supervisor.stdout.readline())

            supervisor.stdin.close()
            assert supervisor.wait(20) == 0
    assert ready["event"] == "ready"


def test_a_parent_that_dies_before_it_tells_the_options_gets_nothing_started(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "coalq.local.supervisor"]

    ended = subprocess.run(command, input=b'{"log_dir":', capture_output=True, cwd=tmp_path, check=False, timeout=20)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_a_worker_that_refuses_its_configuration_is_told_in_its_own_words(
    options: StackOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade(options.archive_url)
    monkeypatch.setenv("COALQ_BACKEND", "toy")
    refused = options.model_copy(update={"model": "additive:x", "model_path": None, "with_worker": True})
    with EmbeddedStack(refused) as stack:

        def ended() -> bool:
            try:
                stack.check()
            except ServerError as error:
                told.append(str(error))
            return bool(told)

        told: list[str] = []
        wait_until(ended, "the worker refuses to start", within_s=40)

    assert told[0].startswith("toy model 'additive:x': 'x' is not a number; allowed are ")
    assert "\n" not in told[0]
