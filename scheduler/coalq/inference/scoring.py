"""Scores a finished job: the utility of its generation, or why it has none."""

from __future__ import annotations

import math

from coalq.errors import BaseUnknownError
from coalq.inference.jobs import CoalitionRecord, CoalitionRecordDraft, describe_error
from coalq.outcome import Outcome


def score(draft: CoalitionRecordDraft) -> CoalitionRecord:
    """The record that a draft makes with its job's own value function.

    A function that raises anything, or gives what is not a finite number, fails this job and no other.

    Raises:
        BaseUnknownError: If the base generation is not known yet.
    """
    job, generation = draft.job, draft.generation
    if generation is None or job.utility is None:
        return CoalitionRecord.of(job, draft.outcome, generation=generation, error=draft.error)
    try:
        utility = float(job.utility(generation))
    except BaseUnknownError:
        raise
    except Exception as error:  # noqa: BLE001 - any fault of a user's value function is that job's failure
        return CoalitionRecord.of(job, Outcome.FAILED, error=describe_error(error))
    if not math.isfinite(utility):
        return CoalitionRecord.of(job, Outcome.FAILED, error=f"the utility is not a finite number: {utility}")
    return CoalitionRecord.of(job, draft.outcome, generation=generation, utility=utility)
