"""What a value function is, and how one is applied."""

from __future__ import annotations

import math
from typing import Protocol

from coalq.errors import PermanentError
from coalq.generation import Generation


class ValueFunction(Protocol):
    """Turns a generation into a utility. Called from several threads at once."""

    @property
    def name(self) -> str:
        """The value as it was asked for, e.g. `contains:14`."""
        ...

    @property
    def version(self) -> int:
        """Raised with every change that can change a result; stored in the manifest."""
        ...

    def __call__(self, generation: Generation, base: Generation) -> float:
        """The utility of `generation`.

        Args:
            generation: The answer for one coalition.
            base: The answer for the grand coalition.
        """
        ...


def evaluate(value: ValueFunction, generation: Generation, base: Generation) -> float:
    """Apply a value function and insist on a finite number.

    Raises:
        PermanentError: If it raises, or gives NaN or infinity: this coalition fails, the run goes on.
    """
    try:
        utility = float(value(generation, base))
    except Exception as error:
        # A value function is a user's code as well: whatever it raises must cost this coalition only.
        raise PermanentError(f"value {value.name}: {str(error) or type(error).__name__}") from error
    if not math.isfinite(utility):
        raise PermanentError(f"value {value.name}: {utility} is not a finite number")
    return utility
