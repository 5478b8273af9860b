"""Exact values obey Shapley's axioms and match an oracle that follows the formula word for word."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coalq.estimators import ExactEstimator
from coalq.estimators.protocol import Vector

numbers = st.floats(-1e3, 1e3, width=32)


def games(max_players: int, *, copies: int = 1) -> st.SearchStrategy[tuple[int, list[Vector]]]:
    def of(n_players: int) -> st.SearchStrategy[tuple[int, list[Vector]]]:
        game = st.lists(numbers, min_size=1 << n_players, max_size=1 << n_players).map(np.array)
        return st.tuples(st.just(n_players), st.lists(game, min_size=copies, max_size=copies))

    return st.integers(1, max_players).flatmap(of)


def shapley(n_players: int, utilities: Vector) -> Vector:
    return ExactEstimator(n_players).estimate(utilities).values


def by_the_formula(n_players: int, utilities: Vector) -> list[float]:
    """φ_i = Σ_S |S|!(n-|S|-1)!/n! [v(S ∪ i) - v(S)], in exact fractions."""
    worth = [Fraction(float(utility)) for utility in utilities]
    values = []
    for player in range(n_players):
        others = [other for other in range(n_players) if other != player]
        value = Fraction(0)
        for size in range(n_players):
            for coalition in combinations(others, size):
                mask = sum(1 << other for other in coalition)
                value += (worth[mask | 1 << player] - worth[mask]) / (n_players * comb(n_players - 1, size))
        values.append(float(value))
    return values


@given(games(7))
def test_values_match_the_formula(game: tuple[int, list[Vector]]) -> None:
    n_players, (utilities,) = game

    assert shapley(n_players, utilities) == pytest.approx(by_the_formula(n_players, utilities), abs=1e-9, rel=1e-12)


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_values_of_ten_players_match_the_formula(seed: int) -> None:
    utilities = np.random.default_rng(seed).normal(size=1 << 10)

    assert shapley(10, utilities) == pytest.approx(by_the_formula(10, utilities), abs=1e-12)


@given(games(8))
def test_efficiency_values_sum_to_what_the_grand_coalition_adds(game: tuple[int, list[Vector]]) -> None:
    n_players, (utilities,) = game

    assert shapley(n_players, utilities).sum() == pytest.approx(utilities[-1] - utilities[0], abs=1e-8)


@given(games(6), st.data())
def test_symmetry_players_that_add_the_same_get_the_same(game: tuple[int, list[Vector]], data: st.DataObject) -> None:
    n_players, (utilities,) = game
    one, other = data.draw(st.integers(0, n_players - 1)), data.draw(st.integers(0, n_players - 1))
    swapped = [_swap_bits(mask, one, other) for mask in range(1 << n_players)]

    values = shapley(n_players, (utilities + utilities[swapped]) / 2)

    assert values[one] == pytest.approx(values[other], abs=1e-9)


@given(games(6), st.data())
def test_dummy_a_player_that_changes_nothing_gets_exactly_nothing(
    game: tuple[int, list[Vector]], data: st.DataObject
) -> None:
    n_players, (utilities,) = game
    dummy = data.draw(st.integers(0, n_players - 1))

    values = shapley(n_players, utilities[[mask & ~(1 << dummy) for mask in range(1 << n_players)]])

    assert values[dummy] == 0


@given(games(6, copies=2), st.floats(-10, 10))
def test_linearity_values_of_a_sum_are_the_sum_of_values(game: tuple[int, list[Vector]], factor: float) -> None:
    n_players, (one, other) = game

    together = shapley(n_players, one + factor * other)

    apart = shapley(n_players, one) + factor * shapley(n_players, other)
    assert together == pytest.approx(apart, abs=1e-8)


def _swap_bits(mask: int, one: int, other: int) -> int:
    return mask ^ ((1 << one | 1 << other) if (mask >> one ^ mask >> other) & 1 else 0)
