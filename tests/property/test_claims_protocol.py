"""The claim protocol on a real server, whatever the order of calls, expiries and losses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from claim_parts import Shelf, claimed_keys, claiming, opened
from coalq.claims import RedisClaims
from coalq.generation import Generation
from coalq.inference import HotResultStore, InferenceScheduler, RunArchive, RunReport
from coalq.outcome import Outcome
from scheduler_parts import Model, make_job, make_scheduler

PROCESSES = ("a", "b", "c")
KEYS = ("k0", "k1", "k2", "k3")


@dataclass(frozen=True)
class Step:
    """One call of one process, or a loss: some claims expire, or all are gone."""

    action: str
    process: str
    keys: list[str]


steps = st.builds(
    Step,
    action=st.sampled_from(["claim", "renew", "release", "expire", "empty"]),
    process=st.sampled_from(PROCESSES),
    keys=st.lists(st.sampled_from(KEYS), unique=True),
)


async def take_step(step: Step, claims: RedisClaims, client: Redis, owners: dict[str, str]) -> None:
    """Do the step on the server and in the model, and compare what it answers."""
    mine = {key for key in step.keys if owners.get(key) == step.process}
    match step.action:
        case "claim":
            free = {key for key in step.keys if key not in owners}
            assert await claims.claim(step.keys) == free | mine
            owners.update(dict.fromkeys(free, step.process))
        case "renew":
            assert await claims.renew(step.keys) == mine
        case "release":
            await claims.release(step.keys)
            for key in mine:
                del owners[key]
        case "expire":
            for key in step.keys:
                await client.delete(f"coalq:claim:{key}")
                owners.pop(key, None)
        case _:
            await client.flushall()
            owners.clear()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(steps, max_size=25))
def test_a_key_has_one_owner_until_it_is_released_or_lost(redis_url: str, plan: list[Step]) -> None:
    async def play() -> None:
        async with opened(redis_url) as client:
            await client.flushall()
            claims = {name: RedisClaims(client, process_id=name, lease_s=60) for name in PROCESSES}
            owners: dict[str, str] = {}
            for step in plan:
                await take_step(step, claims[step.process], client, owners)
                assert await claimed_keys(client) == owners

    asyncio.run(play())


class SharedArchive(RunArchive):
    """A run's records; a generation is on everybody's shelf once its record is committed."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__()
        self.shelf = shelf

    async def append(self, draft):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        await asyncio.sleep(0)
        key = draft.job.coalition_key
        if draft.generation is not None:
            self.shelf.committed.setdefault(key, draft.generation)
        return await super().append(draft)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 15), max_size=24), min_size=2, max_size=3),
    st.integers(1, 4),
)
def test_each_key_is_generated_by_one_process_and_every_job_gets_its_record(
    redis_url: str, groups: list[list[int]], max_inflight: int
) -> None:
    shelf, model = Shelf(), Model()
    archives = [SharedArchive(shelf) for _ in groups]

    async def play() -> list[RunReport]:
        async with opened(redis_url) as client:
            await client.flushall()
        async with claiming(redis_url, *PROCESSES[: len(groups)], shelf=shelf) as processes:
            schedulers: list[InferenceScheduler] = [
                make_scheduler(max_inflight, store=HotResultStore(4), dedup=claims, archive=archive)
                for claims, archive in zip(processes, archives, strict=True)
            ]
            jobs = [[make_job(i, key=f"key-{key}") for i, key in enumerate(group)] for group in groups]
            reports = await asyncio.gather(
                *(scheduler.execute(mine, model) for scheduler, mine in zip(schedulers, jobs, strict=True))
            )
        async with opened(redis_url) as client:
            assert await claimed_keys(client) == {}
        return reports

    reports = asyncio.run(play())

    assert all(report.complete for report in reports)
    assert set(model.call_counts.values()) <= {1}
    assert len(model.calls) == len({key for group in groups for key in group})
    for group, archive in zip(groups, archives, strict=True):
        assert len(archive) == len(group)
        assert all(record.outcome is not Outcome.FAILED for record in archive.records)


@pytest.mark.parametrize("n_losses", [1, 5])
async def test_losing_all_claims_costs_generations_but_no_record(redis_url: str, n_losses: int) -> None:
    shelf, model = Shelf(), Model()
    archives = [SharedArchive(shelf), SharedArchive(shelf)]
    jobs = [make_job(i) for i in range(100)]

    async with opened(redis_url) as client, claiming(redis_url, "a", "b", shelf=shelf, lease_s=0.5) as processes:
        schedulers = [
            make_scheduler(4, dedup=claims, archive=archive)
            for claims, archive in zip(processes, archives, strict=True)
        ]
        running = [asyncio.create_task(scheduler.execute(jobs, model)) for scheduler in schedulers]
        for _ in range(n_losses):
            await client.flushall()
            await asyncio.sleep(0)
        reports = await asyncio.gather(*running)

    assert all(report.complete for report in reports)
    assert [len(archive) for archive in archives] == [100, 100]
    texts = [[record.generation for record in archive.records] for archive in archives]
    assert all(isinstance(generation, Generation) for side in texts for generation in side)
