"""The message of a group and the names of queues."""

from __future__ import annotations

import re

import pytest

from coalq.wire import GroupMessage, describe_group, queue_name

MESSAGE = GroupMessage(archive_id="a1", run_id="3f2a9c1e00000000", group_number=17, attempt=2)


def test_a_message_is_read_back_as_it_was_written() -> None:
    assert GroupMessage.decode(MESSAGE.encode()) == MESSAGE


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"v": 2}, "message version 2 is not 1"),
        ({"archive": None}, "archive and run must be text"),
        ({"run": 3}, "archive and run must be text"),
        ({"group": "17"}, "group and attempt must be whole numbers"),
        ({"attempt": None}, "group and attempt must be whole numbers"),
    ],
)
def test_a_malformed_message_is_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        GroupMessage.decode({**MESSAGE.encode(), **change})


def test_the_task_id_names_the_delivery() -> None:
    assert MESSAGE.task_id == "3f2a9c1e00000000-17-2"


def test_the_shown_arguments_are_readable() -> None:
    shown = describe_group(MESSAGE, n_groups=64, coalitions=64, prefix_hash="9c0d41aa00000000")

    assert shown == "run=3f2a9c1e group=17/64 coalitions=64 prefix=9c0d41aa"


def test_an_open_plan_shows_no_total() -> None:
    assert "group=17 " in describe_group(MESSAGE, n_groups=None, coalitions=64, prefix_hash="9c0d41aa")


def test_plain_model_names_stand_in_the_queue_as_they_are() -> None:
    assert queue_name("a1", "gpt-4.1_mini") == "coalq1.a1.gpt-4.1_mini"
    assert queue_name("a1", "m", local_id="b2") == "coalq1.a1.b2.m"


@pytest.mark.parametrize("model", ["org/model:7b", "additive:1,2,4", "modèle", "m" * 200, "a b", ""])
def test_other_model_names_become_names_that_no_broker_mangles(model: str) -> None:
    name = queue_name("a1", model)

    assert re.fullmatch(r"coalq1\.a1\.[A-Za-z0-9._-]+", name)
    assert len(name) < 120


def test_models_that_look_alike_have_queues_of_their_own() -> None:
    assert queue_name("a1", "org/model") != queue_name("a1", "org:model")
