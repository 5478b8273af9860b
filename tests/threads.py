"""Runs functions at the same time, with their results and errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def run_together(*functions: Callable[[], T], within_s: float = 40) -> list[T]:
    """Start all functions at the same moment, each in a thread; returns what they return, in their order.

    The threads are daemons: one that hangs fails the test and does not keep the process alive.
    """
    gate = threading.Barrier(len(functions))
    return [future.result(within_s) for future in [in_thread(function, gate=gate) for function in functions]]


def in_thread(function: Callable[[], T], *, gate: threading.Barrier | None = None) -> Future[T]:
    """Start a function in a thread, once everybody is at the gate if there is one."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            if gate is not None:
                gate.wait()
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - told to whoever asks for the result
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
