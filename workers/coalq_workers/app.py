"""The Celery application that `celery -A coalq_workers worker` (and `flower`) runs.

Importing it reads no configuration and opens nothing: settings are read when Celery first needs them, connections are
made when a worker starts. A worker that cannot work says why in one line and exits with 2.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from celery import Celery, signals
from celery.utils.nodenames import default_nodename, nodename
from kombu import Queue

from coalq.broker import celery_settings
from coalq.errors import CoalqError
from coalq.settings import Settings
from coalq.wire import TASK_NAME
from coalq_workers.process import WorkerProcess

logger = logging.getLogger(__name__)

app = Celery("coalq")

_CELERY_LEAVES_WITHIN_S = 15.0


@app.on_configure.connect
def _configure(sender: Celery, **_: object) -> None:
    sender.conf.update(celery_settings(_settings_or_exit()))


_process: WorkerProcess | None = None


@app.task(name=TASK_NAME)
def evaluate_group(**fields: object) -> str:
    """Run one group to its end; the returned line is what Flower shows as the result."""
    if _process is None:
        raise RuntimeError("this task runs only inside `celery -A coalq_workers worker` or `coalq worker`")
    return _process.evaluate(fields)


@signals.celeryd_init.connect
def _prepare(instance: Any, conf: Any, options: Mapping[str, Any] | None = None, **_: object) -> None:  # noqa: ANN401
    """Connect everything and choose the queues before Celery sets them up."""
    pool = getattr((options or {}).get("pool"), "__module__", "threads")
    if not pool.endswith(("thread", "threads")):
        _exit(f"--pool {pool.rpartition('.')[2]} cannot run coalq's event loop; leave it out, threads is the default")
    global _process  # noqa: PLW0603 - one worker process, one set of connections
    try:
        _process = WorkerProcess.start(Settings.load())
    except CoalqError as error:
        _exit(str(error))
    except Exception as error:  # noqa: BLE001 - Celery would swallow it and consume nothing for ever
        _exit(f"the worker cannot start: {type(error).__name__}: {error}")
    if instance.hostname == default_nodename(""):
        # Workers of one machine would share Celery's default name, and Flower would show one of them.
        instance.hostname = nodename(f"coalq-{_process.process_id[:8]}", instance.hostname.partition("@")[2])
    conf.task_queues = [Queue(name, routing_key=name) for name in _process.queues]


@signals.worker_ready.connect
def _announce(**_: object) -> None:
    if _process is not None:
        print(f"coalq: ready: {_process}", file=sys.stderr, flush=True)


@signals.worker_shutting_down.connect
def _drain(**_: object) -> None:
    """SIGTERM: start nothing new. Celery then waits for the running groups, which hand back what is left."""
    if _process is not None:
        _process.drain()
        threading.Thread(target=_leave, args=(_process,), name="coalq-leave", daemon=True).start()


@signals.worker_shutdown.connect
def _close(**_: object) -> None:
    if _process is not None:
        _process.close()


def _leave(process: WorkerProcess) -> None:
    """See to it that the process ends: with its broker away, Celery can wait for it for ever while shutting down."""
    process.wait_drained()
    time.sleep(_CELERY_LEAVES_WITHIN_S)
    # Still here: this thread ends with the process otherwise.
    logger.warning("Celery does not end; leaving without it")
    try:
        process.close()
    finally:
        os._exit(0)


def _settings_or_exit() -> Settings:
    try:
        return Settings.load()
    except CoalqError as error:
        _exit(str(error))


def _exit(message: str) -> NoReturn:
    """End with one line: Celery would log an exception of a signal handler and go on."""
    sys.stderr.write(f"coalq: error: {message}\n")
    raise SystemExit(2)
