"""Coalition masks: one int per coalition, packed as little-endian bits.

Bit i of the int is player i in reading order. `pack_mask` gives the same bytes as
`numpy.packbits(mask, bitorder="little")`; ascending ints are "mask order", the order of every sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Mask = int


def mask_bytes(n_players: int) -> int:
    """Bytes that one packed mask of `n_players` bits takes (at least one)."""
    return max(1, (n_players + 7) // 8)


def grand_mask(n_players: int) -> Mask:
    """The mask of the grand coalition: everybody present."""
    return (1 << n_players) - 1


def pack_mask(mask: Mask, n_players: int) -> bytes:
    """Pack one mask into `mask_bytes(n_players)` little-endian bytes."""
    return mask.to_bytes(mask_bytes(n_players), "little")


def unpack_mask(packed: bytes) -> Mask:
    """The inverse of `pack_mask`."""
    return int.from_bytes(packed, "little")


def pack_masks(masks: Iterable[Mask], n_players: int) -> bytes:
    """Concatenate packed masks; the order is kept."""
    size = mask_bytes(n_players)
    return b"".join(mask.to_bytes(size, "little") for mask in masks)


def unpack_masks(packed: bytes, n_players: int) -> list[Mask]:
    """The inverse of `pack_masks`.

    Raises:
        ValueError: If the length is not a multiple of one mask's size.
    """
    size = mask_bytes(n_players)
    if len(packed) % size:
        raise ValueError(f"{len(packed)} bytes are not a whole number of masks of {size} bytes")
    return [int.from_bytes(packed[i : i + size], "little") for i in range(0, len(packed), size)]


def mask_text(mask: Mask, n_players: int) -> str:
    """The mask as it is shown and exported: player 0 first, "1" for present, e.g. "1011"."""
    return "".join("1" if mask >> i & 1 else "0" for i in range(n_players))


def present_players(mask: Mask) -> Iterator[int]:
    """Indices of the players present, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def depth_first_key(mask: Mask, n_players: int) -> int:
    """The mask with player 0 as the most significant bit.

    Descending order of this key is the depth-first order of the prompt trie; two coalitions with keys
    a and b share their first `n_players - (a ^ b).bit_length()` players.
    """
    return int(mask_text(mask, n_players), 2) if n_players else 0


@dataclass(frozen=True, slots=True)
class PackedMask:
    """One coalition mask as it is stored.

    Attributes:
        words: Little-endian packed bits.
        n_bits: Number of players.
    """

    words: bytes
    n_bits: int

    @classmethod
    def pack(cls, present: Sequence[bool]) -> PackedMask:
        """Pack a sequence of booleans, player 0 first."""
        mask = sum(1 << i for i, here in enumerate(present) if here)
        return cls(pack_mask(mask, len(present)), len(present))

    def unpack(self) -> tuple[bool, ...]:
        """The booleans again, player 0 first."""
        mask = unpack_mask(self.words)
        return tuple(bool(mask >> i & 1) for i in range(self.n_bits))
