from __future__ import annotations

import json

import numpy as np
import pytest

from coalq.report import run_document
from report_summaries import attribution, failed_summary, progress, summary

# interface.md section 4, key by key and in its order.
KEYS = (
    *("schema_version", "run_id", "campaign", "item_id", "status", "model", "answer", "finish_reason"),
    *("estimand", "estimator", "value", "seed", "budget", "empty_value", "grand_value"),
    *("enforced", "fit_r2", "noise_sd", "n_missing", "warnings", "players", "counters", "tokens", "manifest"),
)
PLAYER_KEYS = (*("index", "id", "kind", "message", "start", "end", "text", "value", "std_error", "ci_low", "ci_high"),)
COUNTER_KEYS = ("requested", "executed", "deduplicated", "cache_hits", "failed", "kv_cache_hits")


def test_a_complete_run_gives_the_documented_keys() -> None:
    document = json.loads(json.dumps(run_document(summary())))

    assert tuple(document) == KEYS
    assert tuple(document["players"][0]) == PLAYER_KEYS
    assert tuple(document["counters"]) == COUNTER_KEYS
    assert document["status"] == "complete"
    assert document["answer"] == "Within 14 days."
    assert (document["empty_value"], document["grand_value"]) == (0.0, 0.75)
    assert [player["value"] for player in document["players"]] == [-0.25, 1.0, 0.0]
    assert document["counters"]["requested"] == 8
    assert document["tokens"] == {"prompt": 1234, "cached": None, "completion": 56, "reasoning": None}
    assert document["manifest"]["run_id"] == "3f2a9c1e00112233"


def test_errors_that_were_not_estimated_are_null_and_never_zero() -> None:
    document = run_document(summary())

    errors = [(player["std_error"], player["ci_low"], player["ci_high"]) for player in document["players"]]
    assert errors == [(None, None, None)] * 3


def test_estimated_errors_give_an_interval_of_95_percent() -> None:
    sampled = attribution(std_errors=np.array([0.1, 0.0, 0.2]))

    document = run_document(summary(attribution=sampled))

    first = document["players"][0]
    assert (first["ci_low"], first["ci_high"]) == pytest.approx((-0.25 - 0.195996, -0.25 + 0.195996), abs=1e-6)


def test_a_run_of_cache_hits_used_no_tokens() -> None:
    hits = progress(executed=0, cache_hits=8, deduplicated=0, prompt_tokens=None, completion_tokens=None)

    document = run_document(summary(progress=hits))

    assert document["tokens"] == {"prompt": 0, "cached": 0, "completion": 0, "reasoning": 0}


def test_a_run_without_attribution_has_the_same_keys_with_nulls_and_says_why() -> None:
    document = run_document(failed_summary())

    assert tuple(document) == KEYS
    assert tuple(document["players"][0]) == PLAYER_KEYS
    assert document["status"] == "incomplete"
    assert document["answer"] is None
    assert document["grand_value"] is None
    assert document["players"][1]["value"] is None
    assert document["warnings"] == ["no attribution: HTTP 400: context too long"]
