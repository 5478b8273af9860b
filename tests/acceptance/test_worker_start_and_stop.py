"""A worker that cannot work says why at once; one that stops does so in time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cluster import WORKER, Cluster, game
from servers import ValkeyServer

MODEL = "additive:1,2,4,8"


def start_badly(cluster: Cluster, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WORKER, *arguments],
        env=cluster.environment(**changes),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"BACKEND": "openai"}, "COALQ_BASE_URL: not set"),
        ({"BACKEND": "openai", "BASE_URL": "gpu1:8000"}, "COALQ_BASE_URL: 'gpu1:8000' is not an http://"),
        ({"BACKEND": "openai", "BASE_URL": "http://u:hush@h/v1", "API_KEY": "hush"}, "COALQ_BASE_URL holds a login"),
        ({"MODELS": ""}, "COALQ_MODELS: the toy backend needs"),
        ({"LEASE_S": "soon"}, "COALQ_LEASE_S: 'soon'"),
        ({"REDIS_URL": ""}, "COALQ_REDIS_URL: not set"),
    ],
)
def test_a_worker_that_could_never_work_says_why_in_one_line(
    redis_url: str, sqlite_url: str, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    with Cluster(redis_url, sqlite_url, tmp_path, MODELS=MODEL) as cluster:
        ended = start_badly(cluster, **changes)

    assert ended.returncode == 2, ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("coalq: error:")]
    assert said in line
    assert "Traceback" not in ended.stderr
    assert "hush" not in ended.stderr + ended.stdout


@pytest.mark.timeout(120)
def test_a_pool_that_cannot_run_the_event_loop_is_refused(redis_url: str, sqlite_url: str, tmp_path: Path) -> None:
    with Cluster(redis_url, sqlite_url, tmp_path, MODELS=MODEL) as cluster:
        ended = start_badly(cluster, "--pool", "solo")

    assert ended.returncode == 2
    assert "solo" in ended.stderr


@pytest.mark.timeout(120)
def test_what_is_still_in_flight_when_the_drain_time_is_over_is_handed_back(
    redis_url: str, archive_url: str, tmp_path: Path
) -> None:
    with Cluster(redis_url, archive_url, tmp_path, LEASE_S="300", DRAIN_S="1", TOY_LATENCY_MS="600000") as cluster:
        worker = cluster.start_worker(MODEL)
        with cluster.producer() as producer:
            run = producer.submit("p0 p1 p2 p3", game(MODEL))
            cluster.wait_until(lambda: run.progress().groups_executing == 1, "the base group is executing")

            code = worker.stop(within_s=20)

            progress = run.progress()
    assert code == 0
    assert (progress.groups_executing, progress.groups_waiting, progress.done) == (0, 1, 0)


@pytest.mark.timeout(120)
def test_a_worker_whose_broker_is_gone_still_stops(sqlite_url: str, tmp_path: Path) -> None:
    with ValkeyServer() as valkey, Cluster(valkey.url, sqlite_url, tmp_path, DRAIN_S="1") as cluster:
        worker = cluster.start_worker(MODEL)
        valkey.kill()
        cluster.wait_until(lambda: "refused" in worker.output(), "the worker notices")

        assert worker.stop(within_s=60) == 0
