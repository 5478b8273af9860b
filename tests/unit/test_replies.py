"""What replies of chat endpoints mean."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest

from coalq.errors import PermanentError, TransientError
from coalq_workers.backends.replies import error_message, parse_chat_reply, reply_error, retry_after_s


def chat_reply(**changes: object) -> bytes:
    reply: dict[str, object] = {
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Within 14 days."}}],
        "usage": {"prompt_tokens": 91, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}},
        "system_fingerprint": "b1",
    }
    return orjson.dumps(reply | changes)


def choice(**changes: object) -> bytes:
    return chat_reply(choices=[{"finish_reason": "stop", "message": {"content": "x"}} | changes])


def test_a_chat_completion_becomes_a_generation_with_its_usage() -> None:
    generation = parse_chat_reply(chat_reply(), endpoint="http://e/v1", elapsed_ms=3.5)

    assert generation.text == "Within 14 days."
    assert (generation.prompt_tokens, generation.completion_tokens, generation.cached_tokens) == (91, 7, 5)
    assert generation.reasoning_tokens is None
    assert (generation.finish_reason, generation.fingerprint) == ("stop", "b1")
    assert (generation.endpoint, generation.elapsed_ms) == ("http://e/v1", 3.5)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "prompt_tokens_details": None}])
def test_usage_that_is_not_reported_is_unknown_not_zero(usage: object) -> None:
    generation = parse_chat_reply(chat_reply(usage=usage), endpoint="e", elapsed_ms=0)

    assert generation.prompt_tokens is None
    assert generation.cached_tokens is None


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{}]}', b"null"])
def test_a_body_that_is_no_chat_completion_may_pass(raw: bytes) -> None:
    with pytest.raises(TransientError, match="not a chat completion"):
        parse_chat_reply(raw, endpoint="e", elapsed_ms=0)


def test_filtered_content_is_rejected_for_good() -> None:
    with pytest.raises(PermanentError, match="content_filter"):
        parse_chat_reply(choice(finish_reason="content_filter"), endpoint="e", elapsed_ms=0)


def test_null_content_is_never_an_answer() -> None:
    with pytest.raises(PermanentError, match="no text"):
        parse_chat_reply(choice(finish_reason="length", message={"content": None}), endpoint="e", elapsed_ms=0)


def test_a_nul_character_is_replaced_as_no_database_stores_it() -> None:
    generation = parse_chat_reply(choice(message={"content": "a\0b"}), endpoint="e", elapsed_ms=0)

    assert generation.text == "a\ufffdb"


@pytest.mark.parametrize(
    ("content", "reasoning", "text"),
    [
        ("<think>99 thoughts</think>\n7", "99 thoughts", "7"),
        ("\n<think>\n</think>\n\nyes", None, "yes"),
        ("<think>cut off in the mid", "cut off in the mid", ""),
        ("no <think>x</think> at the start", None, "no <think>x</think> at the start"),
    ],
)
def test_leading_reasoning_is_kept_apart_and_never_scored(content: str, reasoning: str | None, text: str) -> None:
    generation = parse_chat_reply(choice(message={"content": content}), endpoint="e", elapsed_ms=0)

    assert (generation.reasoning, generation.text) == (reasoning, text)


def test_an_answer_that_ends_inside_its_reasoning_is_none() -> None:
    with pytest.raises(PermanentError, match="truncated_reasoning"):
        parse_chat_reply(
            choice(finish_reason="length", message={"content": "<think>let me"}), endpoint="e", elapsed_ms=0
        )


def test_fields_of_a_wrong_kind_are_unknown() -> None:
    raw = orjson.loads(choice(finish_reason={"why": "stop"})) | {"usage": {"prompt_tokens": 2**63 - 1}}

    generation = parse_chat_reply(orjson.dumps(raw), endpoint="e", elapsed_ms=0)

    assert generation.finish_reason is None
    assert generation.prompt_tokens is None


def test_half_a_surrogate_pair_is_replaced_like_nul() -> None:
    raw = choice(message={"content": "cut X"}).replace(b"X", b"\\ud83d")

    assert parse_chat_reply(raw, endpoint="e", elapsed_ms=0).text == "cut \ufffd"


@pytest.mark.parametrize("status", [401, 402, 403, 404, 408, 429, 500, 502, 503, 504, 301])
def test_faults_of_the_endpoint_may_pass(status: int) -> None:
    error = reply_error(status, b"", retry_after="7", endpoint="e")

    assert isinstance(error, TransientError)
    assert error.retry_after_s == 7
    assert error.may_be_prompt is (status == 500)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_rejected_prompt_is_permanent_and_says_what_the_endpoint_says(status: int) -> None:
    error = reply_error(status, b'{"error": {"message": "context too long"}}', retry_after=None, endpoint="http://e")

    assert isinstance(error, PermanentError)
    assert str(error) == f"http://e: HTTP {status}: context too long"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"error": {"message": "m"}}', "m"),
        (b'{"error": "m"}', "m"),
        (b'{"object": "error", "message": "m"}', "m"),
        (b'{"detail": "m"}', "m"),
        (b"plain words", "plain words"),
        (b"[1]", "[1]"),
        (b"", "empty answer"),
    ],
)
def test_the_message_is_found_in_every_form_of_error_body(raw: bytes, message: str) -> None:
    assert error_message(raw) == message


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)

    assert retry_after_s("3") == 3
    assert retry_after_s("Thu, 01 Jan 2026 12:01:00 GMT", now=now) == 60
    assert retry_after_s("Thu, 01 Jan 2026 11:00:00 GMT", now=now) == 0
    assert retry_after_s("Thu, 01 Jan 2026 12:01:00 -0000", now=now) == 60
    assert retry_after_s("soon") is None
    assert retry_after_s("inf") is None
    assert retry_after_s(None) is None
