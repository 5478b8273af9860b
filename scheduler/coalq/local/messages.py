"""What the parent and the supervisor tell each other: one JSON line of options, then one line per event."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

_REFUSED = 2
"""Exit code of a worker that cannot work with what it is given."""

_ERROR = "coalq: error: "


class StackOptions(BaseModel):
    """What the supervisor starts. Secrets are not in here: its children inherit the parent's environment.

    Attributes:
        log_dir: Absolute; one log file per child is written there.
        local_id: Names this stack's own queue, so that two stacks sharing an archive never meet.
        model: The model that the worker serves, as the run names it.
        model_path: GGUF file to serve under that name; None when the worker has an endpoint of its own.
        parallel: Prompts that the bundled model decodes at once.
        drain_s: How long a stopping worker waits for what is in flight, seconds.
        endpoint_wait_s: How long the first group of a run waits for an endpoint that never answered, seconds.
        with_worker: Whether to start the worker.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    log_dir: Path
    local_id: str
    archive_url: str
    model: str
    model_path: Path | None = None
    parallel: int = Field(default=4, ge=1)
    drain_s: float = Field(default=10.0, ge=0)
    endpoint_wait_s: float = Field(default=30.0, gt=0)
    with_worker: bool = True


class Ready(BaseModel):
    """Everything is up; a worker may still be on its way to its queue.

    Attributes:
        process_numbers: The operating system's number of each child, by its name.
        base_url: Where the bundled model is served, if it was started.
        identity: The bundled model's name and content hash.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: Literal["ready"] = "ready"
    redis_url: str
    process_numbers: dict[str, int]
    base_url: str | None = None
    identity: str | None = None


class Failed(BaseModel):
    """A child did not start or died; the supervisor stops everything and ends after telling so.

    Attributes:
        exit_code: Negative for a signal; None if it did not end by itself.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: Literal["failed"] = "failed"
    what: Literal["valkey", "model", "worker"]
    reason: str
    log_tail: str
    exit_code: int | None = None

    @property
    def refusal(self) -> str | None:
        """Why the worker would not start, in its own words, if that is how it ended."""
        if self.what != "worker" or self.exit_code != _REFUSED:
            return None
        lines = [line for line in self.log_tail.splitlines() if line.startswith(_ERROR)]
        return lines[-1].removeprefix(_ERROR) if lines else None

    def __str__(self) -> str:
        tail = "\n".join(f"  | {line}" for line in self.log_tail.splitlines())
        return f"the embedded {self.what} {self.reason}" + (f"; the end of its log:\n{tail}" if tail else "")


Event = Annotated[Ready | Failed, Field(discriminator="event")]

EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
