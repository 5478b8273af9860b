"""What goes into the archive and what comes out of it, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coalq.generation import Generation
from coalq.outcome import Outcome, RunStatus

GIVE_UP_AFTER_S = 24 * 3600.0


class GroupKey(NamedTuple):
    """One group. Sorts in the order in which groups are locked."""

    run_id: str
    group_number: int


class GroupAttempt(NamedTuple):
    """One publication of a group: whoever holds another attempt's number holds nothing."""

    run_id: str
    group_number: int
    attempt: int

    @property
    def key(self) -> GroupKey:
        """The group."""
        return GroupKey(self.run_id, self.group_number)


class RecordKey(NamedTuple):
    """One record; `mask` is packed."""

    run_id: str
    mask: bytes
    sample: int


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be created.

    Attributes:
        queue: Where its groups are published.
        manifest: `Manifest` as JSON; everything else about the plan is read from it.
        snapshot: The conversation's messages.
        item_id: The user's own id of the conversation.
        priority: Higher is published first.
        give_up_after_s: How long an endpoint that is down is waited for, seconds.
    """

    run_id: str
    model: str
    queue: str
    manifest: Mapping[str, Any]
    snapshot_id: str
    snapshot: Sequence[Mapping[str, Any]]
    name: str | None = None
    campaign: str | None = None
    item_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    give_up_after_s: float = GIVE_UP_AFTER_S


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run as it stands. Times are seconds since the epoch by the database's clock.

    Attributes:
        next_group: Number of the first group that is not planned yet.
        n_groups: Groups of the whole plan; None until group 0 is planned.
        n_planned: Coalitions of the whole plan; None until group 0 is planned.
        open_groups: Planned groups that are not finished.
        failed: Failed records in finished groups.
        samples: Generations per coalition.
    """

    run_id: str
    name: str | None
    campaign: str | None
    item_id: str | None
    metadata: Mapping[str, Any]
    model: str
    queue: str
    status: RunStatus
    reason: str | None
    priority: int
    give_up_after_s: float
    plan_closed: bool
    next_group: int
    n_groups: int | None
    n_planned: int | None
    open_groups: int
    failed: int
    n_players: int
    samples: int
    absence_policy: str
    effective_request: Mapping[str, Any] | None
    snapshot_id: str
    created_at: float
    finished_at: float | None


@dataclass(frozen=True, slots=True)
class Publication:
    """A group marked as published, to be sent as one message.

    Attributes:
        count: Coalitions in it.
        n_groups: Groups of the whole run, for people.
    """

    run_id: str
    group_number: int
    attempt: int
    count: int
    prefix_hash: str
    priority: int
    queue: str
    n_groups: int | None


@dataclass(frozen=True, slots=True)
class StartedGroup:
    """A group that the calling process owns from now on.

    Attributes:
        masks: Packed masks one after another, in the order in which they are best generated.
        count: Coalitions in it.
        starts: Executions that began and did not end well, this one included.
    """

    run_id: str
    group_number: int
    attempt: int
    masks: bytes
    count: int
    prefix_hash: str
    starts: int


@dataclass(frozen=True, slots=True)
class Draft:
    """One finished job, not yet a record.

    Attributes:
        mask: Packed.
        utility: None exactly when the outcome is `failed`.
        generation: The text this process generated: with `executed`, and with `failed` if only its value failed. Either
            becomes a record only if this text is the one that is stored: so generation rows are the executed records
            and those failed ones whose own text was kept.
    """

    run_id: str
    group_number: int
    mask: bytes
    sample: int
    coalition_key: str
    model_id: str
    outcome: Outcome
    utility: float | None = None
    error: str | None = None
    generation: Generation | None = None

    @property
    def key(self) -> RecordKey:
        """The record it becomes."""
        return RecordKey(self.run_id, self.mask, self.sample)

    @property
    def group(self) -> GroupKey:
        """The group it was planned in."""
        return GroupKey(self.run_id, self.group_number)


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """What a record in the archive says.

    Attributes:
        utility: None exactly when the outcome is `failed`.
        error: Why it failed; None otherwise.
    """

    outcome: Outcome
    utility: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FlushResult:
    """What became of the drafts of one flush, told after its commit.

    Every draft is in one of the sets by its key, or its coalition key is in `conflicts`.

    Attributes:
        written: Records that this flush inserted.
        present: Records that were there before, as they are; they stay so.
        conflicts: By coalition key, the stored generation, for drafts that brought another one later and for records
            that are present. A draft of such a key that is in no set got no record: compute its utility again from
            this generation and flush it as `deduplicated`, or as `failed` without a generation if that has none.
        missing: Records that were not written because their generation is not archived, though known elsewhere: flush
            them again with it, as `executed`, or as `failed` if its value cannot be computed.
        dropped: Records that were not written because their group is finished or gone.
        finished: Groups of the drafts and of `checked_groups` that are finished now, by this flush or before.
        ended: Runs that this flush ended, with their final status.
    """

    written: frozenset[RecordKey]
    present: Mapping[RecordKey, StoredRecord]
    conflicts: Mapping[str, Generation]
    missing: frozenset[RecordKey]
    dropped: frozenset[RecordKey]
    finished: frozenset[GroupKey]
    ended: Mapping[str, RunStatus]


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where a run stands: records by outcome, groups by state, tokens of all generations that were made for it.

    Attributes:
        total: Records of the whole plan; None until group 0 is planned.
        done: Records there are.
        kv_cache_hits: Those generations for which the endpoint reported cached prompt tokens.
        groups_waiting: Planned, not finished, executed by nobody.
        prompt_tokens: None when no endpoint reported any; likewise the other three.
    """

    status: RunStatus
    reason: str | None
    total: int | None
    done: int
    executed: int
    cache_hits: int
    deduplicated: int
    failed: int
    kv_cache_hits: int
    groups_waiting: int
    groups_executing: int
    groups_finished: int
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker process as it reports itself.

    Attributes:
        identity: What its endpoint reports as the identity of each model's output, by model.
        profile: What it knows of its endpoint.
        limit: Generations it may have in flight.
        heartbeat_at: When it was last heard of; set by the database.
    """

    process_id: str
    host: str
    version: str
    endpoint: str | None = None
    models: tuple[str, ...] = ()
    identity: Mapping[str, str] = field(default_factory=dict)
    profile: Mapping[str, Any] = field(default_factory=dict)
    in_flight: int = 0
    limit: int = 0
    last_error: str | None = None
    heartbeat_at: float = 0.0
