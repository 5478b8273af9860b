"""The chat client against a real HTTP server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from chat_endpoint import ChatEndpoint, completion
from coalq.conversation import ConversationSnapshot
from coalq.endpoint_url import api_root, without_credentials
from coalq.errors import InputError, PermanentError, TransientError
from coalq.generation import Generation, GenerationConfig
from coalq_workers.backends import ChatBackend
from servers import free_port

PROMPT = ConversationSnapshot.from_prompt("Within how many days?")


async def ask(url: str, *, api_key: str | None = None, timeout_s: float = 5) -> Generation:
    backend = ChatBackend(url, api_key=api_key, timeout_s=timeout_s)
    try:
        return await backend.generate(PROMPT, model="m", generation=GenerationConfig(max_tokens=12))
    finally:
        await backend.close()


async def answer_yes(_: dict[str, Any]) -> web.Response:
    return completion("yes")


async def test_a_request_carries_model_messages_and_every_setting() -> None:
    async with ChatEndpoint(answer_yes) as endpoint:
        generation = await ask(endpoint.url, api_key="sk-1")

    assert generation.text == "yes"
    assert generation.elapsed_ms > 0
    assert endpoint.bodies == [
        {
            "model": "m",
            "messages": [{"role": "user", "content": "Within how many days?"}],
            "stream": False,
            "max_tokens": 12,
            "temperature": 0.0,
            "top_p": 1.0,
        }
    ]
    assert endpoint.authorizations == ["Bearer sk-1"]


async def test_no_key_is_sent_when_there_is_none() -> None:
    async with ChatEndpoint(answer_yes) as endpoint:
        await ask(endpoint.url)

    assert endpoint.authorizations == [None]


async def test_a_rejection_raises_with_the_endpoints_words() -> None:
    async def reject(_: dict[str, Any]) -> web.Response:
        return web.json_response({"error": {"message": "maximum context length is 8"}}, status=400)

    async with ChatEndpoint(reject) as endpoint:
        with pytest.raises(PermanentError, match="HTTP 400: maximum context length is 8"):
            await ask(endpoint.url)


async def test_a_key_that_the_endpoint_repeats_is_not_passed_on() -> None:
    async def refuse(_: dict[str, Any]) -> web.Response:
        return web.json_response({"error": {"message": "Incorrect API key provided: sk-hush"}}, status=401)

    async with ChatEndpoint(refuse) as endpoint:
        with pytest.raises(TransientError, match=r"key provided: \*\*\*"):
            await ask(endpoint.url, api_key="sk-hush\n")

    assert endpoint.authorizations == ["Bearer sk-hush"]


async def test_a_full_endpoint_says_how_long_to_wait() -> None:
    async def full(_: dict[str, Any]) -> web.Response:
        return web.json_response({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "9"})

    async with ChatEndpoint(full) as endpoint:
        with pytest.raises(TransientError, match="slow down") as caught:
            await ask(endpoint.url)

    assert caught.value.retry_after_s == 9


async def test_an_answer_that_does_not_come_in_time_may_pass() -> None:
    asked_enough = asyncio.Event()

    async def hang(_: dict[str, Any]) -> web.Response:
        await asked_enough.wait()
        return completion("late")

    async with ChatEndpoint(hang) as endpoint:
        with pytest.raises(TransientError, match="no answer in time"):
            await ask(endpoint.url, timeout_s=0.2)
        asked_enough.set()


async def test_a_cut_connection_is_never_an_answer() -> None:
    async def half(body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        request = endpoint.request
        assert request is not None
        await response.prepare(request)
        await response.write(b'{"choices": [')
        assert request.transport is not None
        request.transport.abort()
        return response

    endpoint = _CuttingEndpoint(half)
    async with endpoint:
        with pytest.raises(TransientError):
            await ask(endpoint.url)


class _CuttingEndpoint(ChatEndpoint):
    """Keeps the request at hand, so that its connection can be cut in mid-reply."""

    request: web.Request | None = None

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self.request = request
        return await super()._complete(request)


async def test_a_dead_endpoint_may_come_back() -> None:
    with pytest.raises(TransientError, match=r"Cannot connect|refused"):
        await ask(f"http://127.0.0.1:{free_port()}/v1")


async def test_models_are_listed_and_another_servers_capacity_is_unknown() -> None:
    async with ChatEndpoint(answer_yes, models=("a", "b")) as endpoint:
        backend = ChatBackend(endpoint.url)
        try:
            assert await backend.models() == ("a", "b")
            assert await backend.capacity() is None
        finally:
            await backend.close()


@pytest.mark.parametrize(
    ("given", "root"),
    [
        ("http://h:1", "http://h:1/v1"),
        ("http://h:1/", "http://h:1/v1"),
        ("http://h:1/v1/", "http://h:1/v1"),
        ("https://h/api/v3", "https://h/api/v3"),
    ],
)
def test_a_bare_host_gets_the_usual_path(given: str, root: str) -> None:
    assert api_root(given) == root


async def test_a_login_in_the_url_and_a_key_cannot_both_be_sent() -> None:
    with pytest.raises(InputError, match="COALQ_BASE_URL holds a login") as caught:
        ChatBackend("http://user:secret@h:1/v1", api_key="sk-1")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["h:1", "ftp://h", "http://", "", "http://h:99999/v1", "http://h:port/v1", "http://h/v1 "]
)
def test_a_base_url_that_is_none_is_named(url: str) -> None:
    with pytest.raises(InputError, match="COALQ_BASE_URL"):
        api_root(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://user:hush@h:1/v1", "http://h:1/v1"),
        ("http://user:hu@sh@h/v1", "http://h/v1"),
        ("user:hush@h", "h"),
        ("http://h/v1", "http://h/v1"),
    ],
)
def test_a_login_in_the_url_is_never_shown(url: str, shown: str) -> None:
    assert without_credentials(url) == shown
