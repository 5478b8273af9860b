"""The embedded stack for one `coalq explain`: schema, servers, worker, and the settings that reach them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coalq.archive import RunRow, upgrade
from coalq.cli.home import prepare_home
from coalq.connections import open_archive
from coalq.identity import new_id
from coalq.local import BundledModel, EmbeddedStack, StackOptions, holding, is_held, log_dir_of, make_log_dir
from coalq.outcome import RunStatus
from coalq.settings import Settings
from coalq.wire import queue_name

_LOOKED_AT = 200
"""Newest runs among which abandoned ones are looked for; every start looks, so they are never old."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Where a run goes.

    Attributes:
        settings: With servers, whoever started them.
        stack: The embedded stack, if it was started.
        log_dir: Its logs.
    """

    settings: Settings
    stack: EmbeddedStack | None = None
    log_dir: Path | None = None

    @property
    def identity(self) -> str | None:
        """What identifies the output of the bundled model, if it is served here."""
        return self.stack.ready.identity if self.stack is not None else None


@contextmanager
def embedded_servers(settings: Settings, *, model: str, bundled: BundledModel | None) -> Iterator[Servers]:
    """Start Valkey, the bundled model (if it is needed) and one worker; stop all of them at the end.

    Raises:
        InputError: COALQ_HOME cannot be used.
        ServerError: A server could not be started.
    """
    prepare_home(settings)
    upgrade(settings.archive_url)
    pause_abandoned(settings)
    local_id = new_id()
    log_dir = make_log_dir(settings.home, local_id)
    options = StackOptions(
        log_dir=log_dir,
        local_id=local_id,
        archive_url=settings.archive_url,
        model=model,
        model_path=bundled.path if bundled else None,
    ).model_copy(update=_given(settings, "drain_s", "endpoint_wait_s"))
    with holding(log_dir), EmbeddedStack(options) as stack:
        there = {"redis_url": stack.ready.redis_url, "database_url": settings.archive_url, "local_id": local_id}
        yield Servers(settings.model_copy(update=there), stack=stack, log_dir=log_dir)


def pause_abandoned(settings: Settings) -> None:
    """Pause embedded runs whose command was killed: nobody works on them, and nobody ever will."""
    archive = open_archive(settings)
    try:
        for row in archive.list_runs(_LOOKED_AT):
            local_id = _local_id(row, archive.archive_id)
            alive = local_id is None or is_held(log_dir_of(settings.home, local_id))
            if row.status is RunStatus.RUNNING and not alive:
                archive.pause(row.run_id, "its process ended")
    finally:
        archive.close()


def _local_id(row: RunRow, archive_id: str) -> str | None:
    """Whose queue a run is in; None if it is not an embedded stack's."""
    candidate = row.queue.partition(f".{archive_id}.")[2].partition(".")[0]
    return candidate if candidate and row.queue == queue_name(archive_id, row.model, local_id=candidate) else None


def _given(settings: Settings, *names: str) -> dict[str, float]:
    """Settings that the user made; the defaults of a stack on one machine are shorter than a cluster's."""
    return {name: getattr(settings, name) for name in names if name in settings.model_fields_set}
