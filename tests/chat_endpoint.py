"""A real HTTP endpoint for tests that speaks the chat API and records what it is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from aiohttp import web

Respond = Callable[[dict[str, Any]], Awaitable[web.StreamResponse]]


def completion(text: str) -> web.Response:
    """A chat completion as OpenAI-compatible servers answer it."""
    return web.json_response(
        {
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1},
        }
    )


class ChatEndpoint:
    """Serves `/v1/chat/completions` and `/v1/models` on a free loopback port while it is open.

    Args:
        respond: Makes the reply to one request body.
        models: What `/v1/models` lists.
    """

    def __init__(self, respond: Respond, *, models: tuple[str, ...] = ("m",)) -> None:
        self._respond = respond
        self._models = models
        self.bodies: list[dict[str, Any]] = []
        self.authorizations: list[str | None] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._list)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.authorizations.append(request.headers.get("Authorization"))
        return await self._respond(body)

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": model} for model in self._models]})
