"""How long a worker bears with an endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coalq.errors import CoalqError, HandBack, PermanentError, TransientError
from coalq.generation import Generation
from coalq_workers import patience as patience_module
from coalq_workers.halt import Halt
from coalq_workers.patience import EndpointHealth, Patience, ask_patiently

DOWN = TransientError("http://e: connection refused")
BROKEN = TransientError("http://e: HTTP 500: boom", None, True)
ANSWER = Generation("yes")


class Clock:
    """Time that a test moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Endpoint:
    """Plays a list of outcomes, one per request, each after the clock moved on by a second."""

    def __init__(
        self, clock: Clock, *outcomes: Generation | CoalqError, between: Callable[[], None] = lambda: None
    ) -> None:
        self._clock = clock
        self._outcomes = list(outcomes)
        self._between = between
        self.requests = 0

    async def __call__(self) -> Generation:
        self.requests += 1
        self._clock.now += 1
        self._between()
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, CoalqError):
            raise outcome
        return outcome


@pytest.fixture(autouse=True)
def _short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience_module, "_FIRST_DELAY_S", 0.0005)
    monkeypatch.setattr(patience_module, "_LONGEST_DELAY_S", 0.001)


FIRST = Patience(is_first_group=True, endpoint_wait_s=5)
LATER = Patience(is_first_group=False, endpoint_wait_s=5)


async def test_a_fault_that_passes_costs_only_another_request() -> None:
    clock = Clock()
    endpoint = Endpoint(clock, DOWN, DOWN, ANSWER)

    generation = await ask_patiently(endpoint, health=EndpointHealth(clock), patience=LATER, halt=Halt())

    assert generation is ANSWER
    assert endpoint.requests == 3


async def test_a_rejection_is_raised_at_once_and_shows_that_the_endpoint_works() -> None:
    clock = Clock()
    health = EndpointHealth(clock)

    with pytest.raises(PermanentError, match="HTTP 400"):
        await ask_patiently(Endpoint(clock, PermanentError("HTTP 400")), health=health, patience=FIRST, halt=Halt())

    assert health.last_success is not None


async def test_the_first_group_ends_with_the_message_of_an_endpoint_that_never_answered() -> None:
    clock = Clock()
    endpoint = Endpoint(clock, *[DOWN] * 20)

    with pytest.raises(PermanentError, match="connection refused"):
        await ask_patiently(endpoint, health=EndpointHealth(clock), patience=FIRST, halt=Halt())

    assert endpoint.requests == 5


async def test_an_endpoint_that_once_answered_never_fails_the_first_group() -> None:
    clock = Clock()
    health = EndpointHealth(clock)
    health.succeeded()

    with pytest.raises(HandBack, match="endpoint down"):
        await ask_patiently(Endpoint(clock, *[DOWN] * 40), health=health, patience=FIRST, halt=Halt())


async def test_a_later_group_is_handed_back_when_the_endpoint_stays_down() -> None:
    clock = Clock()

    with pytest.raises(HandBack, match="endpoint down"):
        await ask_patiently(Endpoint(clock, *[DOWN] * 40), health=EndpointHealth(clock), patience=LATER, halt=Halt())

    assert clock.now == patience_module.HAND_BACK_AFTER_S + 1


async def test_the_same_server_fault_again_is_the_prompts_when_others_succeed_meanwhile() -> None:
    clock = Clock()
    health = EndpointHealth(clock)

    with pytest.raises(PermanentError, match="3 times, while other prompts succeed"):
        await ask_patiently(
            Endpoint(clock, *[BROKEN] * 10, between=health.succeeded), health=health, patience=LATER, halt=Halt()
        )


async def test_an_order_to_halt_ends_the_waiting_and_hands_back() -> None:
    clock = Clock()
    halt = Halt()

    def give() -> None:
        halt.give("the worker is stopping")

    with pytest.raises(HandBack, match="the worker is stopping"):
        await ask_patiently(
            Endpoint(clock, DOWN, ANSWER, between=give), health=EndpointHealth(clock), patience=LATER, halt=halt
        )


async def test_what_the_endpoint_asks_to_wait_is_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    slow_down = TransientError("HTTP 429", 3600.0)
    halt = Halt()
    asking = asyncio.create_task(
        ask_patiently(Endpoint(clock, slow_down, ANSWER), health=EndpointHealth(clock), patience=LATER, halt=halt)
    )

    done, _ = await asyncio.wait({asking}, timeout=0.05)
    halt.give("enough")

    assert not done
    with pytest.raises(HandBack):
        await asking
