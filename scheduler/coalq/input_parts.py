"""The parts of an input conversation: its messages and slots, and what may not stand in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from coalq.errors import InputError, NotBuiltError
from coalq.input_errors import check_keys, field_path, shown
from coalq.players import is_visible

Role = Literal["system", "developer", "user", "assistant"]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""What a slot or a fixed text may be called."""

_UNSENDABLE = re.compile("[\0\ud800-\udfff]")
_NOT_BUILT_ROLES = ("tool", "function")
_NOT_BUILT_MESSAGE_KEYS = (
    *("name", "tool_calls", "tool_call_id", "function_call"),
    *("refusal", "audio", "annotations", "reasoning_content"),
)


class InputPart(BaseModel):
    """Base of what a user hands in: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class InputMessage(InputPart):
    """One chat message as it was given."""

    role: Role
    content: str


class SlotItem(InputPart):
    """One player of a slot; plain text is an item without an id of its own."""

    text: str
    id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, given: object) -> object:
        return given if isinstance(given, Mapping | SlotItem) else {"text": given}

    @field_validator("id", mode="before")
    @classmethod
    def _from_number(cls, given: object) -> object:
        return text_of_number(given)

    @model_validator(mode="after")
    def _is_something(self) -> Self:
        if not is_visible(self.text):
            raise ValueError("the item is blank; a player needs text")
        if self.id is not None and not self.id.strip():
            raise ValueError("the id is blank")
        return self


class SlotInput(InputPart):
    """The players of one slot: `join` stands between those present, `when_empty` where none is."""

    items: tuple[SlotItem, ...] = Field(min_length=1)
    join: str = "\n\n"
    when_empty: str = ""


def text_of_number(given: object) -> object:
    """A whole number as text: ids such as `id: 3` are numbers in YAML."""
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


def check_messages(given: object, *, source: str) -> None:
    """Refuse keys, roles and contents of messages that are unknown or not built; wrong types are left to the models.

    Raises:
        InputError: Names the message, the key or value, and what is allowed.
    """
    for index, message in enumerate(given if isinstance(given, list | tuple) else ()):
        if not isinstance(message, Mapping):
            continue
        where = f"{source}: messages[{index}]"
        role, content = message.get("role"), message.get("content")
        if role in _NOT_BUILT_ROLES:
            allowed = ", ".join(get_args(Role))
            raise NotBuiltError(f"{where}.role: messages of role {role} are not built yet; allowed are: {allowed}")
        check_keys(message, where=where, allowed=InputMessage.model_fields, not_built=_NOT_BUILT_MESSAGE_KEYS)
        if isinstance(content, list):
            raise NotBuiltError(f"{where}.content: a list of parts is not built yet; it must be text")


def check_slots(given: object, *, source: str) -> None:
    """Refuse unknown keys of slots and of their items.

    Raises:
        InputError: Names the slot, the key, and what is allowed.
    """
    for name, slot in (given if isinstance(given, Mapping) else {}).items():
        if not isinstance(slot, Mapping):
            continue
        where = f"{source}: slots.{name}"
        check_keys(slot, where=where, allowed=SlotInput.model_fields)
        items = slot.get("items")
        for index, item in enumerate(items if isinstance(items, list | tuple) else ()):
            if isinstance(item, Mapping):
                check_keys(item, where=f"{where}.items[{index}]", allowed=("id", "text"))


def check_characters(given: object, *, source: str, location: tuple[int | str, ...] = ()) -> None:
    """Refuse text that no request and no database can carry: NUL and halves of surrogate pairs.

    Raises:
        InputError: Names the place and the character.
    """
    if isinstance(given, str):
        bad = _UNSENDABLE.search(given)
        if bad is not None:
            path = field_path(location)
            place = f"{source}: {path}" if path else source
            raise InputError(f"{place}: the character U+{ord(bad[0]):04X} cannot be sent to a model: {shown(given)}")
    elif isinstance(given, Mapping):
        for key, value in given.items():
            check_characters(key, source=source, location=location)
            check_characters(value, source=source, location=(*location, str(key)))
    elif isinstance(given, list | tuple):
        for index, value in enumerate(given):
            check_characters(value, source=source, location=(*location, index))
