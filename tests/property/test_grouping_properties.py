"""Every coalition travels in exactly one group, in depth-first order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coalq.grouping import GroupPlan, group_prefix
from coalq.masks import depth_first_key, grand_mask
from manifests import words_manifest

games = st.tuples(st.integers(1, 9), st.integers(1, 256))


@given(games)
def test_groups_partition_all_coalitions(game: tuple[int, int]) -> None:
    n_players, size = game
    plan = GroupPlan(words_manifest(n_players, group_size=size))

    groups = list(plan.groups(0, plan.n_groups))

    assert sorted(mask for group in groups for mask in group.masks) == list(range(1 << n_players))
    assert [group.number for group in groups] == list(range(plan.n_groups))
    assert groups[0].masks == (grand_mask(n_players), 0)
    assert all(1 <= len(group.masks) <= size for group in groups[1:])
    keys = [depth_first_key(mask, n_players) for group in groups[1:] for mask in group.masks]
    assert keys == sorted(keys, reverse=True)


@given(games)
def test_every_rendering_of_a_group_starts_with_its_prefix(game: tuple[int, int]) -> None:
    n_players, size = game
    manifest = words_manifest(n_players, group_size=size)
    plan = GroupPlan(manifest)

    for group in plan.groups(0, plan.n_groups):
        prefix = group_prefix(manifest.template, group.masks)
        texts = [manifest.template.leading_text(mask, n_players) for mask in group.masks]
        assert all(text.startswith(prefix) for text in texts)
