"""The conversation a user hands in, as a text or a mapping, with the run parameters that stand beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from coalq.errors import InputError
from coalq.input_errors import check_keys, input_error
from coalq.input_parts import (
    NAME,
    InputMessage,
    InputPart,
    SlotInput,
    check_characters,
    check_messages,
    check_slots,
    text_of_number,
)
from coalq.run_options import NOT_BUILT_OPTIONS, OPTION_NAMES, checked_options

_OWN_KEYS = ("prompt", "messages", "slots", "fixed", "id")
_NOT_BUILT_KEYS = NOT_BUILT_OPTIONS | {"custom_id", "body", "method", "url", "tools", "tool_choice", "response_format"}


class ConversationInput(InputPart):
    """A conversation, its slots and fixed texts, and the run parameters given with it.

    Attributes:
        prompt: A single user message, instead of `messages`.
        slots: By name; `{{name}}` in a message is where its items go.
        fixed: Texts by name that are always present.
        id: The user's own id of this conversation.
        options: Run parameters by `RunConfig` field name, checked; only those that were given.
        literal: True if `{{name}}` has no meaning: plain text and prompts from the command line.
        source: What error messages name.
    """

    prompt: str | None = Field(default=None, min_length=1)
    messages: tuple[InputMessage, ...] | None = Field(default=None, min_length=1)
    slots: dict[str, SlotInput] = Field(default_factory=dict)
    fixed: dict[str, str] = Field(default_factory=dict)
    id: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    literal: bool = False
    source: str = "conversation"

    @field_validator("id", mode="before")
    @classmethod
    def _from_number(cls, given: object) -> object:
        return text_of_number(given)

    @model_validator(mode="after")
    def _is_one_conversation(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("exactly one of prompt and messages must be given")
        for kind, names in (("slots", self.slots), ("fixed", self.fixed)):
            for name in names:
                if not NAME.fullmatch(name):
                    raise ValueError(f"{kind}: {name!r} is not a name; allowed are letters, digits, _ and -")
        both = self.slots.keys() & self.fixed.keys()
        if both:
            raise ValueError(f"{min(both)!r} is declared under both slots and fixed")
        return self

    @property
    def chat(self) -> tuple[InputMessage, ...]:
        """The messages; a prompt is one user message."""
        return self.messages or (InputMessage(role="user", content=self.prompt or ""),)

    @classmethod
    def from_text(cls, text: str, *, source: str = "prompt") -> Self:
        """A conversation of one user message, taken literally.

        Raises:
            InputError: If it is empty or holds characters that cannot be sent.
        """
        if not text:
            raise InputError(f"{source}: is empty; there is nothing to explain")
        check_characters(text, source=source)
        return cls(prompt=text, literal=True, source=source)

    @classmethod
    def from_mapping(cls, given: Mapping[Any, Any], *, source: str = "conversation") -> Self:
        """A conversation in the form of the YAML and JSON input files.

        Raises:
            NotBuiltError: Names a documented key or value that this version does not have.
            InputError: Names what is wrong, where, and what is allowed.
        """
        check_keys(given, where=source, allowed=(*_OWN_KEYS, *OPTION_NAMES), not_built=_NOT_BUILT_KEYS)
        check_characters(given, source=source)
        check_messages(given.get("messages"), source=source)
        check_slots(given.get("slots"), source=source)
        own = {key: value for key, value in given.items() if key in _OWN_KEYS}
        options = {key: value for key, value in given.items() if key not in _OWN_KEYS}
        try:
            return cls(**own, options=checked_options(options, source=source), source=source)
        except ValidationError as error:
            raise input_error(error, source=source) from error
