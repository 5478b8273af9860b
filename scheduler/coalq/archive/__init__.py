"""The archive: the truth about runs, groups, generations and records. The only part that knows SQL."""

from __future__ import annotations

from coalq.archive.archive import Archive
from coalq.archive.engine import open_engine
from coalq.archive.rows import (
    Draft,
    FlushResult,
    GroupAttempt,
    GroupKey,
    NewRun,
    Publication,
    RecordKey,
    RunProgress,
    RunRow,
    StartedGroup,
    StoredRecord,
    WorkerRow,
)
from coalq.archive.schema import check_schema, current, upgrade

__all__ = [
    "Archive",
    "Draft",
    "FlushResult",
    "GroupAttempt",
    "GroupKey",
    "NewRun",
    "Publication",
    "RecordKey",
    "RunProgress",
    "RunRow",
    "StartedGroup",
    "StoredRecord",
    "WorkerRow",
    "check_schema",
    "current",
    "open_engine",
    "upgrade",
]
