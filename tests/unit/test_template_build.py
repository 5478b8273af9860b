"""From an input conversation to its players."""

from __future__ import annotations

import re
from typing import Any

import pytest

from coalq.conversation_input import ConversationInput
from coalq.errors import InputError
from coalq.masks import grand_mask
from coalq.template_build import TemplateBuild, build_template


def build(given: dict[str, Any] | str, *, players: Any = "auto", roles: tuple[str, ...] = ("user",)) -> TemplateBuild:
    if isinstance(given, str):
        conversation = ConversationInput.from_text(given)
    else:
        conversation = ConversationInput.from_mapping(given, source="file")
    return build_template(conversation, players, roles)


def texts(built: TemplateBuild, mask: int) -> list[str]:
    return [str(message["content"]) for message in built.template.render(mask).messages]


def test_what_stands_between_players_goes_with_the_one_before_it() -> None:
    built = build("  Be quick,\n\tplease! ", players="words")

    assert [player.text for player in built.players] == ["Be", "quick,", "please!"]
    assert texts(built, 0b111) == ["  Be quick,\n\tplease! "]
    assert texts(built, 0b101) == ["  Be please! "]
    assert texts(built, 0b011) == ["  Be quick,\n\t "]
    assert texts(built, 0) == ["   "]


def test_players_know_their_place_in_the_grand_rendering() -> None:
    built = build(
        {
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "{{intro}} {{notes}}!"}],
            "fixed": {"intro": "Hello there,"},
            "slots": {"notes": {"items": ["one", {"id": "b", "text": "two"}], "join": " + "}},
        }
    )

    assert texts(built, 0b11) == ["s", "Hello there, one + two!"]
    assert [(player.id, player.kind, player.message, player.start, player.end) for player in built.players] == [
        ("notes-0", "slot", 1, 13, 16),
        ("b", "slot", 1, 19, 22),
    ]
    assert "Hello there, one + two!"[19:22] == "two"


def test_slots_join_exactly_and_stand_in_when_nobody_is_present() -> None:
    built = build({"prompt": "[{{x}}]", "slots": {"x": {"items": ["a", "b", "c"], "join": ", ", "when_empty": "-"}}})

    assert [texts(built, mask)[0] for mask in (0b111, 0b101, 0b100, 0)] == ["[a, b, c]", "[a, c]", "[c]", "[-]"]


@pytest.mark.parametrize(
    ("given", "kind", "n_players"),
    [
        ("One. Two.", "sentences", 2),
        ("One sentence only.", "words", 3),
        ({"prompt": "One. Two. {{x}}", "slots": {"x": {"items": ["a"]}}}, "slots", 1),
        ({"messages": [{"role": "user", "content": "One."}, {"role": "user", "content": "Two."}]}, "sentences", 2),
        ({"messages": [{"role": "user", "content": "One."}, {"role": "system", "content": "Two."}]}, "words", 1),
    ],
)
def test_auto_is_slots_then_sentences_then_words(given: dict[str, Any] | str, kind: str, n_players: int) -> None:
    built = build(given)

    assert (built.kind, len(built.players), built.template.n_players) == (kind, n_players, n_players)


def test_only_messages_of_the_chosen_roles_are_explained() -> None:
    given = {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi you"}]}

    for_user, for_both = build(given, players="words"), build(given, players="words", roles=("user", "system"))

    assert [player.text for player in for_user.players] == ["Hi", "you"]
    assert [(player.id, player.text) for player in for_both.players] == [
        ("word-0", "Be"),
        ("word-1", "kind."),
        ("word-2", "Hi"),
        ("word-3", "you"),
    ]
    assert texts(for_user, 0) == ["Be kind.", ""]


def test_fixed_text_stays_among_words() -> None:
    built = build({"prompt": "Dear {{who}} , answer.", "fixed": {"who": "Dr {{x}}"}}, players="words")

    assert [player.text for player in built.players] == ["Dear", ",", "answer."]
    assert texts(built, 0b111) == ["Dear Dr {{x}} , answer."]
    assert texts(built, 0b110) == ["Dr {{x}} , answer."]
    assert texts(built, 0) == ["Dr {{x}} "]


def test_names_are_substituted_once_only() -> None:
    given = {"prompt": "{{a}} {{b}}", "fixed": {"a": "{{b}}"}, "slots": {"b": {"items": ["{{a}}"]}}}

    assert texts(build(given), 1) == ["{{b}} {{a}}"]


def test_a_literal_name_can_be_kept() -> None:
    assert texts(build({"prompt": "Fill {{x}}", "fixed": {"x": "{{x}}"}}), 1) == ["Fill {{x}}"]


@pytest.mark.parametrize("text", ["Fill {{x}}", "Fill {{ x }} {{y}}"])
def test_plain_text_has_no_names(text: str) -> None:
    built = build(text, players="words")

    assert texts(built, grand_mask(len(built.players))) == [text]


def test_white_space_inside_the_braces_does_not_matter() -> None:
    given = {"prompt": "{{ x }} and {x} and {{}} and {{1}}", "slots": {"x": {"items": ["a"]}}}

    assert texts(build(given), 1) == ["a and {x} and {{}} and {{1}}"]


def test_one_player_is_enough() -> None:
    assert len(build("Hello").players) == 1


@pytest.mark.parametrize(
    ("given", "players", "message"),
    [
        (
            {"messages": [{"role": "user", "content": "a {{b}}"}]},
            "auto",
            'fixed (nothing is declared); to keep it as it stands, write fixed: {b: "{{b}}"}',
        ),
        ({"prompt": "{{b}} {{c}}", "fixed": {"c": "d"}}, "auto", "file: prompt: {{b}} is not declared under slots or"),
        ({"prompt": "{{b}} {{c}}", "fixed": {"c": "d"}}, "auto", "(declared are: c)"),
        ({"prompt": "a", "fixed": {"c": "d"}}, "auto", "file: fixed.c is declared, but {{c}} stands in no message"),
        ({"prompt": "a", "slots": {"c": {"items": ["d"]}}}, "auto", "file: slots.c is declared, but {{c}} stands in"),
        ({"prompt": "{{c}} {{c}}", "slots": {"c": {"items": ["d"]}}}, "auto", "{{c}} stands for a second time"),
        ({"prompt": "{{c}}", "slots": {"c": {"items": ["d"]}}}, "words", "file: players words: the input declares"),
        ({"prompt": "{{c}}", "slots": {"c": {"items": ["d"]}}}, "sentences", "choose players slots, or declare c"),
        ({"prompt": "a"}, "slots", "file: players slots: no slots are declared"),
        ({"prompt": " \n"}, "auto", "file: no explainable text: there are no words in messages of role user"),
        ({"messages": [{"role": "system", "content": "a"}]}, "words", "(roles present: system)"),
        ({"prompt": "{{c}}", "fixed": {"c": "d"}}, "sentences", "file: no explainable text: there are no sentences"),
        (
            {"prompt": "{{c}}{{d}}", "slots": {"c": {"items": [{"id": "d-0", "text": "e"}]}, "d": {"items": ["f"]}}},
            "auto",
            "file: the player id 'd-0' stands twice; ids must be unique",
        ),
    ],
)
def test_what_does_not_fit_is_one_clear_error(given: dict[str, Any], players: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        build(given, players=players)


def test_a_million_words_are_counted_and_refused_before_anything_is_built_of_them() -> None:
    messages = [{"role": "user", "content": "word " * 500_000}] * 2

    with pytest.raises(InputError, match=r"^1,000,000 players make 2\^1000000 coalitions; .* limited to 22 players"):
        build({"messages": messages}, players="words")


def test_too_many_slot_items_are_refused_as_well() -> None:
    given = {"prompt": "{{notes}}", "slots": {"notes": {"items": [f"item {number}" for number in range(23)]}}}

    with pytest.raises(InputError, match="23 players"):
        build(given)
