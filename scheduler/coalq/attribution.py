"""From archived utilities to the attribution of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from coalq.config import Manifest
from coalq.errors import RunFailedError
from coalq.estimators import Estimate, Estimator, make_estimator
from coalq.estimators.protocol import Vector
from coalq.masks import Mask, grand_mask
from coalq.outcome import Outcome
from coalq.template import Player

NO_SIGNAL_DEVIATIONS = 3.0
"""v(N) and v(∅) closer than this many noise deviations are not told apart."""


@dataclass(frozen=True, slots=True)
class UtilityRecord:
    """One record as the attribution needs it. `utility` is None exactly when the outcome is `failed`."""

    mask: Mask
    sample: int
    outcome: Outcome
    utility: float | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Losses:
    """Records that an attribution would need and that are not there.

    Attributes:
        n_planned: Records of the whole plan.
        n_failed: Records that failed.
        n_absent: Records that were never written.
        n_coalitions: Coalitions that lack at least one sample.
        first_error: Of the first failed record in mask order; None if none failed.
    """

    n_planned: int
    n_failed: int
    n_absent: int
    n_coalitions: int
    first_error: str | None

    def __str__(self) -> str:
        told = (
            f"of {self.n_planned:,} records {self.n_failed:,} failed and {self.n_absent:,} are missing, "
            "and exact values need every one"
        )
        return told if self.first_error is None else f"{told}; first error: {self.first_error}"


@dataclass(frozen=True, slots=True, eq=False)
class Attribution:
    """How much each player contributed to the answer.

    Attributes:
        values: float64, shape (n_players,), read-only; same order as `players`.
        std_errors: Same shape; None where they were not estimated.
        empty_value: v(∅).
        grand_value: v(N).
        value_function: The value as it was asked for, e.g. `contains:14`.
        enforced: Whether the values sum to v(N) - v(∅) by construction.
        fit_r2: None for estimators that fit no model.
        noise_sd: Standard deviation that sampling leaves in a coalition's utility (root mean square over coalitions
            of the standard error of the mean of its samples); None with one sample.
        n_used: Coalitions that entered.
        n_missing: Planned coalitions that did not.
        warnings: Sentences for the reader.
    """

    values: Vector
    std_errors: Vector | None
    players: tuple[Player, ...]
    empty_value: float
    grand_value: float
    estimand: str
    estimator: str
    value_function: str
    enforced: bool
    fit_r2: float | None
    noise_sd: float | None
    n_used: int
    n_missing: int
    warnings: tuple[str, ...] = ()

    @property
    def efficiency_gap(self) -> float:
        """Σφ - (v(N) - v(∅)): rounding only where `enforced`."""
        return math.fsum([*self.values.tolist(), self.empty_value, -self.grand_value])

    def top(self, k: int) -> tuple[tuple[Player, float], ...]:
        """The `k` players of largest absolute value, largest first; equal ones in reading order."""
        ranked = sorted(range(len(self.players)), key=lambda i: (-abs(self.values[i]), i))
        return tuple((self.players[i], float(self.values[i])) for i in ranked[: max(0, k)])


def attribute(manifest: Manifest, records: Iterable[UtilityRecord]) -> Attribution:
    """Compute a run's attribution from its records, which may come in any order.

    A coalition's utility is the mean of its samples, added in sample order. Nothing is imputed.

    Raises:
        RunFailedError: If a record is missing or failed; says how many and the first error.
    """
    estimator = make_estimator(manifest.estimator, manifest.n_players, budget=manifest.budget, seed=manifest.seed)
    samples, losses = _collect(manifest, estimator, records)
    if losses.n_coalitions:
        raise RunFailedError(f"no attribution: {losses}")
    utilities = _sum_over_samples(samples) / len(samples)
    variances = _variances_of_means(samples, utilities)
    estimate = estimator.estimate(utilities, variances=variances)
    empty_value = float(utilities[estimator.row(0)])
    grand_value = float(utilities[estimator.row(grand_mask(manifest.n_players))])
    noise_sd = None if variances is None else math.sqrt(float(variances.mean()))
    return Attribution(
        values=_read_only(estimate.values),
        std_errors=None if estimate.std_errors is None else _read_only(estimate.std_errors),
        players=manifest.players,
        empty_value=empty_value,
        grand_value=grand_value,
        estimand=manifest.estimand,
        estimator=manifest.estimator,
        value_function=manifest.value,
        enforced=estimate.enforced,
        fit_r2=estimate.fit_r2,
        noise_sd=noise_sd,
        n_used=estimator.n_planned,
        n_missing=0,
        warnings=tuple(_signal_warnings(utilities, gap=grand_value - empty_value, noise_sd=noise_sd)),
    )


def count_losses(manifest: Manifest, records: Iterable[UtilityRecord]) -> Losses:
    """What keeps a run from having an attribution; the first error is that of the first failed record given."""
    estimator = make_estimator(manifest.estimator, manifest.n_players, budget=manifest.budget, seed=manifest.seed)
    return _collect(manifest, estimator, records)[1]


def _collect(manifest: Manifest, estimator: Estimator, records: Iterable[UtilityRecord]) -> tuple[Vector, Losses]:
    """Utilities of shape (samples, planned coalitions), by sample and row, NaN where there is none; and those lost."""
    samples = np.full((manifest.samples_per_coalition, estimator.n_planned), np.nan)
    n_failed, first_error = 0, None
    for record in records:
        if record.outcome is Outcome.FAILED or record.utility is None:
            n_failed += 1
            first_error = first_error or record.error or "unknown"
        else:
            samples[record.sample, estimator.row(record.mask)] = record.utility
    lost = np.isnan(samples)
    return samples, Losses(
        n_planned=samples.size,
        n_failed=n_failed,
        n_absent=int(lost.sum()) - n_failed,
        n_coalitions=int(lost.any(axis=0).sum()),
        first_error=first_error,
    )


def _sum_over_samples(samples: Vector) -> Vector:
    total: Vector = samples[0].copy()
    for sample in samples[1:]:
        total += sample
    return total


def _variances_of_means(samples: Vector, means: Vector) -> Vector | None:
    """Estimated variance of each coalition's mean, shape (planned coalitions,); None if there is one sample."""
    n_samples = len(samples)
    if n_samples == 1:
        return None
    squares: Vector = np.zeros_like(means)
    for sample in samples:
        squares += (sample - means) ** 2
    squares /= (n_samples - 1) * n_samples
    return squares


def _signal_warnings(utilities: Vector, *, gap: float, noise_sd: float | None) -> Iterable[str]:
    if utilities.min() == utilities.max():
        yield "no signal: every coalition has the same utility, so the value function sees no difference"
    elif noise_sd is not None and abs(gap) < NO_SIGNAL_DEVIATIONS * noise_sd:
        yield "no signal: v(N) and v(∅) differ by less than three noise deviations; more samples would help"


def _read_only(values: Vector) -> Vector:
    values.setflags(write=False)
    return values


__all__ = ["Attribution", "Estimate", "Losses", "UtilityRecord", "attribute", "count_losses"]
