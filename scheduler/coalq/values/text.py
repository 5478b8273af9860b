"""Values that look for text in the answer: equality and containment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coalq.generation import Generation


@dataclass(frozen=True, slots=True)
class Exact:
    """1 if the answer equals the base answer, white space at both ends aside; else 0."""

    name: ClassVar[str] = "exact"
    version: ClassVar[int] = 1

    def __call__(self, generation: Generation, base: Generation) -> float:
        """Compare the two texts."""
        return float(generation.text.strip() == base.text.strip())


@dataclass(frozen=True, slots=True)
class Contains:
    """1 if the answer contains `text`, capitals and all; else 0. The base answer does not matter."""

    text: str

    version: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """The value as it is asked for."""
        return f"contains:{self.text}"

    def __call__(self, generation: Generation, base: Generation) -> float:  # noqa: ARG002 - the protocol's signature
        """Look for the text."""
        return float(self.text in generation.text)
