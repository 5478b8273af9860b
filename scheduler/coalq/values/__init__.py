"""Value functions by the name a user writes."""

from __future__ import annotations

from coalq.errors import InputError, NotBuiltError
from coalq.values.chrf import Chrf
from coalq.values.number import Number
from coalq.values.protocol import ValueFunction, evaluate
from coalq.values.text import Contains, Exact

__all__ = ["ALLOWED_VALUES", "Chrf", "Contains", "Exact", "Number", "ValueFunction", "evaluate", "make_value"]

ALLOWED_VALUES = ("contains:TEXT", "exact", "number", "chrf")
_NOT_BUILT = frozenset({"cosine", "rouge_l", "regex", "choice", "logprob", "embedding", "judge"})


def make_value(spec: str) -> ValueFunction:
    """The value function that `spec` names, e.g. `chrf` or `contains:14`.

    Raises:
        NotBuiltError: If it is documented but not built yet.
        InputError: If it is unknown, or its text is missing or too much; lists what is allowed.
    """
    name, colon, text = spec.partition(":")
    allowed = f"allowed are: {', '.join(ALLOWED_VALUES)}"
    if name in _NOT_BUILT:
        raise NotBuiltError(f"value {spec!r} is not built yet; {allowed}")
    if name == "contains":
        if not text:
            raise InputError(f"value {spec!r}: contains needs the text to look for, as in contains:14")
        return Contains(text)
    plain: dict[str, type[Chrf | Exact | Number]] = {"chrf": Chrf, "exact": Exact, "number": Number}
    if name not in plain:
        raise InputError(f"value {spec!r} is unknown; {allowed}")
    if colon:
        raise InputError(f"value {spec!r}: {name} takes no text after a colon")
    return plain[name]()
