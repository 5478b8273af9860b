"""Toy games: their names, their worth, their answers."""

from __future__ import annotations

import pytest

from coalq.conversation import ConversationSnapshot
from coalq.errors import InputError
from coalq.toy import parse_toy, present_words


@pytest.mark.parametrize(
    ("model", "present", "worth"),
    [
        ("additive:1,2,4,8", {0, 3}, 9),
        ("additive:1,2,4,8", set(), 0),
        ("additive:1,2", {0, 7}, 1),
        ("additive:0.1,-2.5e1", {0, 1}, -24.9),
        ("pairwise:1,2,4;0-1=3;1-2=-1", {0, 1}, 6),
        ("pairwise:1,2,4;0-1=3;1-2=-1", {0, 1, 2}, 9),
        ("pairwise:1,2,4", {1}, 2),
        ("threshold:5;1,2,4", {0, 2}, 1),
        ("threshold:5;1,2,4", {0, 1}, 0),
        ("threshold:0;1", set(), 1),
    ],
)
def test_a_game_is_worth_what_its_name_says(model: str, present: set[int], worth: float) -> None:
    assert parse_toy(model).worth(present) == worth


def test_players_are_whole_words_wherever_they_stand() -> None:
    assert present_words("p0, (p12) p3. xp4 p5x p06 P7 p8") == {0, 12, 3, 8}


def test_the_answer_counts_the_words_of_all_messages() -> None:
    conversation = ConversationSnapshot(({"role": "system", "content": "p0"}, {"role": "user", "content": "p2 p2"}))

    assert parse_toy("additive:1,2,4").answer(conversation) == "5"


@pytest.mark.parametrize(
    ("model", "answer"),
    [("additive:3", "3"), ("additive:-0.0", "0"), ("additive:0.1", "0.1"), ("additive:1e-7", "1e-07")],
)
def test_the_answer_reads_back_as_the_very_number(model: str, answer: str) -> None:
    said = parse_toy(model).answer(ConversationSnapshot.from_prompt("p0"))

    assert said == answer
    assert float(said) == parse_toy(model).weights[0]


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("gpt-4", "none of the known forms"),
        ("additive", "'' is not a number"),
        ("additive:1,x", "'x' is not a number"),
        ("additive:1,nan", "'nan' is not a finite number"),
        ("additive:1;2", "none of the known forms"),
        ("pairwise:1,2;0-1", "'0-1' is not a pair like 0-1=3"),
        ("pairwise:1,2;0-2=1", "does not name two of the players 0 to 1"),
        ("pairwise:1,2;1-1=1", "does not name two of the players"),
        ("threshold:5", "none of the known forms"),
        ("threshold:5;1;2", "none of the known forms"),
    ],
)
def test_a_name_that_is_no_game_says_why_and_shows_the_forms(model: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as raised:
        parse_toy(model)

    assert "allowed are additive:1,2,4,8 and pairwise:" in str(raised.value)
