"""Tells whether the process that started an embedded stack still lives: it holds a lock in the stack's folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = "lock"


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Hold the lock of a stack's folder. The kernel gives it up when this process dies, however that happens."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)  # not inherited by children
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def is_held(folder: Path) -> bool:
    """Whether the process of that stack lives; False too if the folder is gone."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
