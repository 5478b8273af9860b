"""Endpoints that never answer, reject everything or come late, through real workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from chat_endpoint import ChatEndpoint, completion
from cluster import Cluster
from coalq.config import RunConfig
from coalq.errors import RunFailedError
from coalq.outcome import RunStatus
from endpoint_thread import EndpointThread
from servers import free_port

PROMPT = "Say yes. Say no."
CONFIG = RunConfig(model="m", value="contains:yes")


@pytest.mark.timeout(120)
def test_a_dead_endpoint_ends_the_run_with_its_own_message_and_no_further_group(
    redis_url: str, sqlite_url: str, tmp_path: Path
) -> None:
    base_url = f"http://127.0.0.1:{free_port()}/v1"
    with Cluster(
        redis_url, sqlite_url, tmp_path, BACKEND="openai", BASE_URL=base_url, ENDPOINT_WAIT_S="1.5"
    ) as cluster:
        cluster.start_worker("m")
        with cluster.producer() as producer:
            run = producer.submit(PROMPT, CONFIG)
            status = run.wait(timeout=60)

            assert status is RunStatus.INCOMPLETE
            assert base_url in (run.row().reason or "")
            assert run.row().plan_closed is False
            assert run.progress().done == 2
            with pytest.raises(RunFailedError, match="is incomplete"):
                run.attribution()


@pytest.mark.timeout(120)
def test_a_rejected_request_ends_the_run_after_one_call(redis_url: str, sqlite_url: str, tmp_path: Path) -> None:
    async def reject(_: dict[str, Any]) -> web.Response:
        return web.json_response({"error": {"message": "the context is too long"}}, status=400)

    with (
        EndpointThread(ChatEndpoint(reject)) as endpoint,
        Cluster(redis_url, sqlite_url, tmp_path, BACKEND="openai", BASE_URL=endpoint.url) as cluster,
    ):
        cluster.start_worker("m")
        with cluster.producer() as producer:
            run = producer.submit(PROMPT, CONFIG)
            status = run.wait(timeout=60)

            assert status is RunStatus.INCOMPLETE
            assert "HTTP 400: the context is too long" in (run.row().reason or "")
        assert len(endpoint.bodies) == 1


@pytest.mark.timeout(120)
def test_one_rejected_coalition_fails_alone_and_the_run_goes_on(
    redis_url: str, archive_url: str, tmp_path: Path
) -> None:
    async def reject_the_second_alone(body: dict[str, Any]) -> web.Response:
        text = body["messages"][0]["content"]
        if text == "Say no.":
            return web.json_response({"error": {"message": "not this one"}}, status=400)
        return completion("yes" if "yes" in text else "nothing")

    with (
        EndpointThread(ChatEndpoint(reject_the_second_alone)) as endpoint,
        Cluster(redis_url, archive_url, tmp_path, BACKEND="openai", BASE_URL=endpoint.url) as cluster,
    ):
        cluster.start_worker("m")
        with cluster.producer() as producer:
            run = producer.submit(PROMPT, CONFIG)
            status = run.wait(timeout=60)
            progress = run.progress()

            assert status is RunStatus.INCOMPLETE
            assert (progress.executed, progress.failed, progress.done) == (3, 1, 4)
            with pytest.raises(RunFailedError):
                run.attribution()


@pytest.mark.timeout(120)
def test_an_endpoint_that_fails_at_first_costs_no_record(redis_url: str, sqlite_url: str, tmp_path: Path) -> None:
    failures = iter(range(3))

    async def fail_thrice(body: dict[str, Any]) -> web.Response:
        if next(failures, None) is not None:
            return web.json_response({"error": {"message": "loading"}}, status=503)
        return completion("yes" if "yes" in body["messages"][0]["content"] else "no")

    with (
        EndpointThread(ChatEndpoint(fail_thrice)) as endpoint,
        Cluster(redis_url, sqlite_url, tmp_path, BACKEND="openai", BASE_URL=endpoint.url) as cluster,
    ):
        cluster.start_worker("m")
        with cluster.producer() as producer:
            run = producer.submit(PROMPT, CONFIG)

            assert run.wait(timeout=60) is RunStatus.COMPLETE
            assert run.attribution().values == pytest.approx([1, 0], abs=1e-12)
        assert len(endpoint.bodies) == 4 + 3
