"""Players tile the text, and coalitions delete exactly what they leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from coalq.conversation_input import ConversationInput
from coalq.errors import InputError
from coalq.masks import grand_mask
from coalq.players import Span, is_visible, split_sentences, split_words
from coalq.template import Block
from coalq.template_build import TemplateBuild, build_template

Split = Callable[[str], tuple[Span, ...]]

ALPHABET = st.sampled_from(" \t\n\r.!?。！'\")」ab漢かﾞ한\u0301\u200d\ufe0f\u200b👍\U0001f3fd\u3000{}")
texts = st.text(ALPHABET, max_size=40) | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
sendable = texts.filter(lambda text: text != "" and "\0" not in text)
kinds = st.sampled_from(["words", "sentences"])


def marked(text: str, kind: Literal["words", "sentences"]) -> TemplateBuild:
    try:
        return build_template(ConversationInput.from_text(text), kind, ("user",))
    except InputError:
        assume(False)
        raise


def rendered(built: TemplateBuild, mask: int) -> str:
    return str(built.template.render(mask).messages[0]["content"])


@pytest.mark.parametrize("split", [split_words, split_sentences])
@given(text=texts)
def test_every_visible_character_is_in_exactly_one_player(split: Split, text: str) -> None:
    spans = split(text)

    edges = [0, *(edge for span in spans for edge in (span.start, span.end)), len(text)]
    assert edges == sorted(edges)
    assert all(is_visible(text[span.start : span.end]) for span in spans)
    gaps = zip(edges[0::2], edges[1::2], strict=True)
    assert not any(is_visible(text[start:end]) for start, end in gaps)


@pytest.mark.parametrize("split", [split_words, split_sentences])
@given(text=texts)
def test_players_begin_and_end_without_white_space(split: Split, text: str) -> None:
    for span in split(text):
        # A mark after white space stays with the white space, so the first character is never a space.
        assert not text[span.start].isspace()
        assert not text[span.end - 1].isspace()


@given(texts)
def test_words_hold_no_white_space_and_sentences_no_line_end(text: str) -> None:
    assert not any(char.isspace() for span in split_words(text) for char in text[span.start : span.end])
    assert not any(char in "\n\r" for span in split_sentences(text) for char in text[span.start : span.end])


@given(sendable, kinds)
def test_the_grand_coalition_renders_the_input_byte_for_byte(text: str, kind: Literal["words", "sentences"]) -> None:
    built = marked(text, kind)

    assert rendered(built, grand_mask(len(built.players))) == text
    assert all(text[player.start : player.end] == player.text for player in built.players)


@given(sendable, kinds, st.data())
def test_deleting_a_player_removes_its_text_and_tail_and_nothing_else(
    text: str, kind: Literal["words", "sentences"], data: st.DataObject
) -> None:
    built = marked(text, kind)
    n_players = len(built.players)
    mask = data.draw(st.integers(0, grand_mask(n_players)))

    ends = [*(player.start for player in built.players[1:]), built.players[-1].end]
    kept = [
        text[player.start : end] for player, end in zip(built.players, ends, strict=True) if mask >> player.index & 1
    ]
    expected = text[: built.players[0].start] + "".join(kept) + text[ends[-1] :]
    assert rendered(built, mask) == expected


@given(
    st.lists(st.text("ab {}", min_size=1, max_size=5).filter(str.strip), min_size=1, max_size=6),
    st.sampled_from([" ", "", "\n\n", ", "]),
    st.sampled_from(["", "(none)"]),
    st.data(),
)
def test_slots_are_joined_exactly(items: list[str], join: str, when_empty: str, data: st.DataObject) -> None:
    given_slots = {"x": {"items": items, "join": join, "when_empty": when_empty}}
    conversation = ConversationInput.from_mapping({"prompt": "<{{x}}>", "slots": given_slots})
    built = build_template(conversation, "auto", ("user",))
    mask = data.draw(st.integers(0, grand_mask(len(items))))

    present = [item for i, item in enumerate(items) if mask >> i & 1]
    assert rendered(built, mask) == f"<{join.join(present) if present else when_empty}>"
    grand = rendered(built, grand_mask(len(items)))
    assert [grand[player.start : player.end] for player in built.players] == items


@given(sendable, kinds)
def test_players_are_numbered_in_reading_order(text: str, kind: Literal["words", "sentences"]) -> None:
    built = marked(text, kind)

    numbered = [piece.player for message in built.template.messages for part in message.parts if isinstance(part, Block)
                for piece in part.pieces]  # fmt: skip
    assert numbered == [player.index for player in built.players] == list(range(len(built.players)))
    assert len({player.id for player in built.players}) == len(built.players)
