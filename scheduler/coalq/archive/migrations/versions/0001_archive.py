"""The whole archive: identity, runs, groups, generations, records, workers and the view `coalition_records`.

Revision ID: 0001
Revises: nothing
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_identity()
    _create_runs()
    _create_groups()
    _create_generations()
    _create_records()
    _create_workers()
    _create_view()


def downgrade() -> None:
    op.execute("DROP VIEW coalition_records")
    for table in ("workers", "records", "generations", "groups", "runs", "archive_identity"):
        op.drop_table(table)


def _create_identity() -> None:
    identity = op.create_table(
        "archive_identity",
        sa.Column("archive_id", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("archive_id", name="archive_identity_pk"),
    )
    op.bulk_insert(identity, [{"archive_id": secrets.token_hex(8)}])


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text),
        sa.Column("campaign", sa.Text),
        sa.Column("item_id", sa.Text),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("queue", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
        sa.Column("give_up_after_s", sa.Double, nullable=False),
        sa.Column("plan_closed", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("next_group", sa.Integer, nullable=False, server_default="0"),
        sa.Column("n_groups", sa.Integer),
        sa.Column("n_planned", sa.BigInteger),
        sa.Column("open_groups", sa.Integer, nullable=False, server_default="0"),
        sa.Column("failed", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("n_players", sa.Integer, nullable=False),
        sa.Column("samples", sa.Integer, nullable=False),
        sa.Column("absence_policy", sa.Text, nullable=False),
        sa.Column("manifest", sa.JSON, nullable=False),
        sa.Column("effective_request", sa.JSON),
        sa.Column("snapshot_id", sa.Text, nullable=False),
        sa.Column("snapshot", sa.JSON, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("finished_at", sa.Double),
        sa.PrimaryKeyConstraint("run_id", name="runs_pk"),
    )
    op.create_index("runs_by_status", "runs", ["status", "queue"])
    op.create_index("runs_by_created_at", "runs", ["created_at"])


def _create_groups() -> None:
    op.create_table(
        "groups",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("group_number", sa.Integer, nullable=False),
        sa.Column("queue", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("wave", sa.Integer, nullable=False, server_default="0"),
        sa.Column("prefix_hash", sa.Text, nullable=False),
        sa.Column("masks", sa.LargeBinary, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
        sa.Column("starts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("hand_backs", sa.Integer, nullable=False, server_default="0"),
        sa.Column("suspect", sa.Text),
        sa.Column("not_before", sa.Double, nullable=False, server_default="0"),
        sa.Column("published_at", sa.Double),
        sa.Column("owner", sa.Text),
        sa.Column("lease_until", sa.Double),
        sa.Column("finished_at", sa.Double),
        sa.Column("executed", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("cache_hits", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("deduplicated", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("failed", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("kv_cache_hits", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("prompt_tokens", sa.BigInteger),
        sa.Column("cached_tokens", sa.BigInteger),
        sa.Column("completion_tokens", sa.BigInteger),
        sa.Column("reasoning_tokens", sa.BigInteger),
        sa.PrimaryKeyConstraint("run_id", "group_number", name="groups_pk"),
    )
    op.create_index("groups_by_queue", "groups", ["queue", "finished_at"])
    op.create_index("groups_by_run", "groups", ["run_id", "finished_at"])
    op.create_index("groups_by_publication", "groups", ["queue", "priority", "published_at"])


def _create_generations() -> None:
    op.create_table(
        "generations",
        sa.Column("coalition_key", sa.Text, nullable=False),
        sa.Column("model_id", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("finish_reason", sa.Text),
        sa.Column("reasoning", sa.Text),
        sa.Column("refusal", sa.Text),
        sa.Column("tool_calls", sa.Text),
        sa.Column("fingerprint", sa.Text),
        sa.Column("endpoint", sa.Text),
        sa.Column("prompt_tokens", sa.BigInteger),
        sa.Column("completion_tokens", sa.BigInteger),
        sa.Column("cached_tokens", sa.BigInteger),
        sa.Column("reasoning_tokens", sa.BigInteger),
        sa.Column("elapsed_ms", sa.Double, nullable=False),
        sa.Column("worker", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("coalition_key", name="generations_pk"),
    )


def _create_records() -> None:
    op.create_table(
        "records",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("mask", sa.LargeBinary, nullable=False),
        sa.Column("sample", sa.Integer, nullable=False),
        sa.Column("group_number", sa.Integer, nullable=False),
        sa.Column("coalition_key", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("utility", sa.Double),
        sa.Column("error", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "mask", "sample", name="records_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("records_by_group", "records", ["run_id", "group_number"])


def _create_workers() -> None:
    op.create_table(
        "workers",
        sa.Column("process_id", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("heartbeat_at", sa.Double, nullable=False),
        sa.Column("endpoint", sa.Text),
        sa.Column("identity", sa.JSON, nullable=False),
        sa.Column("profile", sa.JSON, nullable=False),
        sa.Column("models", sa.JSON, nullable=False),
        sa.Column("in_flight", sa.Integer, nullable=False, server_default="0"),
        sa.Column("inflight_limit", sa.Integer, nullable=False, server_default="0"),
        sa.Column("last_error", sa.Text),
        sa.PrimaryKeyConstraint("process_id", name="workers_pk"),
    )


def _create_view() -> None:
    op.execute(
        """
        CREATE VIEW coalition_records AS
        SELECT records.run_id, runs.snapshot_id, records.coalition_key, records.mask AS mask_words,
               runs.n_players AS mask_n_bits, runs.absence_policy, runs.model AS model_id, records.sample,
               generations.text AS generation, records.utility, generations.elapsed_ms,
               records.outcome = 'cache_hit' AS cache_hit, records.outcome, records.error, records.created_at
        FROM records
        JOIN runs ON runs.run_id = records.run_id
        LEFT JOIN generations
               ON generations.coalition_key = records.coalition_key AND records.outcome <> 'failed'
        """
    )
