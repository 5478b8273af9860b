"""A worker's jobs: coalitions of one group of one run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from coalq.archive import StartedGroup
from coalq.inference import CoalitionJob
from coalq.masks import pack_mask, unpack_masks
from coalq.run_jobs import RunContext, Sampled, make_jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJob(CoalitionJob):
    """A job that belongs to one group of one run."""

    run_id: str
    group_number: int


def group_jobs(context: RunContext, group: StartedGroup, pairs: Iterable[Sampled]) -> list[GroupJob]:
    """The jobs of some of the group's coalitions, in that order."""
    make = partial(GroupJob, run_id=group.run_id, group_number=group.group_number)
    return list(make_jobs(context, pairs, prefix_hash=group.prefix_hash, make=make))


def unrecorded(context: RunContext, group: StartedGroup, recorded: set[tuple[bytes, int]]) -> list[Sampled]:
    """The group's (mask, sample) pairs that have no record yet, in the group's order."""
    n_players = context.manifest.n_players
    return [
        (mask, sample)
        for mask in unpack_masks(group.masks, n_players)
        for packed in (pack_mask(mask, n_players),)
        for sample in range(context.manifest.samples_per_coalition)
        if (packed, sample) not in recorded
    ]
