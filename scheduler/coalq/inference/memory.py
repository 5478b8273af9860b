"""The scheduler's companions for one process: hot store, claims and records in memory."""

from __future__ import annotations

import math
from collections import OrderedDict

from coalq.claim import Claim, Held, Stored, Won
from coalq.errors import BaseUnknownError
from coalq.generation import Generation
from coalq.inference.jobs import CoalitionRecord, CoalitionRecordDraft, describe_error
from coalq.masks import unpack_mask
from coalq.outcome import Outcome


class HotResultStore:
    """The most recently used generations.

    Args:
        maxsize: How many are kept; None keeps all, 0 none.
    """

    def __init__(self, maxsize: int | None = 128) -> None:
        if maxsize is not None and maxsize < 0:
            raise ValueError(f"maxsize must not be negative: {maxsize}")
        self._maxsize = maxsize
        self._generations: OrderedDict[str, Generation] = OrderedDict()

    def get(self, coalition_key: str) -> Generation | None:
        """The generation of a key, which becomes the most recent one; None if it is not here."""
        generation = self._generations.get(coalition_key)
        if generation is not None:
            self._generations.move_to_end(coalition_key)
        return generation

    def put(self, coalition_key: str, generation: Generation) -> None:
        """Keep a generation as the most recent one and let go of the oldest beyond `maxsize`."""
        self._generations[coalition_key] = generation
        self._generations.move_to_end(coalition_key)
        if self._maxsize is not None and len(self._generations) > self._maxsize:
            self._generations.popitem(last=False)

    def __len__(self) -> int:
        return len(self._generations)


class CoalitionDedupRegistry:
    """Claims of one process.

    It remembers what was committed, so that a key is generated once however small the hot store is.
    """

    def __init__(self) -> None:
        self._claimed: set[str] = set()
        self._committed: dict[str, Generation] = {}

    async def claim(self, coalition_key: str) -> Claim:
        """Claim a key unless it is committed or claimed."""
        committed = self._committed.get(coalition_key)
        if committed is not None:
            return Stored(committed)
        if coalition_key in self._claimed:
            return Held()
        self._claimed.add(coalition_key)
        return Won()

    def release(self, coalition_key: str, generation: Generation | None = None) -> None:
        """Give up a claim and remember what was committed; the first generation of a key stays."""
        self._claimed.discard(coalition_key)
        if generation is not None:
            self._committed.setdefault(coalition_key, generation)

    def contains(self, coalition_key: str) -> bool:
        """Whether the key is committed or being generated."""
        return coalition_key in self._committed or coalition_key in self._claimed

    def __len__(self) -> int:
        """How many keys are committed or being generated."""
        return len(self._committed) + len(self._claimed - self._committed.keys())


class RunArchive:
    """Records in memory."""

    def __init__(self) -> None:
        self._records: list[CoalitionRecord] = []
        self._unscored: dict[int, CoalitionRecordDraft] = {}

    async def append(self, draft: CoalitionRecordDraft) -> CoalitionRecord:
        """Compute the utility with the job's own function and keep the record.

        A value that raises, or is not a finite number, fails the job instead of surfacing in another one. One that is
        measured against a base generation that is not there yet is computed when the records are read.
        """
        try:
            record = _score(draft)
        except BaseUnknownError:
            record = CoalitionRecord.of(draft.job, draft.outcome, generation=draft.generation)
            self._unscored[len(self._records)] = draft
        self._records.append(record)
        return record

    @property
    def records(self) -> tuple[CoalitionRecord, ...]:
        """All records in mask order, then by sample, whatever order they came in."""
        return tuple(sorted(self.since(0), key=lambda record: (unpack_mask(record.mask.words), record.sample)))

    def since(self, start: int) -> tuple[CoalitionRecord, ...]:
        """Records in the order they came in, from number `start` on."""
        for number, draft in list(self._unscored.items()):
            try:
                self._records[number] = _score(draft)
            except BaseUnknownError:
                continue
            del self._unscored[number]
        return tuple(self._records[start:])

    def __len__(self) -> int:
        return len(self._records)


def _score(draft: CoalitionRecordDraft) -> CoalitionRecord:
    job, generation = draft.job, draft.generation
    if generation is None or job.utility is None:
        return CoalitionRecord.of(job, draft.outcome, generation=generation, error=draft.error)
    try:
        utility = float(job.utility(generation))
    except BaseUnknownError:
        raise
    except Exception as error:  # noqa: BLE001 - any fault of a user's value function is that job's failure
        return CoalitionRecord.of(job, Outcome.FAILED, error=describe_error(error))
    if not math.isfinite(utility):
        return CoalitionRecord.of(job, Outcome.FAILED, error=f"the utility is not a finite number: {utility}")
    return CoalitionRecord.of(job, draft.outcome, generation=generation, utility=utility)
