"""The archive's tables as SQLAlchemy metadata; `migrations` creates them.

All times are float seconds since the epoch, read from the database's clock. There are no foreign keys: the
only writers are the statements of this package, and a key check per record would double the cost of a flush.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
)

SCHEMA_REVISION = "0001"
"""The migration this code reads and writes."""

metadata = MetaData()

archive_identity = Table(
    "archive_identity",
    metadata,
    Column("archive_id", Text, nullable=False),
    PrimaryKeyConstraint("archive_id", name="archive_identity_pk"),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("name", Text),
    Column("campaign", Text),
    Column("item_id", Text),
    Column("metadata", JSON, nullable=False),
    Column("model", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("give_up_after_s", Double, nullable=False),
    # The plan: `next_group` is the planning cursor; `n_groups` is known once group 0 is planned.
    Column("plan_closed", Boolean, nullable=False, server_default=false()),
    Column("next_group", Integer, nullable=False, server_default="0"),
    Column("n_groups", Integer),
    Column("n_planned", BigInteger),
    Column("open_groups", Integer, nullable=False, server_default="0"),
    Column("failed", BigInteger, nullable=False, server_default="0"),
    Column("n_players", Integer, nullable=False),
    Column("samples", Integer, nullable=False),
    Column("absence_policy", Text, nullable=False),
    Column("manifest", JSON, nullable=False),
    Column("effective_request", JSON),
    Column("snapshot_id", Text, nullable=False),
    Column("snapshot", JSON, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("finished_at", Double),
    PrimaryKeyConstraint("run_id", name="runs_pk"),
    Index("runs_by_status", "status", "queue"),
    Index("runs_by_created_at", "created_at"),
)

groups = Table(
    "groups",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("group_number", Integer, nullable=False),
    Column("queue", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("wave", Integer, nullable=False, server_default="0"),
    Column("prefix_hash", Text, nullable=False),
    Column("masks", LargeBinary, nullable=False),
    Column("count", Integer, nullable=False),
    # Publication and ownership, see publication.py and ownership.py.
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("starts", Integer, nullable=False, server_default="0"),
    Column("hand_backs", Integer, nullable=False, server_default="0"),
    Column("suspect", Text),
    Column("not_before", Double, nullable=False, server_default="0"),
    Column("published_at", Double),
    Column("owner", Text),
    Column("lease_until", Double),
    Column("finished_at", Double),
    # Counters and token sums, written once, when the group finishes.
    Column("executed", BigInteger, nullable=False, server_default="0"),
    Column("cache_hits", BigInteger, nullable=False, server_default="0"),
    Column("deduplicated", BigInteger, nullable=False, server_default="0"),
    Column("failed", BigInteger, nullable=False, server_default="0"),
    Column("kv_cache_hits", BigInteger, nullable=False, server_default="0"),
    Column("prompt_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("completion_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    PrimaryKeyConstraint("run_id", "group_number", name="groups_pk"),
    # Serves both the open groups of a queue (finished_at IS NULL) and those finished a moment ago.
    Index("groups_by_queue", "queue", "finished_at"),
    Index("groups_by_run", "run_id", "finished_at"),
    Index("groups_by_publication", "queue", "priority", "published_at"),
)

generations = Table(
    "generations",
    metadata,
    Column("coalition_key", Text, nullable=False),
    Column("model_id", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("finish_reason", Text),
    Column("reasoning", Text),
    Column("refusal", Text),
    Column("tool_calls", Text),
    Column("fingerprint", Text),
    Column("endpoint", Text),
    Column("prompt_tokens", BigInteger),
    Column("completion_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("elapsed_ms", Double, nullable=False),
    Column("worker", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    PrimaryKeyConstraint("coalition_key", name="generations_pk"),
)

records = Table(
    "records",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("mask", LargeBinary, nullable=False),
    Column("sample", Integer, nullable=False),
    Column("group_number", Integer, nullable=False),
    Column("coalition_key", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("utility", Double),
    Column("error", Text),
    Column("created_at", Double, nullable=False),
    PrimaryKeyConstraint("run_id", "mask", "sample", name="records_pk"),
    Index("records_by_group", "run_id", "group_number"),
    # Small rows that are only ever found by their key: SQLite stores them in it.
    sqlite_with_rowid=False,
)

workers = Table(
    "workers",
    metadata,
    Column("process_id", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("heartbeat_at", Double, nullable=False),
    Column("endpoint", Text),
    Column("identity", JSON, nullable=False),
    Column("profile", JSON, nullable=False),
    Column("models", JSON, nullable=False),
    Column("in_flight", Integer, nullable=False, server_default="0"),
    Column("inflight_limit", Integer, nullable=False, server_default="0"),
    Column("last_error", Text),
    PrimaryKeyConstraint("process_id", name="workers_pk"),
)
