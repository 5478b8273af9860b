"""The asyncio core: runs coalition jobs with bounded concurrency; knows no Celery, no Redis and no SQL."""

from coalq.claim import Claim, Held, Stored, Won
from coalq.inference.call import RunReport
from coalq.inference.jobs import CoalitionJob, CoalitionRecord, CoalitionRecordDraft, Utility, describe_error
from coalq.inference.memory import CoalitionDedupRegistry, HotResultStore, RunArchive
from coalq.inference.ports import DedupRegistry, GenerateFn, RecordArchive, ResultStore
from coalq.inference.progress import CoalitionProgress, NullCoalitionProgress
from coalq.inference.scheduler import InferenceScheduler
from coalq.inference.scoring import score

__all__ = [
    "Claim",
    "CoalitionDedupRegistry",
    "CoalitionJob",
    "CoalitionProgress",
    "CoalitionRecord",
    "CoalitionRecordDraft",
    "DedupRegistry",
    "GenerateFn",
    "Held",
    "HotResultStore",
    "InferenceScheduler",
    "NullCoalitionProgress",
    "RecordArchive",
    "ResultStore",
    "RunArchive",
    "RunReport",
    "Stored",
    "Utility",
    "Won",
    "describe_error",
    "score",
]
