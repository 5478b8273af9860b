"""Toy games of exactly known worth: a stand-in for a model in tests, benchmarks and on a new cluster.

Player i is present if the prompt contains the word `p0`, `p1`, …; the answer is the number that the players present
are worth together. Model names: `additive:1,2,4,8` (weights), `pairwise:1,2,4;0-1=3;1-2=-1` (weights, then a bonus for
each pair present together), `threshold:5;1,2,4` (1 if the weights present sum to at least 5, else 0).
"""

from __future__ import annotations

import math
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from coalq.conversation import ConversationSnapshot
from coalq.errors import InputError

_WORD = re.compile(r"(?<!\w)p(0|[1-9][0-9]{0,5})(?!\w)")
_PAIR = re.compile(r"([0-9]{1,6})-([0-9]{1,6})=(.+)")


@dataclass(frozen=True, slots=True)
class ToyGame:
    """A game of known worth.

    Attributes:
        model: The model name it was read from.
        weights: What each player adds alone.
        pairs: What two players add when both are present.
        threshold: If given, the worth is 1 when the sum reaches it and 0 when it does not.
    """

    model: str
    weights: tuple[float, ...]
    pairs: tuple[tuple[int, int, float], ...] = ()
    threshold: float | None = None

    def worth(self, present: AbstractSet[int]) -> float:
        """The worth of the players present; indices that the game does not have are worth nothing."""
        terms = [weight for player, weight in enumerate(self.weights) if player in present]
        terms += [bonus for one, other, bonus in self.pairs if one in present and other in present]
        total = math.fsum(terms)
        return total if self.threshold is None else float(total >= self.threshold)

    def answer(self, conversation: ConversationSnapshot) -> str:
        """The worth of the players whose words stand in the conversation, as text that `float` reads back exactly."""
        text = "\n".join(str(message["content"]) for message in conversation.messages)
        worth = self.worth(present_words(text))
        return str(int(worth)) if worth.is_integer() else repr(worth)


def present_words(text: str) -> set[int]:
    """Indices of the words `p0`, `p1`, … in a text."""
    return {int(digits) for digits in _WORD.findall(text)}


def parse_toy(model: str) -> ToyGame:
    """Read a toy model's name.

    Raises:
        InputError: Says what is wrong with it and shows the three forms.
    """
    kind, _, rest = model.partition(":")
    first, *others = rest.split(";")
    if kind == "additive" and not others:
        return ToyGame(model, _weights(first, model=model))
    if kind == "pairwise":
        weights = _weights(first, model=model)
        return ToyGame(model, weights, pairs=tuple(_pair(text, len(weights), model=model) for text in others))
    if kind == "threshold" and len(others) == 1:
        return ToyGame(model, _weights(others[0], model=model), threshold=_number(first, model=model))
    raise _unreadable(model, "it has none of the known forms")


def _weights(text: str, *, model: str) -> tuple[float, ...]:
    return tuple(_number(piece, model=model) for piece in text.split(","))


def _pair(text: str, n_players: int, *, model: str) -> tuple[int, int, float]:
    found = _PAIR.fullmatch(text.strip())
    if found is None:
        raise _unreadable(model, f"{text!r} is not a pair like 0-1=3")
    one, other = int(found[1]), int(found[2])
    if one == other or max(one, other) >= n_players:
        raise _unreadable(model, f"{text!r} does not name two of the players 0 to {n_players - 1}")
    return one, other, _number(found[3], model=model)


def _number(text: str, *, model: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise _unreadable(model, f"{text!r} is not a number") from error
    if not math.isfinite(number):
        raise _unreadable(model, f"{text!r} is not a finite number")
    return number


def _unreadable(model: str, why: str) -> InputError:
    forms = "additive:1,2,4,8 and pairwise:1,2,4;0-1=3;1-2=-1 and threshold:5;1,2,4"
    return InputError(f"toy model {model!r}: {why}; allowed are {forms}")
