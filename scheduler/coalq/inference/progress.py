"""How a caller in the same process is told about progress."""

from __future__ import annotations

from typing import Protocol


class CoalitionProgress(Protocol):
    """Told the plan, then every finished job; both counts grow over all calls of one scheduler."""

    def on_coalitions_planned(self, total: int) -> None:
        """`total` jobs are planned so far."""
        ...

    def on_coalition_finished(self, done: int, total: int) -> None:
        """`done` of `total` planned jobs have their record."""
        ...


class NullCoalitionProgress:
    """Tells nobody."""

    def on_coalitions_planned(self, total: int) -> None:
        """Do nothing."""

    def on_coalition_finished(self, done: int, total: int) -> None:
        """Do nothing."""
