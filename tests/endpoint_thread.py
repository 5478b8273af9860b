"""Serves a chat endpoint from a thread, for tests whose own code is not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType

from chat_endpoint import ChatEndpoint


class EndpointThread:
    """Opens the endpoint in an event loop of its own; entering gives the endpoint."""

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self._endpoint = endpoint
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> ChatEndpoint:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._endpoint.__aenter__(), self._loop).result(10)
        return self._endpoint

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._endpoint.__aexit__(None, None, None), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
