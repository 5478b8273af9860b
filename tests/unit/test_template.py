"""Templates: what a coalition renders to."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from coalq.template import Block, MessageTemplate, Piece, PromptTemplate

SLOT = Block(
    pieces=(Piece(player=0, text="one"), Piece(player=1, text="two"), Piece(player=2, text="three")),
    join=", ",
    when_empty="nothing",
)
TEMPLATE = PromptTemplate(
    messages=(
        MessageTemplate(role="system", parts=("Be brief.",)),
        MessageTemplate(role="user", parts=("Notes: ", SLOT, ".")),
    )
)


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (0b111, "Notes: one, two, three."),
        (0b101, "Notes: one, three."),
        (0b010, "Notes: two."),
        (0b000, "Notes: nothing."),
    ],
)
def test_the_separator_stands_between_present_players_only(mask: int, text: str) -> None:
    rendered = TEMPLATE.render(mask)

    assert rendered.messages == ({"role": "system", "content": "Be brief."}, {"role": "user", "content": text})


def test_the_grand_coalition_is_everybody() -> None:
    assert TEMPLATE.n_players == 3
    assert TEMPLATE.grand() == TEMPLATE.render(0b111)


def test_blocks_come_with_their_message() -> None:
    assert list(TEMPLATE.blocks()) == [(1, SLOT)]


def test_a_template_survives_json() -> None:
    TEMPLATE.render(0b1)  # what a template remembers about rendering must not travel

    assert PromptTemplate.model_validate_json(TEMPLATE.model_dump_json()) == TEMPLATE


def test_a_block_without_players_is_refused() -> None:
    with pytest.raises(ValidationError, match="at least 1 item"):
        Block(pieces=())


@pytest.mark.parametrize(
    ("mask", "stop", "text"),
    [
        (0b111, 0, "Notes: "),
        (0b001, 1, "Notes: one"),
        (0b011, 2, "Notes: one, two"),
        (0b000, 2, "Notes: "),
        (0b000, 3, "Notes: nothing."),
    ],
)
def test_leading_text_ends_where_the_stop_player_would_stand(mask: int, stop: int, text: str) -> None:
    assert TEMPLATE.leading_text(mask, stop) == f"\x1esystem\x1fBe brief.\x1euser\x1f{text}"
