"""The scheduler's companions in memory."""

from __future__ import annotations

import pytest

from coalq.claim import Held, Stored, Won
from coalq.generation import Generation
from coalq.inference import CoalitionDedupRegistry, CoalitionRecordDraft, HotResultStore, RunArchive
from coalq.outcome import Outcome
from scheduler_parts import make_job


def test_the_store_lets_go_of_what_was_not_used_for_longest() -> None:
    store = HotResultStore(maxsize=2)
    store.put("a", Generation("1"))
    store.put("b", Generation("2"))

    assert store.get("a") == Generation("1")
    store.put("c", Generation("3"))

    assert store.get("b") is None
    assert store.get("a") is not None
    assert len(store) == 2


@pytest.mark.parametrize(("maxsize", "kept"), [(None, 1000), (128, 128), (0, 0)])
def test_the_store_keeps_as_many_as_it_may(maxsize: int | None, kept: int) -> None:
    store = HotResultStore(maxsize)

    for number in range(1000):
        store.put(str(number), Generation(""))

    assert len(store) == kept


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="maxsize must not be negative: -1"):
        HotResultStore(-1)


def test_the_store_lets_go_of_the_oldest_texts_when_all_together_are_too_long() -> None:
    store = HotResultStore(None, max_characters=10)
    store.put("a", Generation("1234"))
    store.put("b", Generation("12", reasoning="34"))
    assert store.get("a") is not None

    store.put("c", Generation("123"))

    assert [store.get(key) is not None for key in "abc"] == [True, False, True]
    assert len(store) == 2


def test_a_text_that_is_put_again_counts_once() -> None:
    store = HotResultStore(max_characters=10)

    for text in ("1234", "123456", "123456"):
        store.put("a", Generation(text))
    store.put("b", Generation("1234"))

    assert [store.get(key) is not None for key in "ab"] == [True, True]


def test_a_text_that_is_too_long_by_itself_displaces_no_other() -> None:
    store = HotResultStore(max_characters=10)
    store.put("a", Generation("1234"))
    store.put("b", Generation("1234"))

    store.put("b", Generation("x" * 11))

    assert [store.get(key) is not None for key in "ab"] == [True, False]


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(ValueError, match="max_characters must not be negative: -1"):
        HotResultStore(max_characters=-1)


async def test_the_registry_remembers_the_first_generation_of_a_key() -> None:
    registry = CoalitionDedupRegistry()

    assert await registry.claim("a") == Won()
    assert await registry.claim("a") == Held()
    registry.release("a", Generation("first"))
    registry.release("a", Generation("second"))

    assert await registry.claim("a") == Stored(Generation("first"))
    assert len(registry) == 1


async def test_a_claim_given_up_without_a_generation_may_be_won_again() -> None:
    registry = CoalitionDedupRegistry()
    await registry.claim("a")

    registry.release("a")

    assert not registry.contains("a")
    assert await registry.claim("a") == Won()


async def test_records_are_read_in_mask_order_and_by_sample() -> None:
    archive = RunArchive()
    for number in (3, 1, 300, 2):
        await archive.append(CoalitionRecordDraft(make_job(number), Outcome.EXECUTED, Generation("x" * number)))

    assert [record.utility for record in archive.records] == [1.0, 2.0, 3.0, 300.0]
    assert len(archive) == 4


async def test_without_a_value_function_a_record_has_no_utility() -> None:
    archive = RunArchive()

    record = await archive.append(CoalitionRecordDraft(make_job(1, utility=None), Outcome.EXECUTED, Generation("text")))

    assert record.utility is None
    assert record.outcome is Outcome.EXECUTED
    assert record.generation_text == "text"
