"""Parts for tests of the scheduler: jobs, a model whose answers the test decides, an archive with a door."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from coalq.claim import Claim
from coalq.conversation import ConversationSnapshot
from coalq.generation import Generation, GenerationConfig
from coalq.inference import (
    CoalitionDedupRegistry,
    CoalitionJob,
    CoalitionProgress,
    CoalitionRecord,
    CoalitionRecordDraft,
    DedupRegistry,
    HotResultStore,
    InferenceScheduler,
    RecordArchive,
    RunArchive,
    Utility,
)
from coalq.masks import pack_mask

N_PLAYERS = 16


def text_length(generation: Generation) -> float:
    """A value function."""
    return float(len(generation.text))


def make_job(number: int, *, key: str | None = None, utility: Utility | None = text_length) -> CoalitionJob:
    """The job of mask `number`; its prompt is its key, `key-<number>` unless given."""
    key = f"key-{number}" if key is None else key
    return CoalitionJob(
        coalition_key=key,
        snapshot_id="snapshot",
        snapshot=ConversationSnapshot.from_prompt(key),
        absence_policy="delete",
        mask_words=pack_mask(number, N_PLAYERS),
        mask_n_bits=N_PLAYERS,
        model_id="model",
        utility=utility,
    )


def make_jobs(count: int) -> list[CoalitionJob]:
    """Jobs that have nothing in common."""
    return [make_job(number) for number in range(count)]


class Model:
    """Answers `answer to <prompt>`, or what the test says; errors are raised. Waits at its door while that is shut.

    Args:
        answers: By prompt.
        is_open: Whether the door is open from the start.
    """

    def __init__(self, answers: Mapping[str, object] | None = None, *, is_open: bool = True) -> None:
        self.answers = dict(answers or {})
        self.calls: list[str] = []
        self.running = 0
        self.most_running = 0
        self.door = Door(is_open=is_open)

    async def __call__(self, snapshot: ConversationSnapshot) -> str | Generation:
        prompt = str(snapshot.messages[0]["content"])
        self.calls.append(prompt)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self.door.pass_through(prompt)
            answer = self.answers.get(prompt, f"answer to {prompt}")
            if isinstance(answer, BaseException):
                raise answer
            return answer  # type: ignore[return-value]
        finally:
            self.running -= 1

    @property
    def call_counts(self) -> Counter[str]:
        return Counter(self.calls)


class Door:
    """Holds everybody back until it is opened, for one name or for all."""

    def __init__(self, *, is_open: bool) -> None:
        self._all = asyncio.Event()
        self._opened: dict[str, asyncio.Event] = {}
        if is_open:
            self._all.set()

    def open(self, name: str | None = None) -> None:
        if name is None:
            self._all.set()
            for event in self._opened.values():
                event.set()
        else:
            self._opened.setdefault(name, asyncio.Event()).set()

    async def pass_through(self, name: str) -> None:
        if self._all.is_set():
            await asyncio.sleep(0)
            return
        await self._opened.setdefault(name, asyncio.Event()).wait()


class DooredArchive(RunArchive):
    """Records in memory, committed only while its door is open."""

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__()
        self.door = Door(is_open=is_open)
        self.waiting = 0

    async def append(self, draft: CoalitionRecordDraft) -> CoalitionRecord:
        self.waiting += 1
        try:
            await self.door.pass_through(draft.job.coalition_key)
        finally:
            self.waiting -= 1
        return await super().append(draft)


class DooredRegistry(CoalitionDedupRegistry):
    """Answers claims only while its door is open."""

    def __init__(self) -> None:
        super().__init__()
        self.door = Door(is_open=False)
        self.asked: list[str] = []

    async def claim(self, coalition_key: str) -> Claim:
        self.asked.append(coalition_key)
        await self.door.pass_through(coalition_key)
        return await super().claim(coalition_key)


class RefusingArchive(RunArchive):
    """Raises for some keys."""

    def __init__(self, refused: dict[str, Exception]) -> None:
        super().__init__()
        self.refused = refused

    async def append(self, draft: CoalitionRecordDraft) -> CoalitionRecord:
        await asyncio.sleep(0)
        if draft.job.coalition_key in self.refused:
            raise self.refused[draft.job.coalition_key]
        return await super().append(draft)


class ToldProgress:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.planned: list[int] = []
        self.finished: list[tuple[int, int]] = []

    def on_coalitions_planned(self, total: int) -> None:
        self.planned.append(total)

    def on_coalition_finished(self, done: int, total: int) -> None:
        self.finished.append((done, total))


def make_scheduler(
    max_inflight: int = 4,
    *,
    store: HotResultStore | None = None,
    dedup: DedupRegistry | None = None,
    archive: RecordArchive | None = None,
    pending_limit: int | None = None,
    progress: CoalitionProgress | None = None,
    patience_s: float = 5.0,
) -> InferenceScheduler:
    """A scheduler that polls quickly."""
    return InferenceScheduler(
        max_inflight,
        GenerationConfig(),
        HotResultStore() if store is None else store,
        dedup=dedup,
        archive=archive,
        pending_limit=pending_limit,
        progress=progress,
        poll_s=0.02,
        set_aside_patience_s=patience_s,
    )


async def until(condition: Callable[[], object], what: str) -> None:
    """Let the event loop run until the condition, or what it gives to await, holds; fails after ten seconds."""
    try:
        async with asyncio.timeout(10):
            while True:
                holds = condition()
                if await holds if inspect.isawaitable(holds) else holds:
                    return
                await asyncio.sleep(0.001)
    except TimeoutError:
        raise AssertionError(f"never happened: {what}") from None


def by_mask(records: Iterable[CoalitionRecord]) -> dict[bytes, CoalitionRecord]:
    """Records by mask, each of which must be there once."""
    found: dict[bytes, CoalitionRecord] = {}
    for record in records:
        assert record.mask.words not in found
        found[record.mask.words] = record
    return found
