"""Masks round-trip through bytes and keep the order of the prompt trie."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coalq.masks import depth_first_key, mask_text, pack_mask, pack_masks, present_players, unpack_mask, unpack_masks

presences = st.lists(st.booleans(), min_size=1, max_size=200)


def as_mask(present: list[bool]) -> int:
    return sum(1 << i for i, here in enumerate(present) if here)


@given(presences)
def test_a_packed_mask_is_what_numpy_packs(present: list[bool]) -> None:
    packed = pack_mask(as_mask(present), len(present))

    assert packed == np.packbits(present, bitorder="little").tobytes()
    assert unpack_mask(packed) == as_mask(present)


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, (1 << n) - 1)))))
def test_many_masks_keep_their_order(game: tuple[int, list[int]]) -> None:
    n_players, masks = game

    assert unpack_masks(pack_masks(masks, n_players), n_players) == masks


@given(presences)
def test_present_players_are_the_set_bits_in_reading_order(present: list[bool]) -> None:
    assert list(present_players(as_mask(present))) == [i for i, here in enumerate(present) if here]


@given(st.integers(1, 24).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 2**n - 1), st.integers(0, 2**n - 1))))
def test_keys_tell_how_many_leading_players_two_coalitions_share(game: tuple[int, int, int]) -> None:
    n_players, one, other = game

    shared = n_players - (depth_first_key(one, n_players) ^ depth_first_key(other, n_players)).bit_length()

    pairs = zip(mask_text(one, n_players), mask_text(other, n_players), strict=True)
    differing = [i for i, (a, b) in enumerate(pairs) if a != b]
    assert shared == (differing[0] if differing else n_players)
