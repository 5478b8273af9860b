"""The value `chrf` is sacrebleu's sentence chrF."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from coalq.generation import Generation
from coalq.values import Chrf

REFERENCE = CHRF()
texts = st.text("abAB .,é漢字\n", max_size=40) | st.text(max_size=20)


@given(texts, texts)
@example("", "")
@example("a", "")
@example("", "a")
@example("Refunds are paid within 14 days.", "Within 14 days.")
def test_chrf_equals_sacrebleu(answer: str, base: str) -> None:
    score = Chrf()(Generation(answer), Generation(base))

    assert score == pytest.approx(REFERENCE.sentence_score(answer, [base]).score / 100, abs=1e-12)


@given(texts, texts)
def test_a_base_counted_before_gives_the_same_bits(answer: str, base: str) -> None:
    value = Chrf()

    first = value(Generation(answer), Generation(base))

    assert 0 <= first <= 1
    assert value(Generation(answer), Generation(base)) == first
