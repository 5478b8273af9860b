"""What a chat endpoint's reply means: a generation, or an error that may pass or will not."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from coalq.errors import CoalqError, PermanentError, TransientError
from coalq.generation import Generation
from coalq.storable_text import storable

ENDPOINT_STATUSES = frozenset({401, 402, 403, 404, 407, 408, 409, 425, 429})
"""4xx answers that are about the endpoint (key, model, rate), not about this prompt."""

_SHOWN_CHARACTERS = 500
_THINK, _END_OF_THINK = "<think>", "</think>"
_LARGEST_COUNT = 2**31


def parse_chat_reply(raw: bytes, *, endpoint: str, elapsed_ms: float) -> Generation:
    """Read a `/chat/completions` reply of status 200.

    Raises:
        TransientError: If the body is not a chat completion.
        PermanentError: If the endpoint filtered the content or gave no text.
    """
    try:
        reply = _parse(raw)
        choice = reply["choices"][0]
        message = choice["message"]
        usage = reply.get("usage") or {}
        finish_reason = choice.get("finish_reason")
        text = message.get("content")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise TransientError(f"{endpoint}: the reply is not a chat completion", may_be_prompt=True) from error
    if finish_reason == "content_filter":
        raise PermanentError(f"{endpoint}: content_filter: the endpoint withheld the answer")
    thought, text = split_reasoning(text) if isinstance(text, str) else (None, text)
    if not text and thought and finish_reason == "length":
        raise PermanentError(f"{endpoint}: truncated_reasoning: max_tokens ended the answer inside its reasoning")
    if not isinstance(text, str):
        raise PermanentError(f"{endpoint}: the reply holds no text (finish_reason {finish_reason!r})")
    return Generation(
        text=storable(text),
        finish_reason=_text(finish_reason),
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")) or _text(thought),
        refusal=_text(message.get("refusal")),
        fingerprint=_text(reply.get("system_fingerprint")),
        endpoint=endpoint,
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        cached_tokens=_count(usage.get("prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
        elapsed_ms=elapsed_ms,
    )


def split_reasoning(text: str) -> tuple[str | None, str]:
    """Take a leading `<think>…</think>` off an answer: reasoning is kept apart and never scored.

    Returns:
        The reasoning, None if there is none, and the answer. One that ends inside its reasoning has no answer.
    """
    if not text.lstrip().startswith(_THINK):
        return None, text
    thought, _, answer = text.lstrip().removeprefix(_THINK).partition(_END_OF_THINK)
    return thought.strip(), answer.lstrip()


def reply_error(status: int, raw: bytes, *, retry_after: str | None, endpoint: str) -> CoalqError:
    """The error that a reply of another status means, with the endpoint's own message."""
    text = f"{endpoint}: HTTP {status}: {error_message(raw)}"
    if status in ENDPOINT_STATUSES or status >= 500 or status < 400:
        return TransientError(text, retry_after_s(retry_after), may_be_prompt=status == 500)
    return PermanentError(text)


def error_message(raw: bytes) -> str:
    """The message inside an error body, whatever its form; the body's beginning otherwise."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _shown(raw) or "empty answer"
    if not isinstance(body, dict):
        return _shown(raw)
    for found in (body.get("error"), body.get("message"), body.get("detail")):
        if isinstance(found, dict) and isinstance(found.get("message"), str):
            return str(found["message"])[:_SHOWN_CHARACTERS]
        if isinstance(found, str) and found:
            return found[:_SHOWN_CHARACTERS]
    return _shown(raw)


def retry_after_s(header: str | None, *, now: datetime | None = None) -> float | None:
    """Seconds that a `Retry-After` header asks for, given as seconds or as an HTTP date; None when unreadable."""
    if header is None:
        return None
    try:
        seconds = float(header)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    if until.tzinfo is None:  # "-0000": a time whose zone is not told
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())


def _parse(raw: bytes) -> Any:  # noqa: ANN401 - JSON of another program
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        # orjson refuses half of a surrogate pair, which a server may send when max_tokens cuts an emoji in two.
        return json.loads(raw)


def _shown(raw: bytes) -> str:
    return raw[:_SHOWN_CHARACTERS].decode("utf-8", "replace").strip()


def _text(value: object) -> str | None:
    return storable(value) if isinstance(value, str) and value else None


def _count(source: Any, name: str) -> int | None:  # noqa: ANN401 - JSON of another program
    value = source.get(name) if isinstance(source, dict) else None
    return value if isinstance(value, int) and 0 <= value < _LARGEST_COUNT else None
