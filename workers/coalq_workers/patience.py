"""How long a worker bears with an endpoint: retries in the loop, then the group is handed back.

A fault that may pass never becomes a failed record, except in the first group of a run whose endpoint never once
answered, so that a wrong URL or key is told instead of being waited for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from coalq.errors import HandBack, PermanentError, TransientError
from coalq.generation import Generation
from coalq_workers.halt import Halt

HAND_BACK_AFTER_S = 30.0
"""An endpoint without a single success for this long gets no more of this group from here."""

SAME_FAULT_LIMIT = 3
"""Faults of one prompt, while others succeed, after which the fault is the prompt's."""

_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 30.0


class EndpointHealth:
    """Whether the endpoint answers, seen by all groups of this process. Times are monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.last_success: float | None = None
        self.failing_since: float | None = None
        self.last_error: str | None = None

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
        HandBack: The endpoint is down, or the order to stop came while waiting.
    """
    began = health.clock()
    faults = 0
    while True:
        try:
            generation = await ask()
        except PermanentError:
            health.succeeded()
            raise
        except TransientError as error:
            faults += 1
            health.failed(error)
            _give_up_when_hopeless(error, began=began, faults=faults, health=health, patience=patience)
            if halt():
                raise HandBack(halt.reason or "stopping") from error
            await halt.pause(_delay_s(faults, error.retry_after_s))
            if halt():
                raise HandBack(halt.reason or "stopping") from error
        else:
            health.succeeded()
            return generation


def _give_up_when_hopeless(
    error: TransientError, *, began: float, faults: int, health: EndpointHealth, patience: Patience
) -> None:
    now = health.clock()
    if health.last_success is None and patience.is_first_group:
        if now - began >= patience.endpoint_wait_s:
            raise PermanentError(str(error)) from error
        return
    others_succeed = health.last_success is not None and health.last_success > began
    if others_succeed and faults >= SAME_FAULT_LIMIT and error.is_server_fault:
        raise PermanentError(f"{error} ({faults} times, while other prompts succeed)") from error
    if health.failing_since is not None and now - health.failing_since >= HAND_BACK_AFTER_S:
        raise HandBack(f"endpoint down: {error}") from error


def _delay_s(faults: int, retry_after_s: float | None) -> float:
    longest = min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2**faults)
    # Jitter spreads retries of many places; it needs no secrecy.
    return max(retry_after_s or 0.0, random.uniform(longest / 2, longest))  # noqa: S311
