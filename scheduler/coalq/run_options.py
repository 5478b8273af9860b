"""Run parameters as users give them, in the input file or as flags, checked with one clear error each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from pydantic import ValidationError

from coalq.config import RunConfig
from coalq.errors import InputError, NotBuiltError
from coalq.generation import GenerationConfig
from coalq.input_errors import check_keys, first_fault, shown
from coalq.values import make_value

Place = Callable[[str], str]
"""From a parameter, e.g. `generation.max_tokens`, to how an error about it begins: its file, its flag, its variable."""

OPTION_NAMES = tuple(RunConfig.model_fields)
"""Names of all run parameters."""

NOT_BUILT_OPTIONS = frozenset({"tolerance", "max_calls", "max_cost", "placeholder", "generation_seed", "extra_body"})
"""Documented run parameters that this version does not have."""

ROLES = ("system", "developer", "user", "assistant")
"""Roles of messages that this version takes."""

_GENERATION_NAMES = ("max_tokens", "max_new_tokens", "temperature", "top_p")
_NOT_BUILT_GENERATION = frozenset(
    {"stop", "tools", "tool_choice", "response_format", "extra_body", "seed", "generation_seed", "logprobs"}
    | {"top_logprobs", "max_completion_tokens", "n", "frequency_penalty", "presence_penalty", "logit_bias"}
)
_NOT_BUILT_VALUES = {
    "players": frozenset({"lines", "paragraphs", "messages"}),
    "absence": frozenset({"pad", "neutral"}),
    "empty": frozenset({"placeholder"}),
    "estimand": frozenset({"banzhaf"}),
    "estimator": frozenset({"kernel", "permutation"}),
}


def run_config(*layers: Mapping[str, Any], source: str = "run") -> RunConfig:
    """Merge run parameters, later layers over earlier ones (`generation` key by key), and check the result.

    Args:
        *layers: For example the environment's model, the file's parameters, the flags given.
        source: What error messages name.

    Raises:
        NotBuiltError: Names a documented parameter or value that this version does not have.
        InputError: Names the parameter, its value and what is allowed.
    """
    place = _in(source)
    merged: dict[str, Any] = {}
    for layer in layers:
        options = checked_options(layer, source=source)
        if "generation" in options:
            options["generation"] = {**merged.get("generation", {}), **options["generation"]}
        merged.update(options)
    if "model" not in merged:
        raise InputError("no model is named: give --model, `model:` in the input file, or COALQ_MODEL")
    return _validated(merged, place=place)


def checked_options(options: Mapping[str, Any], *, source: str, place: Place | None = None) -> dict[str, Any]:
    """The parameters given, in a uniform spelling, each one valid by itself; nothing is filled in.

    Args:
        options: By `RunConfig` field name.
        source: What error messages name.
        place: How they name a parameter; `source` and its name by default.

    Raises:
        InputError: As `run_config`.
    """
    place = place or _in(source)
    check_keys(options, where=source, allowed=OPTION_NAMES, not_built=NOT_BUILT_OPTIONS)
    uniform = {name: _uniform(name, value, source=source, place=place) for name, value in options.items()}
    _validated({"model": "unnamed", **uniform}, place=place)
    return uniform


def _in(source: str) -> Place:
    return lambda path: f"{source}: {path}"


def _validated(options: Mapping[str, Any], *, place: Place) -> RunConfig:
    try:
        config = RunConfig.model_validate(options)
    except ValidationError as error:
        path, sentence = first_fault(error)
        raise InputError(f"{place(path)}: {sentence}") from error
    for role in config.roles or ("",):
        if role not in ROLES:
            raise InputError(f"{place('roles')}: {role!r} is not a role; allowed are: {', '.join(ROLES)}")
    try:
        make_value(config.value)
    except InputError as error:
        raise type(error)(f"{place('value')} {str(error).removeprefix('value ')}") from error
    return config


def _uniform(name: str, value: Any, *, source: str, place: Place) -> Any:  # noqa: ANN401 - whatever a file holds
    """One parameter in the spelling that `RunConfig` reads.

    Raises:
        NotBuiltError: For a documented value that this version does not have.
    """
    number_for_empty = name == "empty" and isinstance(value, int | float)
    if number_for_empty or (isinstance(value, str) and value in _NOT_BUILT_VALUES.get(name, ())):
        allowed = ", ".join(get_args(RunConfig.model_fields[name].annotation))
        raise NotBuiltError(f"{place(name)}: {value} is not built yet; allowed is: {allowed}")
    if name == "dedup" and isinstance(value, bool):
        return "on" if value else "off"  # what YAML makes of `dedup: on`
    if name == "roles" and isinstance(value, str):
        return tuple(role.strip() for role in value.split(","))
    if name == "generation":
        return _uniform_generation(value, source=source, place=place)
    return value


def _uniform_generation(value: object, *, source: str, place: Place) -> dict[str, Any]:
    if isinstance(value, GenerationConfig):
        return value.model_dump(exclude_unset=True)
    if not isinstance(value, Mapping):
        raise InputError(f"{place('generation')}: must be a mapping such as {{max_tokens: 64}}, not {shown(value)}")
    check_keys(value, where=f"{source}: generation", allowed=_GENERATION_NAMES, not_built=_NOT_BUILT_GENERATION)
    return {"max_tokens" if name == "max_new_tokens" else name: given for name, given in value.items()}
