"""Exact Shapley values from all 2^n coalitions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coalq.errors import InputError
from coalq.estimators.protocol import Estimate, Vector
from coalq.masks import Mask

MAX_PLAYERS = 22
"""More would take over four million generations and more than a gigabyte to sum."""


@dataclass(frozen=True, slots=True)
class ExactEstimator:
    """Enumerates every coalition; the row of a mask is the mask itself."""

    n_players: int

    name: ClassVar[str] = "exact"
    estimands: ClassVar[frozenset[str]] = frozenset({"shapley"})

    def __post_init__(self) -> None:
        if not 1 <= self.n_players <= MAX_PLAYERS:
            raise InputError(f"estimator exact: {self.n_players} players; allowed are 1 to {MAX_PLAYERS}")

    @property
    def n_planned(self) -> int:
        """All 2^n coalitions."""
        return 1 << self.n_players

    def positions(self, start: int, stop: int) -> list[Mask]:
        """Masks from `start` up to `stop` in depth-first order: descending keys, read with player 0 as the top bit."""
        start, stop = max(0, start), min(self.n_planned, stop)
        keys = (self.n_planned - 1) - np.arange(start, stop, dtype=np.int64)
        masks = np.zeros_like(keys)
        for player in range(self.n_players):
            masks |= (keys >> (self.n_players - 1 - player) & 1) << player
        planned: list[Mask] = masks.tolist()
        return planned

    def row(self, mask: Mask) -> int:
        """The mask itself, as every mask is planned."""
        if not 0 <= mask < self.n_planned:
            raise KeyError(mask)
        return mask

    def estimate(self, utilities: Vector, *, variances: Vector | None = None) -> Estimate:
        """Shapley values; O(n 2^n) time, about 10 doubles per coalition of memory.

        The formula is φ_i = 1/n Σ_s mean over S of size s without i of [v(S ∪ i) - v(S)] (Shapley 1953, with the
        weights s!(n-s-1)!/n! collected by size). `numpy.bincount` adds one after another in mask order, so equal
        utilities give equal bits everywhere, and a constant marginal contribution comes out without rounding.
        Standard errors follow from independent utilities: Var φ_i = Σ_S w(S)² Var v(S).
        """
        self._check(utilities)
        sizes = np.bitwise_count(np.arange(self.n_planned // 2, dtype=np.uint32)).astype(np.intp)
        n_of_size = np.array([math.comb(self.n_players - 1, size) for size in range(self.n_players)], dtype=np.float64)
        values = np.empty(self.n_players)
        squared_errors = np.empty(self.n_players)
        for player in range(self.n_players):
            absent, present = _without_and_with(utilities, player)
            values[player] = _sum_in_order(_sum_by_size(present - absent, sizes) / n_of_size) / self.n_players
            if variances is not None:
                absent, present = _without_and_with(variances, player)
                weights = 1.0 / (self.n_players * n_of_size)
                squared_errors[player] = _sum_in_order(_sum_by_size(present + absent, sizes) * weights**2)
        std_errors = None if variances is None else np.sqrt(squared_errors)
        return Estimate(values=values, std_errors=std_errors, enforced=True)

    def _check(self, utilities: Vector) -> None:
        if utilities.shape != (self.n_planned,):
            raise ValueError(f"utilities of shape {utilities.shape}; expected ({self.n_planned},)")
        if not np.isfinite(utilities).all():
            raise ValueError("every utility must be a finite number")


def _without_and_with(by_mask: Vector, player: int) -> tuple[Vector, Vector]:
    """Entries of the coalitions without the player, and of the same coalitions with it; both in mask order."""
    pairs = by_mask.reshape(-1, 2, 1 << player)
    return pairs[:, 0, :].reshape(-1), pairs[:, 1, :].reshape(-1)


def _sum_by_size(terms: Vector, sizes: NDArray[np.intp]) -> Vector:
    return np.bincount(sizes, weights=terms).astype(np.float64, copy=False)


def _sum_in_order(terms: Vector) -> float:
    total = 0.0
    for term in terms.tolist():
        total += term
    return total
