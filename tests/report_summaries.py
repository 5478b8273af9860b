"""Runs as reports see them, for tests: three slot items of which the second decides the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from coalq.archive import RunProgress
from coalq.attribution import Attribution
from coalq.config import Manifest
from coalq.generation import Generation, GenerationConfig
from coalq.outcome import RunStatus
from coalq.report import RunSummary
from coalq.template import Block, MessageTemplate, Piece, Player, PromptTemplate

ITEMS = ("Opened in 2011.", "Paid within 14 days.", "Closed at six.")


def progress(**changes: Any) -> RunProgress:
    """Counters of a complete run of eight coalitions."""
    complete = RunProgress(
        status=RunStatus.COMPLETE,
        reason=None,
        total=8,
        done=8,
        executed=5,
        cache_hits=2,
        deduplicated=1,
        failed=0,
        kv_cache_hits=3,
        groups_waiting=0,
        groups_executing=0,
        groups_finished=2,
        prompt_tokens=1234,
        cached_tokens=None,
        completion_tokens=56,
        reasoning_tokens=None,
    )
    return replace(complete, **changes)


def manifest(items: Sequence[str] = ITEMS) -> Manifest:
    """A prompt whose slot stands at the start of the second message."""
    players, start = [], 0
    for index, text in enumerate(items):
        end = start + len(text)
        players.append(
            Player(index=index, id=f"notes-{index}", kind="slot", message=1, start=start, end=end, text=text)
        )
        start = end + 1
    block = Block(pieces=tuple(Piece(player=each.index, text=each.text) for each in players), join=" ")
    return Manifest(
        coalq_version="0.1.0",
        run_id="3f2a9c1e00112233",
        model="smollm2",
        backend_identity="smollm2@sha256:00",
        players=tuple(players),
        players_kind="slots",
        template=PromptTemplate(
            messages=(
                MessageTemplate(role="system", parts=("Be short.",)),
                MessageTemplate(role="user", parts=(block, "\nWhen?")),
            )
        ),
        value="contains:14",
        value_version=1,
        budget=2 ** len(items),
        seed=0,
        dedup=True,
        generation=GenerationConfig(max_tokens=12),
        group_size=8,
    )


def attribution(values: Sequence[float] = (-0.25, 1.0, 0.0), **changes: Any) -> Attribution:
    """Values of the items, in order."""
    exact = Attribution(
        values=np.array(values),
        std_errors=None,
        players=manifest(ITEMS[: len(values)]).players,
        empty_value=0.0,
        grand_value=float(sum(values)),
        estimand="shapley",
        estimator="exact",
        value_function="contains:14",
        enforced=True,
        fit_r2=None,
        noise_sd=None,
        n_used=2 ** len(values),
        n_missing=0,
    )
    return replace(exact, **changes)


def summary(**changes: Any) -> RunSummary:
    """A complete run."""
    complete = RunSummary(
        run_id="3f2a9c1e00112233",
        name=None,
        campaign=None,
        item_id=None,
        progress=progress(),
        manifest=manifest(),
        answer=Generation(text="Within 14 days.", finish_reason="stop"),
        attribution=attribution(),
    )
    return replace(complete, **changes)


def failed_summary() -> RunSummary:
    """A run whose endpoint refused the first group."""
    return summary(
        progress=progress(
            status=RunStatus.INCOMPLETE,
            reason="HTTP 400: context too long",
            done=2,
            executed=0,
            cache_hits=0,
            deduplicated=0,
            failed=2,
            prompt_tokens=None,
            completion_tokens=None,
        ),
        answer=None,
        attribution=None,
        why_none="HTTP 400: context too long",
    )
