"""Where words and sentences begin and end."""

from __future__ import annotations

import pytest

from coalq.players import is_visible, split_sentences, split_words


def words(text: str) -> list[str]:
    return [text[span.start : span.end] for span in split_words(text)]


def sentences(text: str) -> list[str]:
    return [text[span.start : span.end] for span in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Refunds are paid.", ["Refunds", "are", "paid."]),
        ("  don't\tstop\r\n", ["don't", "stop"]),
        ("10\u00a0km", ["10", "km"]),
        ("漢字かなカナ", ["漢", "字", "か", "な", "カ", "ナ"]),
        ("ｶﾞラー", ["ｶﾞ", "ラ", "ー"]),
        ("GPTは速い", ["GPT", "は", "速", "い"]),
        ("東京。大阪", ["東", "京", "。", "大", "阪"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("cafe\u0301 x", ["cafe\u0301", "x"]),
        ("葛\U000e0100城", ["葛\U000e0100", "城"]),
        ("か\u3099き", ["か\u3099", "き"]),
        ("👩\u200d👩\u200d👧 ❤\ufe0f👍🏽", ["👩\u200d👩\u200d👧", "❤\ufe0f👍🏽"]),
        ("a \u0301 b", ["a", "b"]),
        ("a \u200b\ufeff b", ["a", "b"]),
        ("\U0001fae8", ["\U0001fae8"]),
        ("", []),
        (" \n\u3000", []),
    ],
)
def test_words_are_runs_of_visible_characters_and_single_cjk_ones(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Really?! Yes... no", ["Really?!", "Yes...", "no"]),
        ("Pi is 3.14 or so.", ["Pi is 3.14 or so."]),
        ('He said "stop." (Twice.) Then left', ['He said "stop."', "(Twice.)", "Then left"]),
        ("First line\nsecond line\r\nthird", ["First line", "second line", "third"]),
        ("一つ。二つ！三つ？", ["一つ。", "二つ！", "三つ？"]),
        ("「はい。」と言った。", ["「はい。」", "と言った。"]),
        ("Wow！\ufe0f next", ["Wow！\ufe0f", "next"]),
        ("see a.b and c.", ["see a.b and c."]),
        ("What?!。Next", ["What?!。", "Next"]),
        ("  padded.  end  ", ["padded.", "end"]),
        ("...", ["..."]),
        ("\u200b\n\n", []),
        ("", []),
    ],
)
def test_sentences_end_at_marks_and_line_ends(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize("text", ["", " ", "\u200b", "\u0301", "\u3164", "\x00", "\u2028"])
def test_text_without_ink_is_invisible(text: str) -> None:
    assert not is_visible(text)


@pytest.mark.parametrize("text", ["a", "。", "-", " \u200b_", "👍", "\ue000"])
def test_anything_with_ink_is_visible(text: str) -> None:
    assert is_visible(text)
