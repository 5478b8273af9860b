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
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

from redis.asyncio import Redis

from coalq.archive import Archive, GroupAttempt, WorkerRow
from coalq.broker import CeleryGroupSender, make_sending_app
from coalq.claims import RedisClaims, SharedClaims, open_redis
from coalq.connections import check_broker, open_archive
from coalq.errors import TransientError
from coalq.generation import Generation, GenerationConfig
from coalq.identity import new_id
from coalq.inference import HotResultStore, InferenceScheduler
from coalq.publisher import Publisher
from coalq.settings import Settings
from coalq.wire import GroupMessage, queue_name
from coalq_workers.backends import Backend
from coalq_workers.drain import Drain
from coalq_workers.endpoint import ServedEndpoint, open_backend, wait_for_endpoint
from coalq_workers.executions import Executions
from coalq_workers.group_owner import GroupOwner
from coalq_workers.group_run import GroupRunner
from coalq_workers.loop_thread import LoopThread
from coalq_workers.patience import ModelHealth
from coalq_workers.upkeep import Upkeep
from coalq_workers.work_threads import WorkThreads
from coalq_workers.writer import RecordWriter

logger = logging.getLogger(__name__)

_LOOK_S = 0.2
HOT_GENERATIONS = 8192
HOT_CHARACTERS = 32 * 1024 * 1024
"""Generations kept in memory in front of the archive: so many, and so much text at most."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """What lives on the event loop."""

    backend: Backend
    served: ServedEndpoint
    redis: Redis
    claims: SharedClaims
    owner: GroupOwner
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
        self._drain = Drain(settings.drain_s)
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
        attempt = GroupAttempt(message.run_id, message.group_number, message.attempt)
        return self._loop_thread.run(self._loop.owner.execute(attempt))

    def drain(self) -> None:
        """Start nothing new; what is in flight may end within the drain time. Safe in a signal handler."""
        self._drain.begin()
        self._loop_thread.call_soon(self._loop.owner.stop)

    def wait_drained(self) -> None:
        """Wait, in any thread, until no group is left here or the drain time is well over."""
        while len(self._executions) and not self._drain.is_over():
            time.sleep(_LOOK_S)

    def close(self) -> None:
        """Give up everything; groups that are still here have been handed back."""
        self._drain.begin()
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
        health = ModelHealth()
        redis = open_redis(redis_url)
        claims = SharedClaims(
            RedisClaims(redis, process_id=self.process_id, lease_s=settings.lease_s),
            read=self._read_generations,
            halted=self._drain.is_begun,
        )
        writer = RecordWriter(
            self._archive,
            self._threads,
            process_id=self.process_id,
            stopped=self._drain.is_over,
            max_inflight=served.max_inflight,
        )
        store = HotResultStore(maxsize=HOT_GENERATIONS, max_characters=HOT_CHARACTERS)
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
        owner, upkeep = self._own(runner, served, lambda: self._describe(served, scheduler, health))
        services = (asyncio.create_task(writer.serve()), asyncio.create_task(upkeep.serve()))
        for service in services:
            service.add_done_callback(_stop_process)
        return _Loop(backend, served, redis, claims, owner, services)

    def _own(
        self, runner: GroupRunner, served: ServedEndpoint, describe: Callable[[], WorkerRow]
    ) -> tuple[GroupOwner, Upkeep]:
        settings = self._settings
        upkeep = Upkeep(
            self._archive,
            self._threads,
            queues=self._queues_of(served),
            publisher=Publisher(self._archive, self._sender),
            sender=self._sender,
            executions=self._executions,
            process_id=self.process_id,
            lease_s=settings.lease_s,
            describe=describe,
        )
        owner = GroupOwner(
            self._archive,
            self._threads,
            runner=runner,
            executions=self._executions,
            drain=self._drain,
            process_id=self.process_id,
            lease_s=settings.lease_s,
            ended=upkeep.hurry,
        )
        return owner, upkeep

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

    async def _read_generations(self, keys: list[str]) -> dict[str, Generation]:
        return await self._threads.database(self._archive.generations, keys)

    def _queues_of(self, served: ServedEndpoint) -> tuple[str, ...]:
        archive_id, local_id = self._archive.archive_id, self._settings.local_id
        return tuple(queue_name(archive_id, model, local_id=local_id) for model in served.models)

    def _describe(self, served: ServedEndpoint, scheduler: InferenceScheduler, health: ModelHealth) -> WorkerRow:
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
