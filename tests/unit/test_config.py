"""A request's sharing of generations, and how a stored manifest keys them."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import ValidationError

from coalq.config import Manifest, RunConfig
from coalq.generation import GenerationConfig
from manifests import words_manifest


@pytest.mark.parametrize(
    ("dedup", "temperature", "enabled"),
    [("auto", 0, True), ("auto", 0.7, False), ("on", 0.7, True), ("off", 0, False)],
)
def test_equal_prompts_are_shared_by_default_exactly_at_temperature_0(
    dedup: Literal["auto", "on", "off"], temperature: float, enabled: bool
) -> None:
    config = RunConfig(model="m", dedup=dedup, generation=GenerationConfig(temperature=temperature))

    assert config.dedup_enabled is enabled


@pytest.mark.parametrize(("fresh", "salt"), [(False, ""), (True, "0123456789abcdef")])
def test_a_fresh_run_shares_nothing_with_earlier_ones(fresh: bool, salt: str) -> None:
    manifest = words_manifest(3).model_copy(update={"fresh": fresh})

    assert manifest.key_scheme.salt == salt


def test_a_manifest_survives_its_way_through_the_archive() -> None:
    manifest = words_manifest(3, samples=2)

    assert Manifest.model_validate(manifest.model_dump(mode="json")) == manifest


def test_a_manifest_of_another_version_is_not_read() -> None:
    stored = words_manifest(2).model_dump(mode="json")

    with pytest.raises(ValidationError, match="manifest_version"):
        Manifest.model_validate(stored | {"manifest_version": 2})
