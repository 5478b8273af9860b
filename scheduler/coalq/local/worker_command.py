"""The command line and the environment of a worker: `coalq worker` and the embedded stack start the same thing."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from coalq.local.messages import StackOptions


def worker_command(*, name: str | None = None, log_level: str = "INFO", extra: Sequence[str] = ()) -> list[str]:
    """The Celery worker's command. Everything else (pool, acknowledgement, queues) is set by the app itself.

    Args:
        name: The node's name, which must be unique in the cluster; Celery puts the host behind it.
        log_level: As Celery spells it.
        extra: Further arguments for Celery.
    """
    named = ("--hostname", f"{name}@%h") if name else ()
    return [
        sys.executable,
        *("-m", "celery", "--app", "coalq_workers", "worker"),
        # Both talk to every other worker and bring nothing here.
        *("--without-gossip", "--without-mingle"),
        *("--loglevel", log_level),
        *named,
        *extra,
    ]


def embedded_environment(
    environ: Mapping[str, str], *, options: StackOptions, redis_url: str, base_url: str | None
) -> dict[str, str]:
    """The embedded worker's environment: the parent's, with the stack's servers, queue and model."""
    worker = dict(environ)
    worker["COALQ_REDIS_URL"] = redis_url
    worker["COALQ_DATABASE_URL"] = options.archive_url
    worker["COALQ_LOCAL_ID"] = options.local_id
    worker["COALQ_MODELS"] = json.dumps([options.model])
    worker["COALQ_DRAIN_S"] = str(options.drain_s)
    worker["COALQ_ENDPOINT_WAIT_S"] = str(options.endpoint_wait_s)
    if base_url is not None:
        worker["COALQ_BASE_URL"] = base_url
        worker["COALQ_BACKEND"] = "openai"
        if not worker.get("COALQ_MAX_INFLIGHT"):
            worker["COALQ_MAX_INFLIGHT"] = str(options.parallel)
        # A key is for the host it was given for.
        worker.pop("COALQ_API_KEY", None)
    return worker
