"""Whoever dies in the middle of a run: it completes, once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from sqlalchemy import text

from cluster import Cluster, game
from coalq.archive import open_engine
from coalq.outcome import RunStatus
from coalq.run import Run
from servers import ValkeyServer

MODEL = "additive:1,2,4,8,16,32"
PROMPT = "p0 p1 p2 p3 p4 p5"
VALUES = [1, 2, 4, 8, 16, 32]

SUBMIT = f"""
import os, signal, sys
from cluster import game
from coalq.producer import Producer
run = Producer().submit({PROMPT!r}, game({MODEL!r}, group_size=4))
print(run.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def counts(database_url: str, run_id: str) -> tuple[int, int, int]:
    """Records of the run, its executed ones, and all generations there are."""
    statement = (
        "SELECT count(*), coalesce(sum(CASE WHEN outcome = 'executed' THEN 1 ELSE 0 END), 0), "
        "(SELECT count(*) FROM generations) FROM records WHERE run_id = :run"
    )
    engine = open_engine(database_url)
    try:
        with engine.connect() as connection:
            records, executed, generations = connection.execute(text(statement), {"run": run_id}).one()
            return records, executed, generations
    finally:
        engine.dispose()


def assert_complete_once(cluster: Cluster, database_url: str, run_id: str) -> None:
    cluster.wait_until(lambda: cluster.archive.run(run_id).status is not RunStatus.RUNNING, "the run ends", within_s=60)
    run = Run(cluster.archive, run_id)
    assert run.status is RunStatus.COMPLETE
    assert run.attribution().values == pytest.approx(VALUES, abs=1e-12)
    assert counts(database_url, run_id) == (64, 64, 64)


@pytest.mark.timeout(180)
def test_a_run_whose_producer_was_killed_after_submit_is_finished_by_the_workers(
    redis_url: str, archive_url: str, tmp_path: Path
) -> None:
    with Cluster(redis_url, archive_url, tmp_path) as cluster:
        submitting = subprocess.run(
            [sys.executable, "-c", SUBMIT],
            env=cluster.environment() | {"PYTHONPATH": str(Path(__file__).parent.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert submitting.returncode == -signal.SIGKILL, submitting.stderr
        run_id = submitting.stdout.strip()
        assert cluster.archive.progress(run_id).done == 0

        cluster.start_worker(MODEL)

        assert_complete_once(cluster, archive_url, run_id)


@pytest.mark.timeout(180)
def test_the_groups_of_a_killed_worker_are_run_by_another(redis_url: str, archive_url: str, tmp_path: Path) -> None:
    with Cluster(redis_url, archive_url, tmp_path, LEASE_S="2", TOY_LATENCY_MS="150", MAX_INFLIGHT="2") as cluster:
        doomed = cluster.start_worker(MODEL)
        with cluster.producer() as producer:
            run_id = producer.submit(PROMPT, game(MODEL, group_size=8)).id
        cluster.wait_until(lambda: cluster.archive.progress(run_id).done >= 6, "some coalitions are recorded")

        doomed.kill()
        before = cluster.archive.progress(run_id)
        cluster.start_worker(MODEL)

        assert before.done < 64
        assert_complete_once(cluster, archive_url, run_id)


@pytest.mark.timeout(180)
def test_a_stopping_worker_finishes_what_is_in_flight_hands_back_the_rest_and_exits_with_0(
    redis_url: str, archive_url: str, tmp_path: Path
) -> None:
    # A lease that outlasts the test: only handing back lets the second worker go on.
    with Cluster(redis_url, archive_url, tmp_path, LEASE_S="300", TOY_LATENCY_MS="150", MAX_INFLIGHT="2") as cluster:
        leaving = cluster.start_worker(MODEL)
        with cluster.producer() as producer:
            run_id = producer.submit(PROMPT, game(MODEL, group_size=16)).id
        cluster.wait_until(lambda: cluster.archive.progress(run_id).done >= 6, "some coalitions are recorded")

        code = leaving.stop()
        progress = cluster.archive.progress(run_id)
        cluster.start_worker(MODEL)

        assert code == 0
        assert (progress.groups_executing, progress.failed) == (0, 0)
        assert 6 <= progress.done < 64
        assert_complete_once(cluster, archive_url, run_id)


@pytest.mark.timeout(180)
def test_an_emptied_broker_loses_no_group(archive_url: str, redis_url: str, tmp_path: Path) -> None:
    with Cluster(redis_url, archive_url, tmp_path, LEASE_S="2") as cluster:
        with cluster.producer() as producer:
            run_id = producer.submit(PROMPT, game(MODEL, group_size=8)).id
        with redis.Redis.from_url(redis_url) as client:
            assert client.dbsize() > 0
            client.flushall()

        cluster.start_worker(MODEL)

        assert_complete_once(cluster, archive_url, run_id)


@pytest.mark.timeout(180)
def test_a_broker_that_dies_under_a_busy_worker_and_comes_back_empty_costs_nothing(
    archive_url: str, tmp_path: Path
) -> None:
    with (
        ValkeyServer() as valkey,
        Cluster(valkey.url, archive_url, tmp_path, LEASE_S="2", TOY_LATENCY_MS="150", MAX_INFLIGHT="2") as cluster,
    ):
        worker = cluster.start_worker(MODEL)
        with cluster.producer() as producer:
            run_id = producer.submit(PROMPT, game(MODEL, group_size=4)).id
        cluster.wait_until(lambda: cluster.archive.progress(run_id).done >= 6, "some coalitions are recorded")

        valkey.kill()
        cluster.wait_until(lambda: "onnection to broker lost" in worker.output(), "the worker notices")
        valkey.start()

        assert_complete_once(cluster, archive_url, run_id)
        assert worker.process.poll() is None
        assert worker.stop() == 0
