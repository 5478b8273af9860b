"""Groups: ranges, sizes, prefixes."""

from __future__ import annotations

import pytest

from coalq.config import Manifest, RunConfig
from coalq.conversation_input import ConversationInput
from coalq.errors import InputError
from coalq.grouping import GroupPlan, choose_group_size, group_prefix
from coalq.identity import prefix_hash
from coalq.manifest import make_manifest
from coalq.masks import mask_text
from manifests import words_manifest


def groups_of(manifest: Manifest) -> list[list[str]]:
    plan = GroupPlan(manifest)
    return [[mask_text(mask, manifest.n_players) for mask in group.masks] for group in plan.groups(0, plan.n_groups)]


def test_group_0_is_the_grand_and_the_empty_coalition_and_the_rest_is_depth_first() -> None:
    assert groups_of(words_manifest(3, group_size=4)) == [
        ["111", "000"],
        ["110", "101", "100"],
        ["011", "010", "001"],
    ]


def test_one_player_has_nothing_but_group_0() -> None:
    assert groups_of(words_manifest(1)) == [["1", "0"]]


def test_groups_of_one_coalition_leave_no_empty_group() -> None:
    assert groups_of(words_manifest(2, group_size=1)) == [["11", "00"], ["10"], ["01"]]


def test_any_group_can_be_computed_first() -> None:
    plan = GroupPlan(words_manifest(10, group_size=64))
    everything = list(plan.groups(0, plan.n_groups))

    assert [list(plan.groups(group.number, group.number + 1)) for group in everything] == [[g] for g in everything]


def test_numbers_beyond_the_plan_give_no_group() -> None:
    plan = GroupPlan(words_manifest(3, group_size=4))

    assert [group.number for group in plan.groups(2, 99)] == [2]
    assert list(plan.groups(3, 99)) == []


def test_an_exact_plan_of_millions_is_not_enumerated_to_reach_its_end() -> None:
    plan = GroupPlan(words_manifest(22, group_size=64))

    (last,) = plan.groups(plan.n_groups - 1, plan.n_groups)

    assert (plan.n_groups, plan.n_coalitions) == (1 + 2**22 // 64, 2**22)
    assert len(last.masks) == 63
    assert all(mask_text(mask, 22).startswith("0" * 16) for mask in last.masks)


def test_a_group_of_a_power_of_two_shares_its_leading_players() -> None:
    manifest = words_manifest(6, group_size=8)
    group = next(GroupPlan(manifest).groups(3, 4))

    assert len({mask_text(mask, 6)[:3] for mask in group.masks}) == 1
    assert group.prefix_hash == prefix_hash(group_prefix(manifest.template, group.masks))


@pytest.mark.parametrize(
    ("masks", "shared"),
    [
        ([0b0001, 0b1001], "p0 "),
        ([0b0011, 0b0111, 0b1011], "p0 p1 "),
        ([0b1111, 0b0000], ""),
        ([0b0101], "p0 p2 "),
    ],
)
def test_the_prefix_ends_before_the_first_player_whose_presence_differs(masks: list[int], shared: str) -> None:
    assert group_prefix(words_manifest(4).template, masks) == f"\x1euser\x1f{shared}"


@pytest.mark.parametrize(
    ("coalitions", "workers", "size"),
    [
        (2, 1, 8),
        (128, 1, 32),
        (128, 3, 8),
        (512, 1, 64),
        (512, 3, 32),
        (2**20, 1, 64),
        (2**20, 0, 64),
        (2**20, 10**6, 8),
    ],
)
def test_the_size_leaves_four_groups_to_each_worker(coalitions: int, workers: int, size: int) -> None:
    assert choose_group_size(coalitions, workers) == size


@pytest.mark.parametrize(("samples", "size"), [(2, 64), (4, 64), (5, 32), (50, 4), (200, 1), (256, 1), (1000, 1)])
def test_many_samples_make_smaller_groups_of_at_most_256_records(samples: int, size: int) -> None:
    assert choose_group_size(2**16, 1, samples=samples) == size


def test_a_group_of_few_samples_is_no_smaller_than_one_without() -> None:
    assert choose_group_size(128, 3, samples=4) == choose_group_size(128, 3) == 8


def test_a_size_that_the_user_names_stays_and_the_default_knows_the_samples() -> None:
    prompt = ConversationInput.from_text("a b c d e f g h")
    many = RunConfig(model="toy", players="words", samples_per_coalition=1000)

    chosen = make_manifest(prompt, many, run_id="run")
    named = make_manifest(prompt, many.model_copy(update={"group_size": 16}), run_id="run")

    assert (chosen.group_size, named.group_size) == (1, 16)


def test_a_manifest_that_cannot_be_planned_is_refused() -> None:
    short = words_manifest(4).model_copy(update={"budget": 15})

    with pytest.raises(InputError, match=r"budget 15 is below 2\^4 = 16"):
        GroupPlan(short)
