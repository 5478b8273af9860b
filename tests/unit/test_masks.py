"""Masks: packing, order and text form."""

from __future__ import annotations

import pytest

from coalq.masks import (
    PackedMask,
    depth_first_key,
    grand_mask,
    mask_bytes,
    mask_text,
    pack_mask,
    present_players,
    unpack_masks,
)


def test_a_mask_is_shown_with_player_0_first() -> None:
    assert mask_text(0b1101, 4) == "1011"


def test_no_player_still_takes_one_byte() -> None:
    assert mask_bytes(0) == 1
    assert pack_mask(0, 0) == b"\0"


def test_the_grand_mask_holds_everybody() -> None:
    assert list(present_players(grand_mask(5))) == [0, 1, 2, 3, 4]


def test_bytes_that_are_no_whole_number_of_masks_are_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes are not a whole number of masks of 2 bytes"):
        unpack_masks(b"\1\2\3", 9)


def test_depth_first_order_starts_with_the_grand_and_ends_with_the_empty_coalition() -> None:
    ordered = sorted(range(8), key=lambda mask: -depth_first_key(mask, 3))

    assert [mask_text(mask, 3) for mask in ordered] == ["111", "110", "101", "100", "011", "010", "001", "000"]


def test_a_packed_mask_gives_its_booleans_back() -> None:
    present = (True, False, True) * 4

    packed = PackedMask.pack(present)

    assert packed.unpack() == present
    assert packed == PackedMask(words=b"\x6d\x0b", n_bits=12)
