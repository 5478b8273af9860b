"""How long a worker bears with an endpoint: retries in the loop, then the group is handed back.

A fault that may pass never becomes a failed record, except in the first group of a run whose endpoint never once
answered, so that a wrong URL or key is told instead of being waited for.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from coalq.errors import HandBack, LeaseLost, PermanentError, TransientError
from coalq.generation import Generation
from coalq_workers.halt import Halt

HAND_BACK_AFTER_S = 30.0
"""An endpoint without a single success for this long gets no more of this group from here."""

PROMPT_HAND_BACK_AFTER_S = 300.0
"""So long one prompt is asked for while others succeed; then its group makes room for others and comes again."""

SAME_FAULT_LIMIT = 5
"""Equal faults of one prompt, while others succeed, after which the fault is the prompt's."""

_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 30.0
_LONGEST_REQUESTED_DELAY_S = 60.0


class EndpointHealth:
    """Whether the endpoint answers for one model, seen by all groups of this process. Times are monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.last_success: float | None = None
        self.failing_since: float | None = None
        self.last_error: str | None = None
        self._asking = 0

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Somebody asks. What was true before a time in which nobody asked is not held against the endpoint."""
        if self._asking == 0:
            self.failing_since = None
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1

    def succeeded(self) -> None:
        """An answer came, be it a rejection of one prompt: the endpoint works."""
        self.last_success = self.clock()
        self.failing_since = None
        self.last_error = None

    def failed(self, error: TransientError) -> None:
        """A fault that may pass."""
        if self.failing_since is None:
            self.failing_since = self.clock()
        self.last_error = str(error)


class ModelHealth:
    """The endpoint's health by model: one that lacks a model can be well for another."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_model: dict[str, EndpointHealth] = {}

    def of(self, model: str) -> EndpointHealth:
        """The health of one model."""
        return self._by_model.setdefault(model, EndpointHealth(self._clock))

    @property
    def last_error(self) -> str | None:
        """A fault that has not been followed by a success, of any model."""
        return next((health.last_error for health in self._by_model.values() if health.last_error), None)


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits of one group.

    Attributes:
        is_first_group: Whether this is the run's base group, which may end with the endpoint's own message.
        endpoint_wait_s: How long that group waits for an endpoint that never answered, seconds.
    """

    is_first_group: bool
    endpoint_wait_s: float


async def ask_patiently(
    ask: Callable[[], Awaitable[Generation]], *, health: EndpointHealth, patience: Patience, halt: Halt
) -> Generation:
    """Ask until there is an answer, with jittered backoff between faults.

    Raises:
        PermanentError: The prompt is rejected for good, or the endpoint never answered the first group.
        LeaseLost: The group was halted while waiting; equal prompts of other groups go on.
        HandBack: The endpoint is down. The whole group is halted: nobody asks again for the rest of it.
    """
    attempts = _Attempts(health, patience)
    with health.asking():
        while True:
            try:
                generation = await ask()
            except PermanentError:
                health.succeeded()
                raise
            except TransientError as error:
                health.failed(error)
                try:
                    attempts.judge(error)
                except HandBack as down:
                    halt.give(str(down))
                    raise
                if not halt():
                    await halt.pause(attempts.delay_s(error.retry_after_s))
                if halt():
                    raise LeaseLost(halt.reason or "stopping") from error
            else:
                health.succeeded()
                return generation


class _Attempts:
    """The faults of one prompt so far, and what follows from them."""

    def __init__(self, health: EndpointHealth, patience: Patience) -> None:
        self._health = health
        self._patience = patience
        self._began = health.clock()
        self._faults = 0
        self._same: Counter[str] = Counter()

    def judge(self, error: TransientError) -> None:
        """Raise when asking again is hopeless."""
        self._faults += 1
        health, now = self._health, self._health.clock()
        if self._patience.is_first_group and health.last_success is None:
            if now - self._began >= self._patience.endpoint_wait_s:
                raise PermanentError(str(error)) from error
            return
        if health.last_success is not None and health.last_success > self._began:
            self._judge_prompt(error, now=now)
        elif health.failing_since is not None and now - health.failing_since >= HAND_BACK_AFTER_S:
            raise HandBack(f"endpoint down: {error}") from error

    def _judge_prompt(self, error: TransientError, *, now: float) -> None:
        if error.may_be_prompt:
            self._same[str(error)] += 1
            if self._same[str(error)] >= SAME_FAULT_LIMIT:
                raise PermanentError(f"{error} ({SAME_FAULT_LIMIT} times, while other prompts succeed)") from error
        if now - self._began >= PROMPT_HAND_BACK_AFTER_S:
            raise HandBack(f"no answer to one prompt while others succeed: {error}") from error

    def delay_s(self, retry_after_s: float | None) -> float:
        """Seconds until the next attempt."""
        longest = min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2 ** min(self._faults, 10))
        # Jitter spreads retries of many places; it needs no secrecy.
        jittered = random.uniform(longest / 2, longest)  # noqa: S311
        return max(jittered, min(retry_after_s or 0.0, _LONGEST_REQUESTED_DELAY_S))
