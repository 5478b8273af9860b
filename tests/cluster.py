"""Real Celery worker processes against private servers, started and stopped by handle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from coalq.archive import Archive, check_schema, open_engine
from coalq.config import RunConfig
from coalq.producer import Producer
from coalq.settings import Settings
from waiting import wait_until

WORKER = [sys.executable, "-m", "celery", "-A", "coalq_workers", "worker", "--without-gossip", "--without-mingle"]


class Worker:
    """One Celery worker process; its output goes to a file that a failing test shows."""

    def __init__(self, environment: Mapping[str, str], *, log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(WORKER, env=environment, stdout=output, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        """SIGKILL: nothing is tidied up."""
        self.process.kill()
        self.process.wait()

    def stop(self, *, within_s: float = 20) -> int:
        """SIGTERM, as an operator stops a worker; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the worker did not stop within {within_s} s:\n{self.output()}") from None

    def output(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


class Cluster:
    """A Redis, an archive and any number of workers, as users set them up.

    Args:
        redis_url: An empty Valkey.
        database_url: An archive with its schema in place.
        folder: Where logs go.
        **environment: Further `COALQ_*` variables of workers and producer, named without the prefix.
    """

    def __init__(self, redis_url: str, database_url: str, folder: Path, **environment: str) -> None:
        self.settings = {"REDIS_URL": redis_url, "DATABASE_URL": database_url, "BACKEND": "toy", "DRAIN_S": "5"}
        self.settings.update(environment)
        self._folder = folder
        self._workers: list[Worker] = []
        engine = open_engine(database_url)
        check_schema(engine)
        self.archive = Archive(engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.kill()
        if error is not None:
            for worker in self._workers:
                error.add_note(f"--- {worker.log.name}:\n{worker.output()[-6000:]}")
        self.archive.close()

    def environment(self, **changes: str) -> dict[str, str]:
        """The environment of a process of this cluster."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COALQ_", "OPENAI_"))}
        return kept | {f"COALQ_{name}": value for name, value in (self.settings | changes).items()}

    def start_worker(self, *models: str, **changes: str) -> Worker:
        """Start a worker and wait until it serves its models."""
        before = {row.process_id for model in models for row in self.archive.live_workers(model)}
        log = self._folder / f"w{len(self._workers)}.log"
        worker = Worker(self.environment(MODELS=" ".join(models), **changes), log=log)
        self._workers.append(worker)
        self._wait_until_serving(worker, models[0], before)
        return worker

    def _wait_until_serving(self, worker: Worker, model: str, before: set[str]) -> None:
        def serves() -> bool:
            assert worker.process.poll() is None, f"the worker ended: {worker.output()}"
            return any(row.process_id not in before for row in self.archive.live_workers(model))

        wait_until(serves, f"a worker serves {model}", within_s=40)

    def producer(self, **changes: str) -> Producer:
        """A producer of this cluster; the caller closes it."""
        return Producer(Settings.load(self.environment(**changes)))

    def wait_until(self, condition: Callable[[], bool], description: str, *, within_s: float = 30) -> None:
        """Wait for something about the archive."""
        wait_until(condition, description, within_s=within_s)


def game(model: str, **changes: object) -> RunConfig:
    """A request for the values of a toy game's players."""
    fields: dict[str, object] = {"model": model, "players": "words", "value": "number"}
    return RunConfig.model_validate(fields | changes)
