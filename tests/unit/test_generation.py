"""Generation settings: bounds, the ancestor's alias, what is sent."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from coalq.generation import GenerationConfig


def test_the_ancestors_name_of_max_tokens_is_understood() -> None:
    assert GenerationConfig(max_new_tokens=7) == GenerationConfig(max_tokens=7)  # type: ignore[call-arg]


def test_every_setting_is_sent_even_the_neutral_ones() -> None:
    assert GenerationConfig().request_fields() == {"max_tokens": 128, "temperature": 0.0, "top_p": 1.0}


@pytest.mark.parametrize(
    "settings",
    [{"max_tokens": 0}, {"temperature": -0.1}, {"temperature": float("nan")}, {"top_p": 0.0}, {"stop": ["x"]}],
)
def test_settings_out_of_bounds_or_unknown_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GenerationConfig.model_validate(settings)
