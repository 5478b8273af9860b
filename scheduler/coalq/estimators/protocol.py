"""What an estimator is: it plans coalitions and turns their utilities into values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coalq.masks import Mask

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Estimated values of all players.

    Attributes:
        values: float64, shape (n_players,).
        std_errors: Same shape; None (never zeros) where they were not estimated.
        enforced: Whether the values sum to v(N) - v(∅) by construction.
        fit_r2: Share of the utilities' variance that a fitted model explains; None for estimators that fit none.
    """

    values: Vector
    std_errors: Vector | None
    enforced: bool
    fit_r2: float | None = None


class Estimator(Protocol):
    """A reproducible plan of coalitions for one game size, and the sums over their utilities.

    Positions are the depth-first order of the prompt trie (`masks.depth_first_key` descending): position 0 is the
    grand coalition, the last one the empty coalition. Rows are the planned masks in mask order (ascending ints);
    utilities are handed over by row, so no result depends on the order in which they were measured.
    """

    @property
    def name(self) -> str:
        """Name as users write it."""
        ...

    @property
    def estimands(self) -> frozenset[str]:
        """What it can estimate."""
        ...

    @property
    def n_planned(self) -> int:
        """Number of distinct coalitions, the empty and the grand one included."""
        ...

    def positions(self, start: int, stop: int) -> Sequence[Mask]:
        """Masks of the positions from `start` up to `stop`, computed for that range only."""
        ...

    def row(self, mask: Mask) -> int:
        """Row of a planned mask.

        Raises:
            KeyError: If the mask is not planned.
        """
        ...

    def estimate(self, utilities: Vector, *, variances: Vector | None = None) -> Estimate:
        """Turn utilities into values.

        Args:
            utilities: float64, shape (n_planned,), by row.
            variances: Estimated variance of each utility, same shape, if there were repeated samples.

        Raises:
            ValueError: If the shape is wrong or a utility is not finite.
        """
        ...
