"""Text as every database and JSON writer can hold it."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(words: str) -> str:
    """The text with NUL and unpaired surrogates replaced by U+FFFD; neither means anything in an answer."""
    if words.isascii() and "\x00" not in words:
        return words
    return _UNSTORABLE.sub("\ufffd", words)
