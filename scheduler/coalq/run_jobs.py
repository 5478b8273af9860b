"""The jobs of a run's coalitions: rendered, keyed, and bound to the value function and its base generation.

The worker makes a group's jobs with it, a notebook those of a whole run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

from coalq.config import Manifest
from coalq.errors import BaseUnknownError
from coalq.generation import Generation
from coalq.inference import CoalitionJob
from coalq.masks import Mask, grand_mask, pack_mask
from coalq.values import ValueFunction, evaluate, make_value

Sampled = tuple[Mask, int]
"""(mask, sample): one record to be."""

Job = TypeVar("Job", bound=CoalitionJob)


@dataclass(frozen=True, slots=True)
class RunContext:
    """A run as its jobs need it.

    Attributes:
        base: The grand coalition's generation, the reference of every utility; None while it is not known.
    """

    manifest: Manifest
    value: ValueFunction
    snapshot_id: str
    base: Generation | None = None

    @classmethod
    def of(cls, manifest: Manifest) -> RunContext:
        """Prepare a manifest.

        Raises:
            InputError: If its value function is not known here.
        """
        return cls(
            manifest=manifest,
            value=make_value(manifest.value),
            snapshot_id=manifest.template.grand().snapshot_id,
        )

    @classmethod
    def of_stored(cls, manifest: dict[str, Any]) -> RunContext:
        """Prepare a manifest as the archive stores it.

        Raises:
            ValueError: If it is of a version this program does not read.
            InputError: As `of`.
        """
        return cls.of(Manifest.model_validate(manifest))

    def with_base(self, base: Generation) -> RunContext:
        """The same run, its base generation known."""
        return replace(self, base=base)

    @property
    def base_pair(self) -> Sampled:
        """The grand coalition's first sample, which is the base."""
        return (grand_mask(self.manifest.n_players), 0)


def make_jobs(
    context: RunContext, pairs: Iterable[Sampled], *, prefix_hash: str = "", make: Callable[..., Job]
) -> Iterator[Job]:
    """Render and key each coalition, when its jobs are asked for; the samples of a mask share what was rendered.

    The base's own job is scored against its own generation, which then is the base of all others if `context.base`
    is None.

    Args:
        context: The run.
        pairs: Which (mask, sample) pairs, the samples of a mask one after another.
        prefix_hash: Of the group they travel in.
        make: `CoalitionJob`, or a kind of it with its further fields bound.
    """
    manifest = context.manifest
    keys = manifest.key_scheme
    against_base = _AgainstBase(context.value, context.base)
    for mask, same in groupby(pairs, key=itemgetter(0)):
        samples = [sample for _, sample in same]
        rendered, packed = manifest.template.render(mask), pack_mask(mask, manifest.n_players)
        for sample, key in zip(samples, keys.sample_keys(rendered, mask, samples=samples), strict=True):
            yield make(
                coalition_key=key,
                snapshot_id=context.snapshot_id,
                snapshot=rendered,
                absence_policy=manifest.absence,
                mask_words=packed,
                mask_n_bits=manifest.n_players,
                model_id=manifest.model,
                utility=against_base.of_base if (mask, sample) == context.base_pair else against_base.of_other,
                prefix_hash=prefix_hash,
                sample=sample,
            )


class _AgainstBase:
    """The utilities of one run's jobs."""

    def __init__(self, value: ValueFunction, base: Generation | None) -> None:
        self._value = value
        self._base = base

    def of_base(self, generation: Generation) -> float:
        """The base is its own reference, whichever text the archive keeps for it."""
        if self._base is None:
            self._base = generation
        return evaluate(self._value, generation, generation)

    def of_other(self, generation: Generation) -> float:
        if self._base is None:
            raise BaseUnknownError("the grand coalition has not been generated yet")
        return evaluate(self._value, generation, self._base)
