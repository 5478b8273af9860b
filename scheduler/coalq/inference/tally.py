"""Counts the records of one call."""

from __future__ import annotations

from collections import Counter

from coalq.inference.jobs import CoalitionRecord
from coalq.outcome import Outcome, SchedulerMetrics


class Tally:
    """Counters that only grow; `requested` is the sum of the outcomes by construction."""

    def __init__(self) -> None:
        self._outcomes: Counter[Outcome] = Counter()
        self._kv_cache_hits = 0
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._completion_tokens = 0

    def count(self, record: CoalitionRecord) -> None:
        """Count one record, and its tokens if its generation was made for it."""
        self._outcomes[record.outcome] += 1
        generation = record.generation
        if record.outcome is not Outcome.EXECUTED or generation is None:
            return
        self._kv_cache_hits += bool(generation.cached_tokens)
        self._prompt_tokens += generation.prompt_tokens or 0
        self._cached_tokens += generation.cached_tokens or 0
        self._completion_tokens += generation.completion_tokens or 0

    @property
    def metrics(self) -> SchedulerMetrics:
        """The counters so far."""
        return SchedulerMetrics(
            requested=self._outcomes.total(),
            executed=self._outcomes[Outcome.EXECUTED],
            deduplicated=self._outcomes[Outcome.DEDUPLICATED],
            cache_hits=self._outcomes[Outcome.CACHE_HIT],
            kv_cache_hits=self._kv_cache_hits,
            failed=self._outcomes[Outcome.FAILED],
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            completion_tokens=self._completion_tokens,
        )
