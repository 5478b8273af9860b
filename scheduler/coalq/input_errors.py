"""One clear line for input that is wrong: which file, which place in it, what stands there, what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from coalq.errors import InputError, NotBuiltError

# What pydantic says in the words of Python rather than of an input file.
_PLAIN_SENTENCES = {
    "missing": "is missing",
    "too_short": "must have at least one item",
    "string_too_short": "is empty",
    "dict_type": "must be a mapping, not {}",
    "model_type": "must be a mapping, not {}",
    "tuple_type": "must be a list, not {}",
}


def check_keys(
    mapping: Mapping[Any, Any], *, where: str, allowed: Iterable[str], not_built: Iterable[str] = ()
) -> None:
    """Refuse keys that a mapping may not have.

    Args:
        mapping: What was read.
        where: Its place, as error messages begin.
        allowed: Keys that may stand there.
        not_built: Documented keys that this version cannot honour.

    Raises:
        NotBuiltError: Names a key of `not_built`.
        InputError: Names an unknown key and the nearest allowed ones.
    """
    allowed, not_built = tuple(allowed), frozenset(not_built)
    for key in mapping:
        if key in not_built:
            raise NotBuiltError(f"{where}: {key} ({shown(mapping[key])}) is not built yet")
        if key not in allowed:
            near = get_close_matches(str(key), allowed, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"allowed are: {', '.join(allowed)}"
            raise InputError(f"{where}: unknown key {key!r}; {hint}")


def input_error(error: ValidationError, *, source: str) -> InputError:
    """The first fault that pydantic found, as one line that begins with `source` and the place in it."""
    place, sentence = first_fault(error)
    return InputError(f"{source}: {place}: {sentence}" if place else f"{source}: {sentence}")


def first_fault(error: ValidationError) -> tuple[str, str]:
    """Place and sentence of the first fault that pydantic found; the place is empty if it is all of the input."""
    fault = error.errors()[0]
    return field_path(fault["loc"]), _sentence(fault)


def field_path(location: Iterable[int | str]) -> str:
    """A place in nested input as users write it, e.g. `slots.notes.items[2]`."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path


def shown(value: object) -> str:
    """The value as messages show it: its literal form, cut to fit a line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _sentence(fault: ErrorDetails) -> str:
    given, message = fault["input"], fault["msg"]
    if fault["type"] in _PLAIN_SENTENCES:
        return _PLAIN_SENTENCES[fault["type"]].format(shown(given))
    if fault["type"] == "value_error":
        return message.removeprefix("Value error, ")
    if fault["type"] == "string_type":
        quotes = "; put it in quotes" if isinstance(given, bool | int | float) else ""
        return f"must be text, not {shown(given)}{quotes}"
    return f"{message.replace('Input should', 'must')}, not {shown(given)}"
