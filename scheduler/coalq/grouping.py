"""How a run's coalitions are cut into groups: order, ranges and the prefix that a group shares.

A group is a contiguous range of the estimator's positions (depth-first order of the prompt trie), cut at multiples of
the group size. Sizes are powers of two by default, so that a group of an exact plan is a whole subtree. Group 0 is the
grand and the empty coalition, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from coalq.config import Manifest
from coalq.estimators import make_estimator
from coalq.identity import prefix_hash
from coalq.masks import Mask, grand_mask
from coalq.template import PromptTemplate

LARGEST_GROUP = 64
SMALLEST_GROUP = 8
GROUPS_PER_WORKER = 4
RECORDS_PER_GROUP = 256


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """The coalitions that travel in one message.

    Attributes:
        number: 0 for the grand and the empty coalition; later groups count up in depth-first order.
        masks: In the order in which they are best generated.
        prefix_hash: Hash of the leading text that they share.
    """

    number: int
    masks: tuple[Mask, ...]
    prefix_hash: str


class GroupPlan:
    """All groups of one run, computed on demand from its manifest: nothing is kept, any group can come first."""

    def __init__(self, manifest: Manifest) -> None:
        """Prepare the plan; constant time.

        Raises:
            InputError: If the manifest's estimator is unknown or does not fit.
        """
        self._template = manifest.template
        self._grand = grand_mask(manifest.n_players)
        self._size = manifest.group_size
        self._estimator = make_estimator(
            manifest.estimator, manifest.n_players, budget=manifest.budget, seed=manifest.seed
        )
        self._empty_position = self._estimator.n_planned - 1
        self._first_range = 1 // self._size
        last_range = (self._empty_position - 1) // self._size
        self._n_ranges = max(0, last_range - self._first_range + 1) if self._empty_position > 1 else 0

    @property
    def n_groups(self) -> int:
        """Number of groups, group 0 included."""
        return 1 + self._n_ranges

    @property
    def n_coalitions(self) -> int:
        """Number of distinct coalitions in all groups."""
        return self._estimator.n_planned

    def groups(self, start: int, stop: int) -> Iterator[PlannedGroup]:
        """The groups numbered from `start` up to `stop`, or to the last one."""
        for number in range(max(0, start), min(self.n_groups, stop)):
            masks = self._masks(number)
            yield PlannedGroup(number, masks, prefix_hash(group_prefix(self._template, masks)))

    def _masks(self, number: int) -> tuple[Mask, ...]:
        if number == 0:
            return (self._grand, 0)
        begin = (self._first_range + number - 1) * self._size
        return tuple(self._estimator.positions(max(1, begin), min(self._empty_position, begin + self._size)))


def choose_group_size(n_coalitions: int, live_workers: int, *, samples: int = 1) -> int:
    """Coalitions per group when the user names no size.

    At most 64, small enough for four groups per live worker, but at least 8. A group has a record for each sample of
    each of its coalitions: where these would be more than 256, it has fewer coalitions, down to a single one. Rounded
    down to a power of two.
    """
    share = n_coalitions // (GROUPS_PER_WORKER * max(1, live_workers))
    size = max(SMALLEST_GROUP, min(LARGEST_GROUP, share))
    size = max(1, min(size, RECORDS_PER_GROUP // samples))
    return int(1 << (size.bit_length() - 1))


def group_prefix(template: PromptTemplate, masks: Sequence[Mask]) -> str:
    """The rendered text that the coalitions share, up to the first player whose presence differs.

    In the form of `PromptTemplate.leading_text`. The renderings can agree a little further by chance (two equal
    words); the players decide, so that planning never renders each coalition. Coalitions that do not differ share
    all of it.
    """
    together, anybody = masks[0], 0
    for mask in masks:
        together &= mask
        anybody |= mask
    differing = together ^ anybody
    if not differing:
        return template.leading_text(together, template.n_players)
    return template.leading_text(together, (differing & -differing).bit_length() - 1)
