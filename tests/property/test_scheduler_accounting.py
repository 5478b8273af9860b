"""Whatever fails, is shared, halted or cancelled: every job ends once, and everything taken is given back."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from coalq.claim import Claim
from coalq.conversation import ConversationSnapshot
from coalq.errors import HandBack, LeaseLost, PermanentError, TransientError
from coalq.generation import Generation
from coalq.inference import (
    CoalitionDedupRegistry,
    CoalitionJob,
    CoalitionRecord,
    CoalitionRecordDraft,
    HotResultStore,
    InferenceScheduler,
    RunArchive,
    RunReport,
)
from scheduler_parts import make_job, make_scheduler

FAULTS: dict[str, BaseException] = {
    "rejected": PermanentError("400"),
    "away": TransientError("503"),
    "bug": KeyError("bug"),
    "down": HandBack("down"),
    "lost": LeaseLost("lost"),
    "cut": asyncio.CancelledError(),
}
ELSEWHERE = ("commits", "gives up", "keeps")


@dataclass(frozen=True)
class Scenario:
    """What happens in one example; waits are numbers of loop turns, taken in order."""

    calls: list[list[int]]
    max_inflight: int
    pending_limit: int
    store_size: int
    with_dedup: bool
    faults: dict[int, str]
    refused: set[int]
    elsewhere: dict[int, str]
    waits: list[int]
    halt_after: int | None
    cancel_after: int | None


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    keys = st.integers(0, 7)
    return Scenario(
        calls=draw(st.lists(st.lists(keys, max_size=20), min_size=1, max_size=3)),
        max_inflight=draw(st.integers(1, 4)),
        pending_limit=draw(st.integers(1, 8)),
        store_size=draw(st.integers(0, 4)),
        with_dedup=draw(st.booleans()),
        faults=draw(st.dictionaries(keys, st.sampled_from(sorted(FAULTS)), max_size=4)),
        refused=draw(st.sets(keys, max_size=2)),
        elsewhere=draw(st.dictionaries(keys, st.sampled_from(ELSEWHERE), max_size=2)),
        waits=draw(st.lists(st.integers(0, 3), min_size=1, max_size=10)),
        halt_after=draw(st.none() | st.integers(0, 30)),
        cancel_after=draw(st.none() | st.integers(0, 30)),
    )


@dataclass
class World:
    """Model, archive and claims in which the scenario happens."""

    scenario: Scenario
    generating: Counter[str] = field(default_factory=Counter)
    executed: Counter[str] = field(default_factory=Counter)
    turns: count[int] = field(default_factory=count)

    async def wait(self) -> None:
        waits = self.scenario.waits
        for _ in range(waits[next(self.turns) % len(waits)]):
            await asyncio.sleep(0)

    async def generate(self, snapshot: ConversationSnapshot) -> str:
        key = str(snapshot.messages[0]["content"])
        self.generating[key] += 1
        if self.scenario.with_dedup:
            assert self.generating[key] == 1, "a key is generated twice at the same time"
        try:
            await self.wait()
            fault = self.scenario.faults.get(int(key))
            if fault is not None:
                raise FAULTS[fault]
            self.executed[key] += 1
            return key
        finally:
            self.generating[key] -= 1


class WaitingArchive(RunArchive):
    """Commits after a while, or not at all."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    async def append(self, draft: CoalitionRecordDraft) -> CoalitionRecord:
        await self.world.wait()
        if int(draft.job.coalition_key) in self.world.scenario.refused:
            raise HandBack("the archive is away")
        return await super().append(draft)


class WaitingRegistry(CoalitionDedupRegistry):
    """Answers after a while. A claim that was cancelled leaves nothing behind."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    async def claim(self, coalition_key: str) -> Claim:
        await self.world.wait()
        return await super().claim(coalition_key)


async def play(scenario: Scenario) -> None:
    world = World(scenario)
    archive, registry = WaitingArchive(world), WaitingRegistry(world)
    scheduler = make_scheduler(
        scenario.max_inflight,
        store=HotResultStore(scenario.store_size),
        dedup=registry if scenario.with_dedup else None,
        archive=archive,
        pending_limit=scenario.pending_limit,
        patience_s=0.02,
    )
    for key in scenario.elsewhere:
        await CoalitionDedupRegistry.claim(registry, str(key))
    numbers = count()
    jobs = [[make_job(next(numbers), key=str(key)) for key in keys] for keys in scenario.calls]

    reports = await run_all(scheduler, jobs, world, registry)

    check_calls(scenario, jobs, reports, archive)
    assert (scheduler.in_flight, scheduler.uncommitted) == (0, 0)
    for key in range(8):
        held = registry.contains(str(key)) and registry._committed.get(str(key)) is None
        assert not held or scenario.elsewhere.get(key) == "keeps"


async def run_all(
    scheduler: InferenceScheduler, jobs: list[list[CoalitionJob]], world: World, registry: CoalitionDedupRegistry
) -> list[RunReport | BaseException]:
    """Run the calls at the same time; the last one may be halted, the first one cancelled."""
    scenario, asked = world.scenario, count()

    def halted() -> bool:
        return scenario.halt_after is not None and next(asked) >= scenario.halt_after

    async def cancel(call: asyncio.Task[RunReport]) -> None:
        if scenario.cancel_after is not None:
            for _ in range(scenario.cancel_after):
                await asyncio.sleep(0)
            call.cancel()

    async def end_elsewhere() -> None:
        for key, end in scenario.elsewhere.items():
            await world.wait()
            if end != "keeps":
                registry.release(str(key), Generation(str(key)) if end == "commits" else None)

    calls = [
        asyncio.create_task(scheduler.execute(mine, world.generate, halted=halted if mine is jobs[-1] else None))
        for mine in jobs
    ]
    reports = await asyncio.gather(*calls, cancel(calls[0]), end_elsewhere(), return_exceptions=True)
    return [report for report in reports[: len(calls)] if report is not None]


def check_calls(
    scenario: Scenario, jobs: list[list[CoalitionJob]], reports: list[RunReport | BaseException], archive: RunArchive
) -> None:
    recorded = Counter(record.mask for record in archive.records)
    assert not recorded or max(recorded.values()) == 1, "a job has two records"
    for record in archive.records:
        assert (record.generation is None) == (record.error is not None)
        assert record.generation is None or record.generation_text == record.coalition_key
    for mine, report in zip(jobs, reports, strict=True):
        if isinstance(report, asyncio.CancelledError):
            assert scenario.cancel_after is not None
            continue
        assert isinstance(report, RunReport), report
        metrics = report.metrics
        n_recorded = sum(recorded[job.mask] for job in mine)
        assert metrics.requested == n_recorded
        assert metrics.requested == metrics.executed + metrics.deduplicated + metrics.cache_hits + metrics.failed
        assert metrics.requested + report.handed_back <= len(mine)
        assert report.complete == (metrics.requested == len(mine)) or not mine or scenario.halt_after is not None
        if scenario.halt_after is None or mine is not jobs[-1]:
            assert metrics.requested + report.handed_back == len(mine)


@settings(max_examples=300, deadline=None)
@given(scenarios())
def test_every_job_ends_exactly_once_and_nothing_taken_is_kept(scenario: Scenario) -> None:
    asyncio.run(asyncio.wait_for(play(scenario), timeout=20))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 4), st.integers(0, 4))
def test_without_faults_each_key_is_generated_once_whatever_the_order(
    keys: list[int], max_inflight: int, store_size: int
) -> None:
    world = World(Scenario([keys], max_inflight, 4, store_size, True, {}, set(), {}, [1, 0, 2], None, None))
    jobs = [make_job(number, key=str(key)) for number, key in enumerate(keys)]
    scheduler = make_scheduler(max_inflight, store=HotResultStore(store_size), dedup=CoalitionDedupRegistry())

    metrics = asyncio.run(scheduler.run(jobs, world.generate))

    assert set(world.executed.values()) == {1}
    assert metrics.executed == len(set(keys))
    assert metrics.requested == len(keys)
