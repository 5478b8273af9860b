"""The leases of the groups a process executes, by its own clock."""

from __future__ import annotations

from coalq.archive import GroupAttempt
from coalq_workers.executions import Executions

ONE = GroupAttempt("run-1", 1, 1)
TWO = GroupAttempt("run-2", 1, 1)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_started_past_a_lease_that_was_not_renewed() -> None:
    clock = Clock()
    executions = Executions(lease_s=60, clock=clock)
    execution = executions.begin(ONE, granted_at=executions.now())

    clock.now += 59.9
    before = execution.halted()
    clock.now += 0.1

    assert not before
    assert execution.halted()
    assert "lease" in (execution.halt.reason or "")


def test_a_lease_counts_from_when_the_statement_was_sent_not_from_its_answer() -> None:
    clock = Clock()
    executions = Executions(lease_s=60, clock=clock)
    execution = executions.begin(ONE, granted_at=executions.now() - 30)

    clock.now += 30

    assert execution.halted()


def test_survivors_go_on_and_the_others_halt() -> None:
    clock = Clock()
    executions = Executions(lease_s=60, clock=clock)
    kept, lost = executions.begin(ONE, granted_at=100), executions.begin(TWO, granted_at=100)

    executions.renewed([ONE, TWO], survivors={ONE}, granted_at=150)
    clock.now = 170

    assert not kept.halted()
    assert lost.halted()


def test_a_renewal_that_was_sent_before_a_group_began_says_nothing_about_it() -> None:
    executions = Executions(lease_s=60, clock=Clock())
    began_later = executions.begin(TWO, granted_at=100)

    executions.renewed([ONE], survivors=set(), granted_at=100)

    assert not began_later.halted()


def test_only_groups_of_runs_that_are_no_longer_live_halt() -> None:
    executions = Executions(lease_s=60, clock=Clock())
    live, paused = executions.begin(ONE, granted_at=100), executions.begin(TWO, granted_at=100)

    executions.halt_runs([ONE, TWO], live={"run-1"})

    assert not live.halted()
    assert paused.halted()


def test_a_group_that_began_after_the_live_runs_were_read_goes_on() -> None:
    executions = Executions(lease_s=60, clock=Clock())
    asked = executions.attempts()
    began_later = executions.begin(ONE, granted_at=100)

    executions.halt_runs(asked, live=set())

    assert not began_later.halted()


def test_a_group_that_begins_while_the_process_stops_starts_nothing() -> None:
    executions = Executions(lease_s=60, clock=Clock())
    executions.halt_all("the worker is stopping")

    late = executions.begin(ONE, granted_at=100)

    assert late.halted()
    assert late.halt.reason == "the worker is stopping"


def test_an_ended_execution_is_renewed_no_more() -> None:
    executions = Executions(lease_s=60, clock=Clock())
    execution = executions.begin(ONE, granted_at=100)

    executions.end(execution)

    assert executions.attempts() == []
    assert len(executions) == 0
