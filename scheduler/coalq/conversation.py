"""The conversation under explanation, frozen, and its content hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

Message = Mapping[str, Any]
"""One chat message in OpenAI form: at least `role` and `content`."""


def canonical_json(value: object) -> bytes:
    """JSON with sorted keys, no spaces, UTF-8: equal values give equal bytes."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


@dataclass(frozen=True, slots=True)
class ConversationSnapshot:
    """Chat messages as they are sent to the model; also what a rendered coalition is."""

    messages: tuple[Message, ...]

    @classmethod
    def from_prompt(cls, prompt: str) -> ConversationSnapshot:
        """A conversation of a single user message."""
        return cls(({"role": "user", "content": prompt},))

    @property
    def snapshot_id(self) -> str:
        """SHA-256, hex, over the canonical JSON of the messages."""
        return hashlib.sha256(canonical_json(self.messages)).hexdigest()
