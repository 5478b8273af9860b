"""Marks the players in a conversation: from the input to the template that renders every coalition.

The words or sentences of a text form one block whose grand coalition is that text again: what stands between two
players is the tail of the first, what stands before the first and after the last is fixed. A slot is one block, joined
by its own separator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from coalq.conversation_input import ConversationInput
from coalq.errors import InputError
from coalq.estimators import check_player_count
from coalq.input_parts import NAME
from coalq.players import Span, split_sentences, split_words
from coalq.template import Block, MessageTemplate, Piece, Player, PromptTemplate

PlayersKind = Literal["words", "sentences", "slots"]

_PLACEHOLDER = re.compile(rf"\{{\{{[ \t]*({NAME.pattern})[ \t]*\}}\}}")
_SPLITS = {"words": split_words, "sentences": split_sentences}
_SINGULAR: dict[PlayersKind, Literal["word", "sentence", "slot"]] = {
    "words": "word",
    "sentences": "sentence",
    "slots": "slot",
}


@dataclass(frozen=True, slots=True)
class TemplateBuild:
    """A conversation with its players marked, and what kind of players `auto` came to."""

    template: PromptTemplate
    players: tuple[Player, ...]
    kind: PlayersKind


def build_template(
    conversation: ConversationInput, players: Literal["auto"] | PlayersKind, roles: Sequence[str]
) -> TemplateBuild:
    """Mark the players of a conversation.

    Args:
        conversation: What is explained.
        players: `auto` is slots if there are any, else sentences if there are at least two, else words.
        roles: Whose messages are explained; slots may stand in any message.

    Raises:
        InputError: If nothing can be explained, `{{name}}` and declarations do not fit, ids are not unique, or there
            are more players than can be attributed to.
    """
    messages = [_parts(conversation, index) for index in range(len(conversation.chat))]
    _check_names(conversation, messages)
    kind = _resolve_kind(conversation, messages, players=players, roles=roles)
    explained = [kind != "slots" and message.role in roles for message in conversation.chat]
    split = [
        [_split(part, kind) if is_explained else () for part in parts]
        for is_explained, parts in zip(explained, messages, strict=True)
    ]
    # Masks have a bit per player: a template of a million players would take gigabytes before anybody counted them.
    check_player_count(
        sum(len(spans) for each in split for spans in each)
        + (sum(len(slot.items) for slot in conversation.slots.values()) if kind == "slots" else 0)
    )
    builder = _Builder(conversation, kind)
    built = tuple(
        MessageTemplate(role=message.role, parts=tuple(builder.build(parts, spans, message=index)))
        for index, (message, parts, spans) in enumerate(zip(conversation.chat, messages, split, strict=True))
    )
    _check_players(conversation, builder.players, kind=kind, roles=roles)
    return TemplateBuild(PromptTemplate(messages=built), tuple(builder.players), kind)


@dataclass(frozen=True, slots=True)
class _Name:
    """`{{name}}` in a message."""

    name: str


_Part = str | _Name


def _split(part: _Part, kind: PlayersKind) -> tuple[Span, ...]:
    return _SPLITS[kind](part) if isinstance(part, str) else ()


def _parts(conversation: ConversationInput, index: int) -> tuple[_Part, ...]:
    """A message's own text and the names in it, alternating; never looks into what a name stands for."""
    content = conversation.chat[index].content
    if conversation.literal:
        return (content,)
    pieces = _PLACEHOLDER.split(content)
    parts: list[_Part] = [_Name(piece) if i % 2 else piece for i, piece in enumerate(pieces)]
    return tuple(part for part in parts if part != "")


class _Builder:
    """Numbers the players while it walks through the messages."""

    def __init__(self, conversation: ConversationInput, kind: PlayersKind) -> None:
        self._conversation = conversation
        self._kind = kind
        self.players: list[Player] = []

    def build(
        self, parts: Sequence[_Part], split: Sequence[tuple[Span, ...]], *, message: int
    ) -> Iterator[str | Block]:
        """The parts of one message's template; `split` holds the players of each part."""
        length = 0  # of the message's text so far, as the grand coalition renders it
        for position, (part, spans) in enumerate(zip(parts, split, strict=True)):
            if isinstance(part, _Name):
                built: list[str | Block] = [self._named(part.name, message, length)]
            elif spans:
                built = self._text(part, spans, message, length, is_last=position == len(parts) - 1)
            else:
                built = [part]
            for piece in built:
                length += len(piece) if isinstance(piece, str) else len(piece.render(-1))
                yield piece

    def _named(self, name: str, message: int, offset: int) -> str | Block:
        slot = self._conversation.slots.get(name)
        if slot is None:
            return self._conversation.fixed[name]
        pieces = []
        for number, item in enumerate(slot.items):
            index = self._add(item.id or f"{name}-{number}", item.text, message=message, start=offset)
            pieces.append(Piece(player=index, text=item.text))
            offset += len(item.text) + len(slot.join)
        return Block(pieces=tuple(pieces), join=slot.join, when_empty=slot.when_empty)

    def _text(self, text: str, spans: Sequence[Span], message: int, offset: int, *, is_last: bool) -> list[str | Block]:
        """Fixed text, block, fixed text; what stands before a name belongs to the last player, too."""
        ends = [*(span.start for span in spans[1:]), spans[-1].end if is_last else len(text)]
        pieces = tuple(
            self._piece(text, span, end, message=message, offset=offset) for span, end in zip(spans, ends, strict=True)
        )
        parts: tuple[str | Block, ...] = (text[: spans[0].start], Block(pieces=pieces), text[ends[-1] :])
        return [part for part in parts if part != ""]

    def _piece(self, text: str, span: Span, end: int, *, message: int, offset: int) -> Piece:
        own = text[span.start : span.end]
        identity = f"{_SINGULAR[self._kind]}-{len(self.players)}"
        return Piece(
            player=self._add(identity, own, message=message, start=offset + span.start),
            text=own,
            tail=text[span.end : end],
        )

    def _add(self, identity: str, text: str, *, message: int, start: int) -> int:
        index = len(self.players)
        kind = _SINGULAR[self._kind]
        end = start + len(text)
        self.players.append(
            Player(index=index, id=identity, kind=kind, message=message, start=start, end=end, text=text)
        )
        return index


def _resolve_kind(
    conversation: ConversationInput,
    messages: Sequence[Sequence[_Part]],
    *,
    players: Literal["auto"] | PlayersKind,
    roles: Sequence[str],
) -> PlayersKind:
    source = conversation.source
    if players == "slots" and not conversation.slots:
        raise InputError(f"{source}: players slots: no slots are declared; declare some or choose words or sentences")
    if players in _SPLITS and conversation.slots:
        raise InputError(
            f"{source}: players {players}: the input declares slots, and each of their items is a player; choose "
            f"players slots, or declare {', '.join(conversation.slots)} under fixed"
        )
    if players != "auto":
        return players
    if conversation.slots:
        return "slots"
    sentences = sum(
        len(split_sentences(part))
        for message, parts in zip(conversation.chat, messages, strict=True)
        if message.role in roles
        for part in parts
        if isinstance(part, str)
    )
    return "sentences" if sentences >= 2 else "words"


def _check_names(conversation: ConversationInput, messages: Sequence[Sequence[_Part]]) -> None:
    """Every name in a message is declared, every declared one is used, and a slot stands in one place only."""
    source, declared = conversation.source, [*conversation.slots, *conversation.fixed]
    used: list[str] = []
    for index, parts in enumerate(messages):
        for part in parts:
            if not isinstance(part, _Name):
                continue
            place = f"{source}: {_place(conversation, index)}: {{{{{part.name}}}}}"
            if part.name not in declared:
                raise InputError(
                    f"{place} is not declared under slots or fixed ({_listed(declared)}); to keep it as it stands, "
                    f'write fixed: {{{part.name}: "{{{{{part.name}}}}}"}}'
                )
            if part.name in conversation.slots and part.name in used:
                raise InputError(f"{place} stands for a second time; a slot can have one place only")
            used.append(part.name)
    for name in declared:
        if name not in used:
            kind = "slots" if name in conversation.slots else "fixed"
            raise InputError(f"{source}: {kind}.{name} is declared, but {{{{{name}}}}} stands in no message")


def _check_players(
    conversation: ConversationInput, players: Sequence[Player], *, kind: PlayersKind, roles: Sequence[str]
) -> None:
    if not players:
        present = ", ".join(dict.fromkeys(message.role for message in conversation.chat))
        raise InputError(
            f"{conversation.source}: no explainable text: there are no {kind} in messages of role {', '.join(roles)} "
            f"(roles present: {present})"
        )
    seen: set[str] = set()
    for player in players:
        if player.id in seen:
            raise InputError(f"{conversation.source}: the player id {player.id!r} stands twice; ids must be unique")
        seen.add(player.id)


def _place(conversation: ConversationInput, index: int) -> str:
    return f"messages[{index}]" if conversation.messages is not None else "prompt"


def _listed(names: Sequence[str]) -> str:
    return f"declared are: {', '.join(names)}" if names else "nothing is declared"
