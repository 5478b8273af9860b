"""The embedded stack for one `coalq explain`: schema, servers, worker, and the settings that reach them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coalq.archive import upgrade
from coalq.identity import new_id
from coalq.local import BundledModel, EmbeddedStack, StackOptions, make_log_dir
from coalq.settings import Settings


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
    """Start Valkey, the bundled model (if it is needed) and one worker; stop all of them at the end."""
    upgrade(settings.archive_url)
    local_id = new_id()
    options = StackOptions(
        log_dir=make_log_dir(settings.home, local_id),
        local_id=local_id,
        archive_url=settings.archive_url,
        model=model,
        model_path=bundled.path if bundled else None,
    ).model_copy(update=_given(settings, "drain_s", "endpoint_wait_s"))
    with EmbeddedStack(options) as stack:
        there = {"redis_url": stack.ready.redis_url, "database_url": settings.archive_url, "local_id": local_id}
        yield Servers(settings.model_copy(update=there), stack=stack, log_dir=options.log_dir)


def _given(settings: Settings, *names: str) -> dict[str, float]:
    """Settings that the user made; the defaults of a stack on one machine are shorter than a cluster's."""
    return {name: getattr(settings, name) for name in names if name in settings.model_fields_set}
