"""One worker process: everything it is connected to, made once at start, and the groups it runs.

Celery's task threads only start a group and wait; all work happens on one event loop, so groups share the in-flight
limit and one group's tail never idles the endpoint.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

from redis.asyncio import Redis

from coalq.archive import Archive, GroupAttempt, StartedGroup, WorkerRow
from coalq.broker import CeleryGroupSender, make_sending_app
from coalq.claims import RedisClaims, SharedClaims, open_redis
from coalq.connections import check_broker, open_archive
from coalq.errors import HandBack, TransientError
from coalq.generation import Generation, GenerationConfig
from coalq.identity import new_id
from coalq.inference import HotResultStore, InferenceScheduler
from coalq.publisher import Publisher
from coalq.settings import Settings
from coalq.wire import GroupMessage, queue_name
from coalq_workers.backends import Backend
from coalq_workers.endpoint import ServedEndpoint, open_backend, wait_for_endpoint
from coalq_workers.executions import Execution, Executions
from coalq_workers.group_run import GroupEnd, GroupRunner
from coalq_workers.loop_thread import LoopThread
from coalq_workers.patience import EndpointHealth
from coalq_workers.upkeep import Upkeep
from coalq_workers.work_threads import WorkThreads
from coalq_workers.writer import RecordWriter

logger = logging.getLogger(__name__)

HOT_GENERATIONS = 8192
"""Generations kept in memory in front of the archive; a few kilobytes each."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """What lives on the event loop."""

    backend: Backend
    served: ServedEndpoint
    health: EndpointHealth
    redis: Redis
    claims: SharedClaims
    writer: RecordWriter
    scheduler: InferenceScheduler
    runner: GroupRunner
    upkeep: Upkeep
    services: tuple[asyncio.Task[None], ...]


class WorkerProcess:
    """Made by `start`; task threads call `evaluate`, Celery's signals call `drain` and `close`."""

    def __init__(self, settings: Settings, archive: Archive, *, redis_url: str) -> None:
        self.process_id = new_id()
        self._settings = settings
        self._archive = archive
        self._sender = CeleryGroupSender(make_sending_app(settings))
        self._threads = WorkThreads()
        self._executions = Executions(lease_s=settings.lease_s)
        self._draining = threading.Event()
        self._loop_thread = LoopThread()
        self._loop: _Loop = self._loop_thread.run(self._open(redis_url))

    @classmethod
    def start(cls, settings: Settings) -> Self:
        """Check and open all servers, find the models to serve, begin the upkeep.

        Raises:
            InputError, ServerError: When this worker could never work; says which variable to look at.
        """
        redis_url = check_broker(settings)
        archive = open_archive(settings)
        return cls(settings, archive, redis_url=redis_url)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues of the models this process serves."""
        return self._queues_of(self._loop.served)

    def __str__(self) -> str:
        served = self._loop.served
        at_most = f"{served.max_inflight} in flight at most"
        return f"process {self.process_id} serves {', '.join(served.models)} at {served.endpoint}, {at_most}"

    def evaluate(self, fields: Mapping[str, object]) -> str:
        """Run the group that a message names; returns a line for people. Stale, doubled and foreign ones do nothing."""
        try:
            message = GroupMessage.decode(fields)
        except ValueError as error:
            logger.warning("dropped a message that is not ours: %s", error)
            return f"dropped: {error}"
        if message.archive_id != self._archive.archive_id:
            logger.error("dropped a message of another archive: %s", message.archive_id)
            return "dropped: another archive"
        return self._loop_thread.run(self._evaluate(message))

    def drain(self) -> None:
        """Start nothing new; what is in flight may end within the drain time. Safe in a signal handler."""
        self._draining.set()
        self._loop_thread.call_soon(self._executions.halt_all, "the worker is stopping")

    def close(self) -> None:
        """Give up everything; groups that are still here have been handed back."""
        self._draining.set()
        self._loop_thread.run(self._close())
        self._loop_thread.stop()
        self._sender.close()
        self._threads.close()
        self._archive.close()

    # --- on the event loop

    async def _open(self, redis_url: str) -> _Loop:
        settings = self._settings
        backend = open_backend(settings)
        served = await wait_for_endpoint(backend, settings)
        health = EndpointHealth()
        redis = open_redis(redis_url)
        claims = SharedClaims(
            RedisClaims(redis, process_id=self.process_id, lease_s=settings.lease_s),
            read=self._read_generations,
            halted=self._draining.is_set,
        )
        writer = RecordWriter(
            self._archive,
            self._threads,
            process_id=self.process_id,
            stopped=self._draining.is_set,
            max_inflight=served.max_inflight,
        )
        store = HotResultStore(maxsize=HOT_GENERATIONS)
        scheduler = InferenceScheduler(served.max_inflight, GenerationConfig(), store, dedup=claims, archive=writer)
        runner = GroupRunner(
            self._archive,
            self._threads,
            backend=backend,
            health=health,
            scheduler=scheduler,
            store=store,
            writer=writer,
            endpoint_wait_s=settings.endpoint_wait_s,
        )
        upkeep = Upkeep(
            self._archive,
            self._threads,
            queues=self._queues_of(served),
            publisher=Publisher(self._archive, self._sender),
            sender=self._sender,
            executions=self._executions,
            process_id=self.process_id,
            lease_s=settings.lease_s,
            describe=lambda: self._describe(served, scheduler, health),
        )
        services = (asyncio.create_task(writer.serve()), asyncio.create_task(upkeep.serve()))
        for service in services:
            service.add_done_callback(_stop_process)
        return _Loop(backend, served, health, redis, claims, writer, scheduler, runner, upkeep, services)

    async def _close(self) -> None:
        loop = self._loop
        for service in loop.services:
            service.cancel()
        await asyncio.gather(*loop.services, return_exceptions=True)
        await loop.claims.close()
        await loop.backend.close()
        await loop.redis.aclose()
        try:
            await self._threads.database(self._archive.forget_worker, self.process_id)
        except TransientError as error:
            logger.warning("%s", error)

    async def _evaluate(self, message: GroupMessage) -> str:
        attempt = GroupAttempt(message.run_id, message.group_number, message.attempt)
        granted_at = self._executions.now()
        group = await self._start(attempt)
        if group is None:
            return "nothing to do: the group is finished, owned or published again"
        execution = self._executions.begin(attempt, granted_at=granted_at)
        try:
            end = await self._run_within_drain_time(group, execution)
            if not end.finished:
                await self._hand_back(execution)
        except (HandBack, TransientError) as error:
            logger.warning("group %s/%d handed back: %s", message.run_id, message.group_number, error)
            await self._hand_back(execution)
            return f"handed back: {error}"
        finally:
            self._executions.end(execution)
            self._loop.upkeep.hurry()
        return str(end)

    async def _start(self, attempt: GroupAttempt) -> StartedGroup | None:
        """Take ownership; a database that is away is waited for, as the message is already acknowledged."""
        while not self._draining.is_set():
            try:
                return await self._threads.database(
                    self._archive.start, *attempt, process_id=self.process_id, lease_s=self._settings.lease_s
                )
            except TransientError as error:
                logger.warning("cannot start a group yet: %s", error)
        await self._threads.database(self._archive.unmark, [attempt])
        return None

    async def _run_within_drain_time(self, group: StartedGroup, execution: Execution) -> GroupEnd:
        """Run the group; once the process drains, cut off what is still in flight when the drain time is over."""
        running = asyncio.create_task(self._loop.runner.run(group, execution))
        cut = asyncio.create_task(self._cut_after_drain(running, execution))
        try:
            return await running
        except asyncio.CancelledError as error:
            raise HandBack("the drain time is over") from error
        finally:
            cut.cancel()

    async def _cut_after_drain(self, running: asyncio.Task[GroupEnd], execution: Execution) -> None:
        await execution.halt.given()
        if self._draining.is_set():
            await asyncio.sleep(self._settings.drain_s)
            running.cancel()

    async def _hand_back(self, execution: Execution) -> None:
        try:
            await self._threads.database(self._archive.hand_back, [execution.attempt], process_id=self.process_id)
        except TransientError as error:
            logger.warning("a group is left to the sweep: %s", error)

    async def _read_generations(self, keys: list[str]) -> dict[str, Generation]:
        return await self._threads.database(self._archive.generations, keys)

    def _queues_of(self, served: ServedEndpoint) -> tuple[str, ...]:
        archive_id, local_id = self._archive.archive_id, self._settings.local_id
        return tuple(queue_name(archive_id, model, local_id=local_id) for model in served.models)

    def _describe(self, served: ServedEndpoint, scheduler: InferenceScheduler, health: EndpointHealth) -> WorkerRow:
        return WorkerRow(
            process_id=self.process_id,
            host=platform.node(),
            version=version("coalq"),
            endpoint=served.endpoint,
            models=served.models,
            in_flight=scheduler.in_flight,
            limit=served.max_inflight,
            last_error=health.last_error,
        )


def _stop_process(service: asyncio.Task[None]) -> None:
    """A service that ends by itself leaves a process that looks alive and does nothing: stop it for all to see."""
    if service.cancelled():
        return
    logger.critical("a part of the worker ended; stopping the worker", exc_info=service.exception())
    os.kill(os.getpid(), signal.SIGTERM)
