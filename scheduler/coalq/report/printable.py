"""Text of a model or a user made safe for a terminal, which obeys control characters."""

from __future__ import annotations

_KEPT = "\n\t"
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in _KEPT}
# Delete, the C1 controls, and what turns the direction of text around.
_REPLACED = dict.fromkeys([0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)
_TABLE = _PICTURES | _REPLACED


def printable(text: str) -> str:
    """The text with every control character but line feed and tab shown as a symbol; the length is kept."""
    return text.translate(_TABLE)


def one_line(text: str) -> str:
    """The text on one line, runs of white space as single spaces."""
    return printable(" ".join(text.split()))
