"""The few threads that blocking calls run in, so that the event loop never waits for a database or a broker.

Their number is the most database connections one process uses; the engine's pool is as large.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class WorkThreads:
    """Three lanes that cannot block each other: reads and leases; the writer; planning, publishing and the broker.

    A broker that is away must not hold up the renewal of leases, nor a slow flush a read.
    """

    def __init__(self) -> None:
        self._database = ThreadPoolExecutor(2, thread_name_prefix="coalq-database")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="coalq-writer")
        self._broker = ThreadPoolExecutor(1, thread_name_prefix="coalq-broker")

    async def database(
        self, call: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """Run a short database call."""
        return await _run(self._database, partial(call, *args, **kwargs))

    async def writer(
        self, call: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """Run a flush; one after another."""
        return await _run(self._writer, partial(call, *args, **kwargs))

    async def broker(
        self, call: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """Run a call that may wait for the broker."""
        return await _run(self._broker, partial(call, *args, **kwargs))

    def close(self) -> None:
        """Let running calls end; start no more."""
        for pool in (self._database, self._writer, self._broker):
            pool.shutdown(wait=False, cancel_futures=True)


async def _run(pool: ThreadPoolExecutor, call: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(pool, call)
