"""The value `chrf`: character n-gram F-score of the answer against the base answer, 0 to 1."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from coalq.generation import Generation

MAX_LENGTH = 6
BETA_SQUARED = 4


@dataclass(frozen=True, slots=True)
class _Order:
    """The n-grams of the base answer of one length."""

    counts: Counter[str]
    distinct: frozenset[str]
    total: int

    @classmethod
    def of(cls, text: str, length: int) -> _Order:
        grams = _grams(text, length)
        return cls(Counter(grams), frozenset(grams), len(grams))

    def matches(self, grams: list[str]) -> int:
        """How many of the answer's n-grams the base has too, each as often as both have it."""
        distinct = set(grams)
        if len(distinct) == len(grams) or len(self.distinct) == self.total:
            return len(distinct & self.distinct)  # no repetitions on one side: the usual, cheaper case
        return sum(min(n, self.counts[gram]) for gram, n in Counter(grams).items() if gram in self.distinct)


@dataclass(frozen=True, slots=True)
class _Reference:
    """The base answer, counted once: counting it again costs more than all the rest."""

    text: str
    squeezed: str
    orders: tuple[_Order, ...]

    @classmethod
    def of(cls, text: str) -> _Reference:
        squeezed = _squeeze(text)
        longest = min(MAX_LENGTH, len(squeezed))
        return cls(text, squeezed, tuple(_Order.of(squeezed, length) for length in range(1, longest + 1)))


class Chrf:
    """Sentence chrF2 (Popović 2015, doi:10.18653/v1/W15-3049) as sacrebleu's defaults compute it, divided by 100.

    N-grams of 1 to 6 characters, no words, β = 2, white space removed, averaged over the lengths both texts reach. Two
    answers without any visible character score 0, as there.
    """

    name: ClassVar[str] = "chrf"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        # One tuple replaced as a whole, so that threads at worst count a base twice.
        self._reference = _Reference.of("")

    def __call__(self, generation: Generation, base: Generation) -> float:
        """The F-score of `generation` with `base` as reference."""
        reference = self._reference
        if reference.text != base.text:
            self._reference = reference = _Reference.of(base.text)
        return _score(_squeeze(generation.text), reference)


def _score(answer: str, reference: _Reference) -> float:
    if answer == reference.squeezed:
        return 1.0 if answer else 0.0
    precision = recall = 0.0
    orders = reference.orders[: len(answer)]
    for length, order in enumerate(orders, start=1):
        grams = _grams(answer, length)
        matches = order.matches(grams)
        precision += matches / len(grams)
        recall += matches / order.total
    if precision + recall == 0:
        return 0.0
    precision /= len(orders)
    recall /= len(orders)
    return (1 + BETA_SQUARED) * precision * recall / (BETA_SQUARED * precision + recall)


def _squeeze(text: str) -> str:
    return "".join(text.split())


def _grams(text: str, length: int) -> list[str]:
    return [text[i : i + length] for i in range(len(text) - length + 1)]
