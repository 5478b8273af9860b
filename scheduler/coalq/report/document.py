"""The `--json` document of `explain` and `results` (interface.md, schema version 1)."""

from __future__ import annotations

from typing import Any

from coalq.archive import RunProgress
from coalq.attribution import Attribution
from coalq.report.summary import RunSummary

SCHEMA_VERSION = 1

_NORMAL_95 = 1.959963984540054
"""Half the width of a normal 95 % interval, in standard errors."""


def run_document(summary: RunSummary) -> dict[str, Any]:
    """The document; every key is always there, null where there is nothing to say."""
    attribution, manifest, answer = summary.attribution, summary.manifest, summary.answer
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": summary.run_id,
        "campaign": summary.campaign,
        "item_id": summary.item_id,
        "status": str(summary.progress.status),
        "model": manifest.model,
        "answer": answer.text if answer else None,
        "finish_reason": answer.finish_reason if answer else None,
        "estimand": manifest.estimand,
        "estimator": manifest.estimator,
        "value": manifest.value,
        "seed": manifest.seed,
        "budget": manifest.budget,
        "empty_value": attribution.empty_value if attribution else None,
        "grand_value": attribution.grand_value if attribution else None,
        "enforced": attribution.enforced if attribution else None,
        "fit_r2": attribution.fit_r2 if attribution else None,
        "noise_sd": attribution.noise_sd if attribution else None,
        "n_missing": _missing(summary),
        "warnings": [*summary.warnings, *([f"no attribution: {summary.why_none}"] if summary.why_none else [])],
        "players": [
            {**player.model_dump(mode="json"), **_value_fields(attribution, player.index)}
            for player in manifest.players
        ],
        "counters": counters(summary.progress),
        "tokens": tokens(summary.progress),
        "manifest": manifest.model_dump(mode="json"),
    }


def _missing(summary: RunSummary) -> int | None:
    """Coalitions that did not enter; None while the run may still get them."""
    if summary.attribution is not None:
        return summary.attribution.n_missing
    return summary.losses.n_coalitions if summary.losses is not None else None


def counters(progress: RunProgress) -> dict[str, int]:
    """Records so far by outcome; `requested` is their sum."""
    outcomes = {
        "executed": progress.executed,
        "deduplicated": progress.deduplicated,
        "cache_hits": progress.cache_hits,
        "failed": progress.failed,
    }
    return {"requested": sum(outcomes.values()), **outcomes, "kv_cache_hits": progress.kv_cache_hits}


def outcome_words(progress: RunProgress) -> str:
    """E.g. `60 executed, 0 deduplicated, 4 cache hits, 0 failed`."""
    names = ("executed", "deduplicated", "cache_hits", "failed")
    counted = counters(progress)
    return ", ".join(f"{counted[name]:,} {name.replace('_', ' ')}" for name in names)


def tokens(progress: RunProgress) -> dict[str, int | None]:
    """Tokens of executed generations; null where the endpoint reports none, 0 where nothing was executed."""
    reported = {
        "prompt": progress.prompt_tokens,
        "cached": progress.cached_tokens,
        "completion": progress.completion_tokens,
        "reasoning": progress.reasoning_tokens,
    }
    return reported if progress.executed else {kind: count or 0 for kind, count in reported.items()}


def _value_fields(attribution: Attribution | None, index: int) -> dict[str, float | None]:
    if attribution is None:
        return dict.fromkeys(("value", "std_error", "ci_low", "ci_high"))
    value = float(attribution.values[index])
    if attribution.std_errors is None:
        return {"value": value, "std_error": None, "ci_low": None, "ci_high": None}
    error = float(attribution.std_errors[index])
    return {
        "value": value,
        "std_error": error,
        "ci_low": value - _NORMAL_95 * error,
        "ci_high": value + _NORMAL_95 * error,
    }
