"""The answer to a claim: the asker may generate, somebody else does, or it is already done."""

from __future__ import annotations

from dataclasses import dataclass

from coalq.generation import Generation


@dataclass(frozen=True, slots=True)
class Won:
    """The right to generate the key now; it must be released."""


@dataclass(frozen=True, slots=True)
class Stored:
    """No claim is needed: somebody committed this generation before."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody else generates the key now."""


Claim = Won | Stored | Held
