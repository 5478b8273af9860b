"""How a coalition's record came to be, and what state a run is in."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum


class Outcome(StrEnum):
    """Where the generation of a record came from."""

    EXECUTED = "executed"
    CACHE_HIT = "cache_hit"
    DEDUPLICATED = "deduplicated"
    FAILED = "failed"


class RunStatus(StrEnum):
    """State of a run: running → complete | incomplete | paused | cancelled."""

    RUNNING = "running"
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    PAUSED = "paused"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class SchedulerMetrics:
    """Counters of executed coalition jobs; `requested` is always the sum of the four outcomes.

    Token counts are sums over executed generations that reported them.
    """

    requested: int = 0
    executed: int = 0
    deduplicated: int = 0
    cache_hits: int = 0
    kv_cache_hits: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: SchedulerMetrics) -> SchedulerMetrics:
        """The counters of both."""
        return SchedulerMetrics(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))
