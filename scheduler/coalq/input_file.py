"""Reads a conversation from a file, from standard input or from the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Literal

from coalq.conversation_input import ConversationInput
from coalq.errors import InputError, NotBuiltError
from coalq.input_syntax import load_json, load_yaml

Format = Literal["yaml", "json", "text"]

_FORMATS: dict[str, Format] = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}


def parse_input(text: str, *, source: str, format: Format) -> ConversationInput:  # noqa: A002 - the word users know
    """Read a conversation from a text.

    Raises:
        InputError: Names the source and what is wrong; for broken YAML or JSON also the line.
    """
    if format == "text":
        return ConversationInput.from_text(text, source=source)
    if not text.strip():
        raise InputError(f"{source}: is empty; there is nothing to explain")
    try:
        parsed = load_json(text, source=source) if format == "json" else load_yaml(text, source=source)
    except RecursionError as error:
        raise InputError(f"{source}: is nested too deeply") from error
    if not isinstance(parsed, Mapping):
        kind = "empty" if parsed is None else f"a {type(parsed).__name__}"
        raise InputError(f"{source}: must be a mapping with `prompt` or `messages`, but it is {kind}")
    return ConversationInput.from_mapping(parsed, source=source)


def read_input(
    path: str | Path | None, *, prompt: str | None = None, stdin: BinaryIO | None = None
) -> ConversationInput:
    """Read the conversation that a command names.

    `.yaml`, `.yml` and `.json` files hold a mapping; everything else is plain text, one user message, of which only a
    byte order mark and one line end at the very end are not part.

    Args:
        path: A file, or `-` for `stdin`.
        prompt: The text itself, instead of a file.
        stdin: Standard input as bytes.

    Raises:
        InputError: If none or several are given, or it cannot be read.
    """
    if (path is None) == (prompt is None):
        raise InputError("give exactly one of: an input file, `-` for standard input, --prompt TEXT")
    if prompt is not None:
        return ConversationInput.from_text(prompt, source="--prompt")
    if str(path) == "-":
        if stdin is None:
            raise InputError("there is no standard input to read")
        return parse_input(
            _plain(_decode(stdin.read(), source="standard input")), source="standard input", format="text"
        )
    return _read_file(Path(path or ""))


def _read_file(path: Path) -> ConversationInput:
    source, suffix = str(path), path.suffix.lower()
    if suffix == ".jsonl":
        raise NotBuiltError(f"{source}: JSONL datasets are not built yet; allowed are .yaml, .json and plain text")
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"{source}: there is no such file (a prompt itself is given with --prompt)") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{source}: cannot be read: {reason}") from error
    text = _decode(content, source=source)
    format = _FORMATS.get(suffix, "text")  # noqa: A001 - as above
    return parse_input(_plain(text) if format == "text" else text, source=source, format=format)


def _decode(content: bytes, *, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{source}: line {line}: is not UTF-8 text ({error.reason})") from error


def _plain(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
