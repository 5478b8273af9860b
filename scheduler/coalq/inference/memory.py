"""The scheduler's companions for one process: hot store, claims and records in memory."""

from __future__ import annotations

from collections import OrderedDict

from coalq.claim import Claim, Held, Stored, Won
from coalq.errors import BaseUnknownError
from coalq.generation import Generation
from coalq.inference.jobs import CoalitionRecord, CoalitionRecordDraft
from coalq.inference.scoring import score
from coalq.masks import unpack_mask


class HotResultStore:
    """The most recently used generations.

    Args:
        maxsize: How many are kept; None keeps all, 0 none.
        max_characters: How long their texts and reasonings together may be, in characters; None sets no limit. One
            that is longer by itself is not kept.
    """

    def __init__(self, maxsize: int | None = 128, *, max_characters: int | None = None) -> None:
        if maxsize is not None and maxsize < 0:
            raise ValueError(f"maxsize must not be negative: {maxsize}")
        if max_characters is not None and max_characters < 0:
            raise ValueError(f"max_characters must not be negative: {max_characters}")
        self._maxsize = maxsize
        self._max_characters = max_characters
        self._generations: OrderedDict[str, Generation] = OrderedDict()
        self._characters = 0

    def get(self, coalition_key: str) -> Generation | None:
        """The generation of a key, which becomes the most recent one; None if it is not here."""
        generation = self._generations.get(coalition_key)
        if generation is not None:
            self._generations.move_to_end(coalition_key)
        return generation

    def put(self, coalition_key: str, generation: Generation) -> None:
        """Keep a generation as the most recent one and let go of the oldest beyond the limits."""
        known = self._generations.pop(coalition_key, None)
        if known is not None:
            self._characters -= _length(known)
        if self._max_characters is not None and _length(generation) > self._max_characters:
            return
        self._generations[coalition_key] = generation
        self._characters += _length(generation)
        while self._is_over_limits():
            _, oldest = self._generations.popitem(last=False)
            self._characters -= _length(oldest)

    def _is_over_limits(self) -> bool:
        too_many = self._maxsize is not None and len(self._generations) > self._maxsize
        return too_many or (self._max_characters is not None and self._characters > self._max_characters)

    def __len__(self) -> int:
        return len(self._generations)


def _length(generation: Generation) -> int:
    return len(generation.text) + len(generation.reasoning or "")


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
            record = score(draft)
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
                self._records[number] = score(draft)
            except BaseUnknownError:
                continue
            del self._unscored[number]
        return tuple(self._records[start:])

    def __len__(self) -> int:
        return len(self._records)
