"""What a worker serves, and how it finds out."""

from __future__ import annotations

import pytest

from coalq.conversation import ConversationSnapshot
from coalq.errors import InputError, ServerError, TransientError
from coalq.generation import Generation, GenerationConfig
from coalq.settings import Settings
from coalq_workers import endpoint as endpoint_module
from coalq_workers.endpoint import open_backend, wait_for_endpoint


class Listing:
    """A backend that lists its models only when asked often enough."""

    endpoint = "http://e/v1"

    def __init__(self, *answers: tuple[str, ...] | TransientError, slots: int | None = None) -> None:
        self._answers = list(answers)
        self._slots = slots

    async def generate(self, snapshot: ConversationSnapshot, *, model: str, generation: GenerationConfig) -> Generation:
        raise NotImplementedError

    async def models(self) -> tuple[str, ...]:
        answer = self._answers.pop(0)
        if isinstance(answer, TransientError):
            raise answer
        return answer

    async def capacity(self) -> int | None:
        return self._slots

    async def close(self) -> None:
        return


async def test_configured_models_are_served_without_asking() -> None:
    served = await wait_for_endpoint(Listing(), Settings(models=("a", "b")))

    assert served.models == ("a", "b")
    assert served.max_inflight == endpoint_module.DEFAULT_MAX_INFLIGHT


async def test_an_endpoint_that_is_still_loading_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "_ASK_AGAIN_S", 0.001)
    loading = TransientError("http://e/v1: HTTP 503: loading")

    served = await wait_for_endpoint(Listing(loading, loading, ("m",)), Settings(endpoint_wait_s=30))

    assert served.models == ("m",)


async def test_an_endpoint_that_never_lists_its_models_ends_the_worker_with_its_words() -> None:
    refused = TransientError("http://e/v1: HTTP 401: no key")

    with pytest.raises(ServerError, match=r"HTTP 401: no key.*COALQ_MODELS"):
        await wait_for_endpoint(Listing(refused), Settings(endpoint_wait_s=1e-9))


async def test_an_endpoint_without_models_is_refused() -> None:
    with pytest.raises(ServerError, match="lists no model"):
        await wait_for_endpoint(Listing(()), Settings())


async def test_the_servers_own_slots_are_the_limit_unless_one_is_configured() -> None:
    assert (await wait_for_endpoint(Listing(("m",), slots=4), Settings())).max_inflight == 4
    assert (await wait_for_endpoint(Listing(("m",), slots=4), Settings(max_inflight=9))).max_inflight == 9


async def test_a_worker_without_an_endpoint_says_which_variable_is_missing() -> None:
    with pytest.raises(InputError, match="COALQ_BASE_URL: not set"):
        open_backend(Settings())


async def test_a_toy_worker_needs_games_that_exist() -> None:
    with pytest.raises(InputError, match="COALQ_MODELS"):
        open_backend(Settings(backend="toy"))
    with pytest.raises(InputError, match="addditive"):
        open_backend(Settings(backend="toy", models=("addditive:1",)))
