"""One asyncio event loop in its own thread; task threads hand it coroutines and wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    """An event loop that runs until `stop`. Daemonic, so a dying process is never held by it."""

    def __init__(self, name: str = "coalq-loop") -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and wait for its result; called from any other thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def call_soon(self, function: Any, *args: object) -> None:  # noqa: ANN401 - as asyncio takes it
        """Schedule a plain call on the loop; safe from signal handlers and other threads."""
        self._loop.call_soon_threadsafe(function, *args)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Cancel what is left, stop the loop and join its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_s)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._cancel_rest()
        finally:
            self._loop.close()

    def _cancel_rest(self) -> None:
        rest = asyncio.all_tasks(self._loop)
        for task in rest:
            task.cancel()
        if rest:
            self._loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
