"""Where the words and the sentences of a text stand.

Words are runs of characters that are not white space; each Han, Hiragana or Katakana character (half-width ones too)
is a word of its own; Hangul is written with spaces and treated like Latin. Sentences end at one or more of `. ! ?` and
closing quotes or brackets before white space or the end of the text, at `。！？` and closers anywhere, and where lines
end. Combining marks, variation selectors and joiners stay with what they follow, white space included.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_CJK = re.compile(
    "[\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b"  # radicals, iteration mark, ideographic zero, numerals
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d"  # kana without their marks
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # ideographs
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff]"  # further kana and ideographs
)
_FIRST_CJK = "\u2e80"
_INK = re.compile("[!-~]")
_JOINER = "\u200d"
_HALF_WIDTH_MARKS = "\uff9e\uff9f"  # voiced sound marks that Unicode counts as letters
_LINE_ENDS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
_ENDS = frozenset(".!?。！？")
_WIDE_ENDS = frozenset("。！？")
_CLOSERS = frozenset("\"'”’»›)]}」』）】》〉］｝〕〗〙〛＂＇")
# Unassigned code points count as visible: emoji newer than this Python are among them.
_INVISIBLE = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Mn", "Mc", "Me"})
# Letters and symbols that have no ink: Hangul fillers and the blank Braille pattern.
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` up to `end` of a text."""

    start: int
    end: int


def split_words(text: str) -> tuple[Span, ...]:
    """The words of a text in reading order; every visible character is in exactly one."""
    spans: list[Span] = []
    begin: int | None = None
    previous_is_cjk = False
    for start, _ in _clusters(text):
        char = text[start]
        is_space, is_cjk = char.isspace(), char >= _FIRST_CJK and _CJK.match(char) is not None
        if begin is not None and (is_space or is_cjk or previous_is_cjk):
            spans.append(Span(begin, start))
            begin = None
        if begin is None and not is_space:
            begin = start
        previous_is_cjk = is_cjk
    if begin is not None:
        spans.append(Span(begin, len(text)))
    return _visible(spans, text)


def split_sentences(text: str) -> tuple[Span, ...]:
    """The sentences of a text in reading order, without the white space around them."""
    spans: list[Span] = []
    begin: int | None = None
    inked = 0  # end of the last cluster that is not white space
    closing = wide = False  # in the marks that end a sentence; one of them needs no white space after it
    for start, end in _clusters(text):
        char = text[start]
        if closing and char not in _ENDS and char not in _CLOSERS and (wide or char.isspace()):
            char_ends = True
        else:
            char_ends = char in _LINE_ENDS
        if char_ends and begin is not None:
            spans.append(Span(begin, inked))
            begin = None
        if not char.isspace():
            begin = start if begin is None else begin
            inked = end
        closing = char in _ENDS or (closing and char in _CLOSERS)
        wide = closing and (wide or char in _WIDE_ENDS)
    if begin is not None:
        spans.append(Span(begin, inked))
    return _visible(spans, text)


def is_visible(text: str) -> bool:
    """Whether any character leaves a mark of its own: not white space, nor a control or format character or accent."""
    if _INK.search(text):  # nearly always; a text of a million words is asked a million times
        return True
    return any(unicodedata.category(char) not in _INVISIBLE and char not in _BLANK_LETTERS for char in text)


def _visible(spans: list[Span], text: str) -> tuple[Span, ...]:
    return tuple(span for span in spans if is_visible(text[span.start : span.end]))


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    """Ranges of characters that must stay together: one character and the marks and joiners that follow it."""
    if text.isascii():  # no marks among them
        yield from zip(range(len(text)), range(1, len(text) + 1), strict=True)
        return
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or not _is_attached(text[index], text[start]):
            yield start, index
            start = index


def _is_attached(char: str, base: str) -> bool:
    """Whether a character stays with the cluster that begins with `base`."""
    voiced = char in _HALF_WIDTH_MARKS and not base.isspace()  # visible by themselves, unlike combining marks
    return voiced or char == _JOINER or unicodedata.category(char)[0] == "M"
