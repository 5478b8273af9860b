"""From records to an attribution."""

from __future__ import annotations

import random

import numpy as np
import pytest

from coalq.attribution import Attribution, UtilityRecord, attribute
from coalq.errors import RunFailedError
from coalq.outcome import Outcome
from coalq.toy import parse_toy
from manifests import words_manifest


def records(model: str, n_players: int, *, samples: int = 1) -> list[UtilityRecord]:
    game = parse_toy(model)
    return [
        UtilityRecord(mask, sample, Outcome.EXECUTED, game.worth({i for i in range(n_players) if mask >> i & 1}))
        for mask in range(1 << n_players)
        for sample in range(samples)
    ]


def failed(record: UtilityRecord, error: str) -> UtilityRecord:
    return UtilityRecord(record.mask, record.sample, Outcome.FAILED, None, error)


def test_an_additive_game_is_attributed_exactly() -> None:
    attribution = attribute(words_manifest(4), records("additive:1,2,4,8", 4))

    assert attribution.values.tolist() == [1, 2, 4, 8]
    assert (attribution.empty_value, attribution.grand_value) == (0, 15)
    assert attribution.efficiency_gap == 0
    assert (attribution.n_used, attribution.n_missing) == (16, 0)
    assert attribution.std_errors is None
    assert attribution.noise_sd is None
    assert attribution.warnings == ()
    assert (attribution.estimator, attribution.estimand, attribution.value_function) == ("exact", "shapley", "number")
    assert attribution.enforced
    assert [player.text for player in attribution.players] == ["p0", "p1", "p2", "p3"]


def test_the_order_of_the_records_does_not_change_a_bit() -> None:
    generator = random.Random(5)  # noqa: S311 - any fixed shuffle will do
    one = [
        UtilityRecord(mask, sample, Outcome.EXECUTED, generator.random()) for mask in range(64) for sample in range(3)
    ]
    manifest = words_manifest(6, samples=3)

    shuffled = generator.sample(one, len(one))

    straight, mixed = attribute(manifest, one), attribute(manifest, shuffled)
    assert straight.values.tobytes() == mixed.values.tobytes()
    assert straight.noise_sd == mixed.noise_sd


def test_the_top_players_are_those_of_largest_absolute_value() -> None:
    attribution = attribute(words_manifest(4), records("additive:1,-8,4,-4", 4))

    assert [(player.text, value) for player, value in attribution.top(3)] == [("p1", -8), ("p2", 4), ("p3", -4)]
    assert len(attribution.top(99)) == 4
    assert attribution.top(0) == ()


def test_values_cannot_be_changed_afterwards() -> None:
    attribution = attribute(words_manifest(2), records("additive:1,2", 2))

    with pytest.raises(ValueError, match="read-only"):
        attribution.values[0] = 3


@pytest.mark.parametrize("model", ["additive:0,0,0", "threshold:99;1,2,3"])
def test_utilities_that_never_vary_are_no_signal(model: str) -> None:
    attribution = attribute(words_manifest(3), records(model, 3))

    assert [warning.partition(":")[0] for warning in attribution.warnings] == ["no signal"]
    assert attribution.values.tolist() == [0, 0, 0]


def noisy(*, gap: float, spread: float) -> Attribution:
    """Two players; every coalition is measured at ± spread around its worth."""
    made = [
        UtilityRecord(mask, sample, Outcome.EXECUTED, gap * (mask == 3) + spread * (1 - 2 * sample))
        for mask in range(4)
        for sample in (0, 1)
    ]
    return attribute(words_manifest(2, samples=2), made)


def test_repeated_samples_are_averaged_and_tell_the_noise() -> None:
    attribution = noisy(gap=10, spread=0.5)

    assert attribution.values.tolist() == [5, 5]
    # Two samples at ± 0.5 have a variance of 0.5, their mean one of 0.25.
    assert attribution.noise_sd == pytest.approx(0.5)
    # Each value is a sum of four means with weights of one half.
    assert attribution.std_errors == pytest.approx(np.full(2, 0.5))
    assert attribution.warnings == ()


def test_a_gap_within_the_noise_is_no_signal() -> None:
    assert "three noise deviations" in noisy(gap=1.4, spread=0.5).warnings[0]
    assert noisy(gap=1.6, spread=0.5).warnings == ()


def test_a_failed_record_means_no_attribution_and_the_error_is_told() -> None:
    made = records("additive:1,2,4", 3)

    with pytest.raises(RunFailedError, match=r"of 8 records 2 failed and 1 are missing.*first error: context too long"):
        attribute(
            words_manifest(3), [*made[:5], failed(made[5], "context too long"), failed(made[6], "content filter")]
        )


def test_one_missing_sample_is_not_made_up_by_the_others() -> None:
    with pytest.raises(RunFailedError, match="of 16 records 0 failed and 1 are missing"):
        attribute(words_manifest(3, samples=2), records("additive:1,2,4", 3, samples=2)[:-1])
