"""The prompt with its players marked, and how a coalition renders it.

A message's text is a list of parts: fixed text, or a `Block` of players. Rendering keeps fixed text and
drops absent players (absence policy `delete`), so the grand coalition gives the input back byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from coalq.conversation import ConversationSnapshot
from coalq.masks import Mask, grand_mask


class Player(BaseModel):
    """One attributable part of the conversation.

    Attributes:
        index: Position in reading order; bit `index` of every mask.
        id: Stable name, unique in the run (`notes-0`, `word-3`, or the slot item's own id).
        message: Index of the message it stands in.
        start: First character in that message's text as the grand coalition renders it.
        end: One past the last character.
        text: The characters from `start` to `end`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    id: str
    kind: Literal["word", "sentence", "slot"]
    message: int
    start: int
    end: int
    text: str


class Piece(BaseModel):
    """One player inside a block: its text and what follows it up to the next player (its `tail`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    player: int
    text: str
    tail: str = ""


class Block(BaseModel):
    """Consecutive players of one text: a slot, or the words or sentences of a message.

    `join` stands between two present players and nowhere else; `when_empty` stands in for a block in
    which nobody is present.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    pieces: tuple[Piece, ...] = Field(min_length=1)
    join: str = ""
    when_empty: str = ""

    @cached_property
    def _segments(self) -> tuple[tuple[Mask, str], ...]:
        """The bit and the whole text of each player, made once: a run renders this block up to millions of times."""
        return tuple((1 << piece.player, piece.text + piece.tail) for piece in self.pieces)

    def render(self, mask: Mask) -> str:
        """The text of the players present, in reading order."""
        present = [text for bit, text in self._segments if mask & bit]
        return self.join.join(present) if present else self.when_empty

    def leading_text(self, mask: Mask, stop: int) -> str | None:
        """What every rendering starts with that agrees with `mask` on the players before `stop`.

        None if no player of this block is `stop` or later: then all of the block is settled.
        """
        if self.pieces[-1].player < stop:
            return None
        return self.join.join(text for bit, text in self._segments if bit < 1 << stop and mask & bit)


class MessageTemplate(BaseModel):
    """One message: its role (and any further fields) and the parts of its text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: str
    parts: tuple[str | Block, ...]

    def render(self, mask: Mask) -> str:
        """The message's text for one coalition."""
        return "".join(part if isinstance(part, str) else part.render(mask) for part in self.parts)


class PromptTemplate(BaseModel):
    """All messages of a conversation with their players marked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: tuple[MessageTemplate, ...]

    def blocks(self) -> Iterator[tuple[int, Block]]:
        """Every block in reading order, with the index of its message."""
        for index, message in enumerate(self.messages):
            for part in message.parts:
                if isinstance(part, Block):
                    yield index, part

    @cached_property
    def n_players(self) -> int:
        """Number of players in all blocks."""
        return sum(len(block.pieces) for _, block in self.blocks())

    def render(self, mask: Mask) -> ConversationSnapshot:
        """The messages the model sees when the players in `mask` are present."""
        return ConversationSnapshot(
            tuple({"role": message.role, "content": message.render(mask)} for message in self.messages)
        )

    def leading_text(self, mask: Mask, stop: int) -> str:
        """The rendered text up to the place of player `stop`, given who is present before it.

        Each message begun is written as record separator, role, unit separator, text (ASCII 30 and 31), so that no
        two conversations look alike. Everything if there is no such player.
        """
        written: list[str] = []
        for message in self.messages:
            written += ("\x1e", message.role, "\x1f")
            for part in message.parts:
                if isinstance(part, str):
                    written.append(part)
                    continue
                cut = part.leading_text(mask, stop)
                if cut is not None:
                    return "".join([*written, cut])
                written.append(part.render(mask))
        return "".join(written)

    def grand(self) -> ConversationSnapshot:
        """The conversation as it was given."""
        return self.render(grand_mask(self.n_players))
