"""Flower as users run it, over its HTTP API: workers, and groups with readable arguments."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cluster import Cluster, game
from coalq.outcome import RunStatus
from servers import free_port
from waiting import wait_until

MODEL = "additive:1,2,4,8"
LOGIN = {"Authorization": aiohttp.encode_basic_auth("user", "secret")}


def get(url: str, *, headers: dict[str, str] = LOGIN) -> tuple[int, Any]:
    """Status and parsed JSON of one request; (0, None) while nobody listens."""

    async def ask() -> tuple[int, Any]:
        async with aiohttp.ClientSession(headers=headers) as session:
            try:
                async with session.get(url) as response:
                    return response.status, await response.json() if response.status == 200 else None
            except aiohttp.ClientConnectionError:
                return 0, None

    return asyncio.run(ask())


@contextmanager
def running_flower(cluster: Cluster, log: Path) -> Iterator[str]:
    """Flower on a free loopback port; gives its URL."""
    port = free_port()
    command = [sys.executable, "-m", "celery", "-A", "coalq_workers", "flower", "--address=127.0.0.1"]
    options = [f"--port={port}", "--basic-auth=user:secret"]
    with log.open("wb") as output:
        flower = subprocess.Popen(
            [*command, *options], env=cluster.environment(), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: get(f"{url}/api/workers")[0] == 200, "Flower answers")
        yield url
    finally:
        flower.terminate()
        flower.wait(20)


@pytest.mark.timeout(120)
def test_flower_shows_workers_and_groups_with_readable_arguments(
    redis_url: str, sqlite_url: str, tmp_path: Path
) -> None:
    with (
        Cluster(redis_url, sqlite_url, tmp_path) as cluster,
        running_flower(cluster, tmp_path / "flower.log") as url,
    ):
        cluster.start_worker(MODEL)
        cluster.start_worker(MODEL)
        wait_until(lambda: len(get(f"{url}/api/workers?refresh=1")[1]) == 2, "Flower knows both workers")
        with cluster.producer() as producer:
            run = producer.submit("p0 p1 p2 p3", game(MODEL, group_size=8))
            assert run.wait(timeout=50) is RunStatus.COMPLETE

        def groups() -> dict[str, dict[str, Any]]:
            tasks: dict[str, dict[str, Any]] = get(f"{url}/api/tasks")[1]
            return {task["args"]: task for task in tasks.values() if task["state"] == "SUCCESS"}

        wait_until(lambda: len(groups()) == 3, "Flower has heard of all groups")
        shown = groups()

        assert all(
            re.fullmatch(rf"run={run.id[:8]} group=\d+(/\d+)? coalitions=\d+ prefix=[0-9a-f]{{8}}", line)
            for line in shown
        ), shown
        results = {task["result"] for task in shown.values()}
        assert "'executed=2 cache_hits=0 deduplicated=0 failed=0'" in results
        assert all(task["name"] == "coalq.evaluate_group" for task in shown.values())
        assert all(name.startswith("coalq-") for name in get(f"{url}/api/workers")[1])


@pytest.mark.timeout(120)
def test_flower_tells_nothing_without_the_login(redis_url: str, sqlite_url: str, tmp_path: Path) -> None:
    with (
        Cluster(redis_url, sqlite_url, tmp_path) as cluster,
        running_flower(cluster, tmp_path / "flower.log") as url,
    ):
        assert get(f"{url}/api/tasks", headers={})[0] == 401
