"""Whatever happens to a run's groups, in whatever order: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import event, func, select, update

from archive_runs import LEASE_S, PROMPT_TOKENS, ArchiveRun, count_executed, count_generations, make_manifest
from coalq.archive import Archive, Draft, Publication, StartedGroup, open_engine
from coalq.archive.clock import now
from coalq.archive.tables import groups, runs
from coalq.outcome import Outcome, RunStatus

PROCESSES = ("one", "two")


class RunLife(RuleBasedStateMachine):
    """Two runs of the same prompts and two processes; every message may be lost, doubled or late.

    No rule waits: leases run out when one of them says so.
    """

    def __init__(self, archive_file: Callable[[], Path]) -> None:
        super().__init__()
        self.engine = open_engine(f"sqlite:///{archive_file()}")
        event.listen(self.engine, "checkout", _do_not_sync)
        self.archive = Archive(self.engine)
        self.messages: list[Publication] = []
        self.executions: list[tuple[str, StartedGroup]] = []
        self.runs: dict[str, ArchiveRun] = {}
        self.is_paused = False
        self.n_unscorable = 0

    @initialize(samples=st.integers(1, 2), n_players=st.integers(1, 3))
    def create(self, samples: int, n_players: int) -> None:
        for _ in range(2):
            run = ArchiveRun.create(self.archive, make_manifest(n_players, samples=samples))
            self.runs[run.run_id] = run
        self.publish(limit=2, is_lost=False)

    def teardown(self) -> None:
        try:
            self._finish()
        finally:
            self.archive.close()

    @rule(limit=st.integers(1, 3), is_lost=st.sampled_from([False, False, True]))
    def publish(self, limit: int, is_lost: bool) -> None:
        self._plan()
        published = self.archive.take_publications("queue", limit=limit)
        if not is_lost:
            self.messages.extend(published)

    @rule(data=st.data(), process_id=st.sampled_from(PROCESSES), is_doubled=st.booleans())
    def deliver(self, data: st.DataObject, process_id: str, is_doubled: bool) -> None:
        if not self.messages:
            return
        index = data.draw(st.integers(0, len(self.messages) - 1))
        message = self.messages[index] if is_doubled else self.messages.pop(index)
        started = self.archive.start(
            message.run_id, message.group_number, message.attempt, process_id=process_id, lease_s=LEASE_S
        )
        if started is not None:
            self.executions.append((process_id, started))

    @rule(data=st.data(), is_over=st.sampled_from([False, False, True]))
    def work(self, data: st.DataObject, is_over: bool) -> None:
        """Flush part of what an execution has, owner or not; the text tells who generated it."""
        if not self.executions:
            return
        index = data.draw(st.integers(0, len(self.executions) - 1))
        process_id, group = self.executions[index]
        run = self.runs[group.run_id]
        drafts = run.drafts(group, text=lambda mask, sample: f"{process_id} {mask} {sample}")
        chosen = data.draw(st.just(list(range(len(drafts)))) | st.lists(st.integers(0, len(drafts) - 1), unique=True))
        part = [drafts[i] for i in chosen]
        ending = data.draw(st.sampled_from(["scored", "scored", "scored", "rejected", "unscorable"]))
        if ending != "scored":
            part = [self._failed(draft, keeps_text=ending == "unscorable") for draft in part]
        self._flush(process_id, part)
        if is_over:
            self.executions.pop(index)
            attempt = (group.run_id, group.group_number, group.attempt)
            self.archive.hand_back([attempt], process_id=process_id)

    @rule()
    def lose_leases(self) -> None:
        """Time passes: leases, publications and pauses are over, and what was lost is published again."""
        past = now() - 2 * LEASE_S
        with self.engine.begin() as connection:
            connection.execute(update(groups).where(groups.c.owner.is_not(None)).values(lease_until=past))
            connection.execute(update(groups).where(groups.c.published_at.is_not(None)).values(published_at=past))
            connection.execute(update(groups).values(not_before=0))
        self.archive.sweep(["queue"], lease_s=LEASE_S, empty_queues=["queue"])
        self.messages.extend(self.archive.take_publications("queue", limit=2))

    @precondition(lambda self: not self.is_paused)
    @rule(index=st.integers(0, 1), is_time=st.sampled_from([False, False, False, True]))
    def pause(self, index: int, is_time: bool) -> None:
        """One of the runs, at most, is not to end; what is in flight in it still commits."""
        self.is_paused = is_time and self.archive.pause(list(self.runs)[index], "no credit")

    @invariant()
    def each_generation_belongs_to_the_record_that_brought_it_and_is_paid_once(self) -> None:
        n_generations, n_executed = count_generations(self.engine), count_executed(self.engine)
        tokens = [self.archive.progress(run_id).prompt_tokens or 0 for run_id in self.runs]
        assert n_generations == n_executed + self.n_unscorable
        assert sum(tokens) == PROMPT_TOKENS * n_generations

    @invariant()
    def open_groups_are_counted(self) -> None:
        opened = (
            select(func.count())
            .where(groups.c.run_id == runs.c.run_id, groups.c.finished_at.is_(None))
            .correlate(runs)
            .scalar_subquery()
        )
        with self.engine.connect() as connection:
            for counted, actual in connection.execute(select(runs.c.open_groups, opened)):
                assert counted == actual

    @invariant()
    def a_run_has_ended_exactly_when_all_its_records_are_there(self) -> None:
        for run in self.runs.values():
            row, progress = self.archive.run(run.run_id), self.archive.progress(run.run_id)
            rows = self.archive.utility_records(run.run_id)
            assert progress.done == len(rows) == len({(r.mask, r.sample) for r in rows})
            assert progress.failed == sum(r.outcome is Outcome.FAILED for r in rows)
            if row.status is RunStatus.COMPLETE:
                assert progress.done == progress.total
                assert progress.failed == 0
            if row.status is RunStatus.RUNNING and row.plan_closed:
                assert row.open_groups > 0
            if row.status is RunStatus.INCOMPLETE:
                assert progress.failed > 0

    def _finish(self) -> None:
        """Everything goes well from here on: the runs that are not paused end."""
        for _ in range(40):
            if not self.archive.live_runs(["queue"]):
                break
            self._plan()
            self.lose_leases()
            for message in [*self.messages, *self.archive.take_publications("queue")]:
                attempt = (message.run_id, message.group_number, message.attempt)
                started = self.archive.start(*attempt, process_id="last", lease_s=LEASE_S)
                if started is not None:
                    self._flush("last", self.runs[message.run_id].drafts(started))
        assert not self.archive.live_runs(["queue"])

    def _plan(self) -> None:
        for run_id in self.archive.runs_to_advance(["queue"]):
            self.archive.advance(run_id, room_ahead=1)

    def _flush(self, process_id: str, drafts: list[Draft]) -> None:
        """As the worker does: what somebody else stored first is flushed again as deduplicated."""
        result = self.archive.flush(drafts, process_id=process_id)
        settled = result.written | result.present.keys() | result.dropped
        again = [d for d in drafts if d.key not in settled and d.coalition_key in result.conflicts]
        assert settled | {d.key for d in again} | result.missing == {d.key for d in drafts}
        assert not result.missing
        self.n_unscorable += sum(
            d.outcome is Outcome.FAILED and d.generation is not None and d.key in result.written for d in drafts
        )
        self.archive.flush(
            [
                self.runs[d.run_id].draft(_group(d), d.mask[0], sample=d.sample, outcome=Outcome.DEDUPLICATED)
                for d in again
            ],
            process_id=process_id,
        )

    def _failed(self, draft: Draft, *, keeps_text: bool) -> Draft:
        """The draft of a prompt that was rejected, or of a text that has no value."""
        failed = replace(draft, outcome=Outcome.FAILED, utility=None, error="refused")
        return failed if keeps_text else replace(failed, generation=None)


def _do_not_sync(connection: sqlite3.Connection, *_: object) -> None:
    """Nobody pulls the plug here, and syncing is most of the time."""
    connection.execute("PRAGMA synchronous = OFF")


def _group(draft: Draft) -> StartedGroup:
    return StartedGroup(draft.run_id, draft.group_number, 0, masks=b"", count=0, prefix_hash="", starts=0)


def test_no_order_of_events_loses_or_doubles_anything(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("lives")

    def archive_file() -> Path:
        return Path(shutil.copy(sqlite_template, folder / "archive.db"))

    class Life(RunLife):
        def __init__(self) -> None:
            super().__init__(archive_file)

    run_state_machine_as_test(Life, settings=settings(max_examples=20, stateful_step_count=25, deadline=None))
