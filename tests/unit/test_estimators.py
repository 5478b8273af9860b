"""Which estimator a request gets, and what the exact one computes."""

from __future__ import annotations

from itertools import permutations
from math import factorial

import numpy as np
import pytest

from coalq.config import RunConfig
from coalq.errors import InputError
from coalq.estimators import Estimator, ExactEstimator, make_estimator, resolve_estimator
from coalq.masks import mask_text
from coalq.toy import parse_toy


def request(*, estimator: str = "auto", budget: int | None = None) -> RunConfig:
    return RunConfig.model_validate({"model": "m", "estimator": estimator, "budget": budget})


def utilities(model: str, n_players: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    game = parse_toy(model)
    return np.array([game.worth({i for i in range(n_players) if mask >> i & 1}) for mask in range(1 << n_players)])


def test_exact_has_the_shape_of_an_estimator() -> None:
    estimator: Estimator = make_estimator("exact", 3, budget=8, seed=0)

    assert (estimator.name, estimator.estimands, estimator.n_planned) == ("exact", frozenset({"shapley"}), 8)


def test_positions_are_depth_first_and_any_range_can_be_asked_for() -> None:
    estimator = ExactEstimator(3)

    everything = estimator.positions(0, 8)

    assert [mask_text(mask, 3) for mask in everything] == ["111", "110", "101", "100", "011", "010", "001", "000"]
    assert estimator.positions(2, 5) == everything[2:5]
    assert estimator.positions(6, 99) == everything[6:]
    assert estimator.positions(8, 9) == []


def test_a_mask_outside_the_game_has_no_row() -> None:
    with pytest.raises(KeyError):
        ExactEstimator(3).row(8)


def test_an_additive_game_gives_its_weights_without_any_rounding() -> None:
    estimate = ExactEstimator(4).estimate(utilities("additive:1,2,4,8", 4))

    assert estimate.values.tolist() == [1, 2, 4, 8]
    assert estimate.enforced
    assert estimate.std_errors is None
    assert estimate.fit_r2 is None


def test_a_pair_shares_its_bonus_equally() -> None:
    estimate = ExactEstimator(3).estimate(utilities("pairwise:1,2,4;0-1=3;1-2=-1", 3))

    assert estimate.values == pytest.approx([2.5, 3, 3.5], abs=1e-12)


def test_one_player_gets_everything() -> None:
    assert ExactEstimator(1).estimate(np.array([0.25, 1.0])).values.tolist() == [0.75]


def test_values_are_the_mean_over_all_orders_of_arrival() -> None:
    by_mask = np.random.default_rng(7).normal(size=1 << 6)

    expected = np.zeros(6)
    for order in permutations(range(6)):
        mask = 0
        for player in order:
            expected[player] += by_mask[mask | 1 << player] - by_mask[mask]
            mask |= 1 << player

    assert ExactEstimator(6).estimate(by_mask).values == pytest.approx(expected / factorial(6), abs=1e-12)


def test_standard_errors_are_those_of_independent_utilities() -> None:
    generator = np.random.default_rng(3)
    deviations = generator.uniform(0.1, 1.0, size=8)

    predicted = ExactEstimator(3).estimate(np.zeros(8), variances=deviations**2).std_errors

    draws = generator.normal(size=(20_000, 8)) * deviations
    observed = np.std([ExactEstimator(3).estimate(draw).values for draw in draws], axis=0)
    assert predicted == pytest.approx(observed, rel=0.05)


@pytest.mark.parametrize("wrong", [np.zeros(7), np.zeros((8, 1)), np.array([0.0] * 7 + [np.nan])])
def test_utilities_that_are_not_all_there_are_refused(wrong: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
    with pytest.raises(ValueError, match=r"expected \(8,\)|finite number"):
        ExactEstimator(3).estimate(wrong)


@pytest.mark.parametrize("n_players", [0, 23])
def test_exact_takes_1_to_22_players(n_players: int) -> None:
    with pytest.raises(InputError, match="allowed are 1 to 22"):
        ExactEstimator(n_players)


def test_an_unknown_estimator_is_refused() -> None:
    with pytest.raises(InputError, match="estimator 'kernel' is unknown; allowed is: exact"):
        make_estimator("kernel", 3, budget=8, seed=0)


@pytest.mark.parametrize(
    ("n_players", "config", "budget"),
    [
        (1, request(), 2),
        (9, request(), 512),
        (9, request(budget=600), 600),
        (16, request(estimator="exact"), 65_536),
        (20, request(estimator="exact", budget=1 << 20), 1 << 20),
    ],
)
def test_exact_is_chosen_where_it_fits(n_players: int, config: RunConfig, budget: int) -> None:
    assert resolve_estimator(config, n_players) == ("exact", budget)


@pytest.mark.parametrize(
    ("n_players", "config", "message"),
    [
        (0, request(), "there is no player"),
        (10, request(), r"10 players make 2\^10 = 1,024 coalitions, more than the 512 .*--estimator exact, or fewer"),
        (18, request(), r"2\^18 = 262,144 coalitions.*--estimator exact --budget 262144, or fewer players"),
        (17, request(estimator="exact"), r"2\^17 = 131,072 coalitions; allow that many with --budget 131072"),
        (23, request(estimator="exact", budget=1 << 23), r"2\^23 = 8,388,608 coalitions; .*limited to 22 players"),
        (62, request(), r"2\^62 = 4,611,686,018,427,387,904 coalitions; "),
        (63, request(), r"63 players make 2\^63 coalitions; "),
        (20_000, request(), r"20,000 players make 2\^20000 coalitions; .*limited to 22 players"),
        (7, request(budget=100), r"budget 100 is below the 128 .*2\^7 = 128.*sentences instead of words"),
    ],
)
def test_a_game_that_is_too_large_is_refused_with_its_number_and_the_choices(
    n_players: int, config: RunConfig, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        resolve_estimator(config, n_players)
