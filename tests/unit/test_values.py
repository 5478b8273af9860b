"""Value functions: what they see in an answer, and what is refused."""

from __future__ import annotations

import pytest

from coalq.errors import InputError, NotBuiltError, PermanentError
from coalq.generation import Generation
from coalq.values import ValueFunction, evaluate, make_value

BASE = Generation("Within 14 days.")


def worth(spec: str, text: str, base: str = BASE.text) -> float:
    return evaluate(make_value(spec), Generation(text), Generation(base))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Within 14 days.", 1), ("  Within 14 days.\n", 1), ("within 14 days.", 0), ("Within 14  days.", 0), ("", 0)],
)
def test_exact_compares_with_the_base_answer_but_for_outer_white_space(text: str, expected: float) -> None:
    assert worth("exact", text) == expected


@pytest.mark.parametrize(
    ("spec", "text", "expected"),
    [
        ("contains:14", "In 14 days", 1),
        ("contains:14", "In two weeks", 0),
        ("contains:Yes", "yes", 0),
        ("contains: a", "b a", 1),
        ("contains:a:b", "xa:by", 1),
    ],
)
def test_contains_looks_for_the_very_text(spec: str, text: str, expected: float) -> None:
    assert worth(spec, text) == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("It is 42.", 42),
        ("From 10-20 on", 10),
        ("-3.5 degrees, then 4", -3.5),
        ("\u22127 degrees", -7),
        ("about +5", 5),
        ("COVID-19", 19),
        ("1,234,567.5 euros", 1_234_567.5),
        ("1,2,4", 1),
        ("12,34", 12),
        (".5 of it", 0.5),
        ("v1.2.3", 1.2),
        ("1e-05", 1e-05),
        ("2E3x 4", 2),
        ("14th", 14),
        ("３０日", 30),
        ("0.1 + 0.2", 0.1),
    ],
)
def test_number_reads_the_first_number(text: str, number: float) -> None:
    assert worth("number", text) == number


@pytest.mark.parametrize("text", ["", "none at all", "- , ."])
def test_an_answer_without_a_number_fails_its_coalition(text: str) -> None:
    with pytest.raises(PermanentError, match=r"^value number: the answer contains no number$"):
        worth("number", text)


def test_a_number_beyond_all_floats_fails_its_coalition() -> None:
    with pytest.raises(PermanentError, match="value number: inf is not a finite number"):
        worth("number", "1e999")


def test_chrf_is_1_for_the_base_answer_and_0_for_nothing_in_common() -> None:
    assert worth("chrf", "Within 14 days.") == 1
    assert worth("chrf", "Within\t14days.") == 1
    assert worth("chrf", "zzz") == 0
    assert worth("chrf", "") == 0
    assert 0.2 < worth("chrf", "Within 30 days.") < 0.9


def test_chrf_follows_a_base_that_changes() -> None:
    value = make_value("chrf")

    assert value(Generation("a b c"), Generation("a b c")) == 1
    assert value(Generation("a b c"), Generation("x y z")) == 0
    assert value(Generation("a b c"), Generation("a b c")) == 1


@pytest.mark.parametrize("spec", ["exact", "contains:14", "number", "chrf"])
def test_a_value_carries_the_name_it_was_asked_for_by(spec: str) -> None:
    value: ValueFunction = make_value(spec)

    assert value.name == spec
    assert value.version == 1


@pytest.mark.parametrize("spec", ["cosine", "rouge_l", "regex:a+", "choice:Yes|No", "logprob", "embedding", "judge:x"])
def test_documented_values_that_are_not_built_are_refused_by_name(spec: str) -> None:
    with pytest.raises(NotBuiltError, match="is not built yet; allowed are: contains:TEXT, exact, number, chrf"):
        make_value(spec)


@pytest.mark.parametrize("spec", ["", "bleu", "Contains:14", "contains", "contains:", "exact:a", "chrf:2"])
def test_other_values_are_refused(spec: str) -> None:
    with pytest.raises(InputError, match=f"value '{spec}'"):
        make_value(spec)


class Broken:
    """A plugin that gives whatever it was made with."""

    name = "broken"
    version = 1

    def __init__(self, result: float | Exception) -> None:
        self.result = result

    def __call__(self, generation: Generation, base: Generation) -> float:  # noqa: ARG002 - a plugin's signature
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (float("nan"), "value broken: nan is not a finite number"),
        (float("-inf"), "value broken: -inf is not a finite number"),
        (KeyError("a"), "value broken: 'a'"),
        (ZeroDivisionError(), "value broken: ZeroDivisionError"),
    ],
)
def test_a_value_that_breaks_fails_its_coalition(result: float | Exception, message: str) -> None:
    with pytest.raises(PermanentError) as raised:
        evaluate(Broken(result), BASE, BASE)

    assert str(raised.value) == message
