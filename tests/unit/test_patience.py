"""How long a worker bears with an endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coalq.errors import CoalqError, HandBack, LeaseLost, PermanentError, TransientError
from coalq.generation import Generation
from coalq_workers import patience as patience_module
from coalq_workers.halt import Halt
from coalq_workers.patience import EndpointHealth, ModelHealth, Patience, ask_patiently

DOWN = TransientError("http://e: connection refused")
BROKEN = TransientError("http://e: HTTP 500: boom", may_be_prompt=True)
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

    with pytest.raises(PermanentError, match="5 times, while other prompts succeed"):
        await ask_patiently(
            Endpoint(clock, *[BROKEN] * 10, between=health.succeeded), health=health, patience=LATER, halt=Halt()
        )


async def test_an_order_to_halt_ends_the_waiting_and_hands_back() -> None:
    clock = Clock()
    halt = Halt()

    def give() -> None:
        halt.give("the worker is stopping")

    with pytest.raises(LeaseLost, match="the worker is stopping"):
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


async def test_different_faults_of_a_prompt_are_not_held_against_it() -> None:
    clock = Clock()
    health = EndpointHealth(clock)
    faults = [TransientError(f"HTTP 500: request {number} failed", may_be_prompt=True) for number in range(10)]

    generation = await ask_patiently(
        Endpoint(clock, *faults, ANSWER, between=health.succeeded), health=health, patience=LATER, halt=Halt()
    )

    assert generation is ANSWER


async def test_a_full_endpoint_never_fails_a_prompt_but_its_group_makes_room_for_others() -> None:
    clock = Clock()
    health = EndpointHealth(clock)
    full = TransientError("HTTP 429: slow down")

    with pytest.raises(HandBack, match="while others succeed"):
        await ask_patiently(
            Endpoint(clock, *[full] * 2000, between=health.succeeded), health=health, patience=LATER, halt=Halt()
        )

    assert clock.now == patience_module.PROMPT_HAND_BACK_AFTER_S


async def test_an_endpoint_that_is_down_halts_the_whole_group_so_that_nobody_asks_for_the_rest() -> None:
    clock = Clock()
    halt = Halt()

    with pytest.raises(HandBack):
        await ask_patiently(Endpoint(clock, *[DOWN] * 40), health=EndpointHealth(clock), patience=LATER, halt=halt)

    assert halt()
    assert "endpoint down" in (halt.reason or "")


async def test_a_fault_of_hours_ago_is_not_held_against_the_endpoint() -> None:
    clock = Clock()
    health = EndpointHealth(clock)
    halt = Halt()
    halt.give("stopping")
    with pytest.raises(LeaseLost):
        await ask_patiently(Endpoint(clock, DOWN), health=health, patience=LATER, halt=halt)
    clock.now += 7200

    generation = await ask_patiently(Endpoint(clock, DOWN, ANSWER), health=health, patience=LATER, halt=Halt())

    assert generation is ANSWER


async def test_one_model_that_the_endpoint_lacks_does_not_spoil_the_health_of_another() -> None:
    clock = Clock()
    health = ModelHealth(clock)
    health.of("there").succeeded()

    with pytest.raises(PermanentError, match="no such model"):
        await ask_patiently(
            Endpoint(clock, *[TransientError("HTTP 404: no such model")] * 9),
            health=health.of("lacking"),
            patience=FIRST,
            halt=Halt(),
        )

    assert health.last_error == "HTTP 404: no such model"


def test_the_delay_grows_to_a_bound_however_many_faults_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    attempts = patience_module._Attempts(EndpointHealth(Clock()), LATER)
    for _ in range(2000):
        attempts._faults += 1

    assert attempts.delay_s(None) <= 30
    assert attempts.delay_s(86400.0) == 60
