"""Client of an OpenAI-compatible chat endpoint (vLLM, SGLang, llama.cpp, Ollama, OpenAI).

One request, one answer or one classified error; retries are the worker's. aiohttp and orjson directly: an eighth of
the CPU time per completion of the next best client measured.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from coalq.conversation import ConversationSnapshot
from coalq.endpoint_url import api_root, without_credentials
from coalq.errors import InputError, PermanentError, TransientError
from coalq.generation import Generation, GenerationConfig
from coalq_workers.backends.replies import parse_chat_reply, reply_error

_CONNECT_TIMEOUT_S = 10.0
_LOOK_LIMITS = aiohttp.ClientTimeout(total=10.0)


class ChatBackend:
    """Asks one endpoint. Made and used inside one running event loop.

    Args:
        base_url: The endpoint, e.g. `http://127.0.0.1:8000/v1`.
        api_key: Sent as a bearer token; never logged.
        timeout_s: Limit of one whole request, seconds.
    """

    def __init__(self, base_url: str, *, api_key: str | None = None, timeout_s: float = 600.0) -> None:
        self._root = api_root(base_url)
        headers = {"Content-Type": "application/json"}
        api_key = api_key.strip() if api_key else None
        self._key = api_key.encode() if api_key else b""
        if api_key and urlsplit(self._root).username is not None:
            raise InputError("COALQ_BASE_URL holds a login and COALQ_API_KEY is set: only one of them can be sent")
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._session = aiohttp.ClientSession(
            headers=headers,
            # The in-flight limit is the scheduler's; a second one here would only hide requests from it.
            connector=aiohttp.TCPConnector(limit=0),
        )
        self._limits = aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_TIMEOUT_S)

    @property
    def endpoint(self) -> str:
        """The endpoint's URL without credentials."""
        return without_credentials(self._root)

    async def generate(self, snapshot: ConversationSnapshot, *, model: str, generation: GenerationConfig) -> Generation:
        """One POST to `/chat/completions`.

        Raises:
            PermanentError: HTTP 4xx that names this request, a content filter, a reply without text.
            TransientError: Everything that may pass, with the endpoint's own words.
        """
        body = orjson.dumps(
            {"model": model, "messages": snapshot.messages, "stream": False, **generation.request_fields()}
        )
        started = time.perf_counter()
        status, headers, raw = await self._exchange("POST", f"{self._root}/chat/completions", body, limits=self._limits)
        elapsed_ms = (time.perf_counter() - started) * 1000
        if status != 200:
            retry_after = headers.get("Retry-After")
            raise reply_error(status, self._without_key(raw), retry_after=retry_after, endpoint=self.endpoint)
        return parse_chat_reply(raw, endpoint=self.endpoint, elapsed_ms=elapsed_ms)

    async def models(self) -> tuple[str, ...]:
        """Ids that `GET /models` lists.

        Raises:
            TransientError: If the endpoint does not answer or the answer is not a model list.
        """
        listed = await self._look(f"{self._root}/models")
        try:
            return tuple(str(entry["id"]) for entry in listed["data"])
        except (KeyError, TypeError) as error:
            raise TransientError(f"{self.endpoint}/models: not a list of models") from error

    async def capacity(self) -> int | None:
        """llama.cpp's slots, from `GET /props` beside the API; None for other servers."""
        server = self._root.removesuffix("/v1")
        try:
            slots = (await self._look(f"{server}/props")).get("total_slots")
        except (TransientError, PermanentError):
            return None
        return slots if isinstance(slots, int) and slots > 0 else None

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    def _without_key(self, words: bytes) -> bytes:
        """Endpoints repeat a key that they refuse; it must reach neither the archive nor a log."""
        return words.replace(self._key, b"***") if self._key else words

    async def _look(self, url: str) -> dict[str, Any]:
        status, _, raw = await self._exchange("GET", url, None, limits=_LOOK_LIMITS)
        if status != 200:
            words = self._without_key(raw)
            raise reply_error(status, words, retry_after=None, endpoint=without_credentials(url))
        try:
            answer = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise TransientError(f"{without_credentials(url)}: the answer is not JSON") from error
        if not isinstance(answer, dict):
            raise TransientError(f"{without_credentials(url)}: the answer is not a JSON object")
        return answer

    async def _exchange(
        self, method: str, url: str, body: bytes | None, *, limits: aiohttp.ClientTimeout
    ) -> tuple[int, Mapping[str, str], bytes]:
        try:
            async with self._session.request(method, url, data=body, timeout=limits) as response:
                return response.status, response.headers, await response.read()
        except TimeoutError as error:
            raise TransientError(f"{without_credentials(url)}: no answer in time", may_be_prompt=True) from error
        except aiohttp.ClientError as error:
            raise TransientError(f"{without_credentials(url)}: {error or type(error).__name__}") from error
