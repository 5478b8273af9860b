"""Run parameters: layers, spellings, errors."""

from __future__ import annotations

import pytest

from coalq.config import RunConfig
from coalq.errors import InputError, NotBuiltError
from coalq.generation import GenerationConfig
from coalq.run_options import checked_options, run_config


def test_later_layers_win_and_generation_is_merged_key_by_key() -> None:
    config = run_config(
        {"model": "from the environment", "value": "exact"},
        {"value": "number", "generation": {"max_new_tokens": 12, "temperature": 0}},
        {"model": "from a flag", "generation": {"max_tokens": 9}},
    )

    assert config == RunConfig(
        model="from a flag", value="number", generation=GenerationConfig(max_tokens=9, temperature=0)
    )


def test_a_missing_model_is_asked_for() -> None:
    with pytest.raises(InputError, match="no model is named: give --model"):
        run_config({"value": "exact"})


@pytest.mark.parametrize(("given", "meant"), [(True, "on"), (False, "off"), ("auto", "auto")])
def test_what_yaml_makes_of_on_and_off_is_understood(given: object, meant: str) -> None:
    assert checked_options({"dedup": given}, source="file") == {"dedup": meant}


@pytest.mark.parametrize("roles", ["user,system", "user, system", ["user", "system"], ("user", "system")])
def test_roles_are_a_list_or_names_with_commas(roles: object) -> None:
    assert run_config({"model": "m", "roles": roles}).roles == ("user", "system")


def test_a_generation_config_is_taken_as_it_is() -> None:
    assert checked_options({"generation": GenerationConfig(max_tokens=3)}, source="x") == {
        "generation": {"max_tokens": 3}
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"roles": "human"}, "flags: roles: 'human' is not a role; allowed are: system, developer, user, assistant"),
        ({"roles": []}, "flags: roles: '' is not a role"),
        ({"budget": 1}, "flags: budget: must be greater than or equal to 2, not 1"),
        ({"model": ""}, "flags: model: is empty"),
        ({"generation": 3}, "flags: generation: must be a mapping such as"),
        ({"group_size": 512}, "flags: group_size: must be less than or equal to 256, not 512"),
        ({"value": "contains:"}, "flags: value 'contains:': contains needs the text to look for"),
        ({"model": "a\x1b[2Jb"}, "flags: model: the control character U+001B is not allowed"),
        ({"name": "a\nb"}, "flags: name: the control character U+000A is not allowed"),
        ({"name": "@last"}, "flags: name: must not begin with @"),
        ({"generation": {"max_tokens": True}}, "flags: generation.max_tokens: must be a valid integer, not True"),
        ({"generation": {"max_tokens": 1_000_001}}, "flags: generation.max_tokens: must be less than or equal to 1000"),
        ({"generation": {"temperature": True}}, "flags: generation.temperature: must be a valid number, not True"),
        ({"seed": 2**63}, "flags: seed: must be less than or equal to"),
        ({"budget": True}, "flags: budget: must be a valid integer, not True"),
        ({"sample": 3}, "flags: unknown key 'sample'; did you mean"),
    ],
)
def test_an_error_names_parameter_value_and_what_is_allowed(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as raised:
        run_config({"model": "m"}, options, source="flags")

    assert str(raised.value).startswith(message)


def test_a_value_that_is_not_built_stays_a_not_built_error() -> None:
    with pytest.raises(NotBuiltError, match="flags: value 'cosine' is not built yet"):
        run_config({"model": "m", "value": "cosine"}, source="flags")


def test_an_error_begins_as_the_caller_names_the_parameter() -> None:
    with pytest.raises(InputError, match=r"^--generation\.max_tokens: must be greater"):
        checked_options({"generation": {"max_tokens": 0}}, source="flags", place=lambda path: f"--{path}")
