"""Explain language-model answers with Shapley-style attributions, spread over many machines.

The public names are loaded when they are first used: importing `coalq` costs nothing, and a process that needs only a
part (the supervisor, a worker) does not load the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coalq.attribution import Attribution
    from coalq.config import Manifest, RunConfig
    from coalq.conversation import ConversationSnapshot
    from coalq.conversation_input import ConversationInput
    from coalq.errors import (
        CoalqError,
        InputError,
        NotBuiltError,
        PermanentError,
        RunFailedError,
        ServerError,
        TransientError,
    )
    from coalq.generation import Generation, GenerationConfig
    from coalq.in_process import aexplain, explain, iter_jobs
    from coalq.inference import (
        CoalitionDedupRegistry,
        CoalitionJob,
        CoalitionProgress,
        CoalitionRecord,
        CoalitionRecordDraft,
        HotResultStore,
        InferenceScheduler,
        NullCoalitionProgress,
        RunArchive,
    )
    from coalq.input_file import read_input
    from coalq.masks import PackedMask
    from coalq.outcome import Outcome, RunStatus, SchedulerMetrics
    from coalq.producer import Producer
    from coalq.run import Run
    from coalq.run_options import run_config
    from coalq.settings import Settings
    from coalq.values import ValueFunction

_HOMES = {
    "coalq.attribution": ("Attribution",),
    "coalq.config": ("Manifest", "RunConfig"),
    "coalq.conversation": ("ConversationSnapshot",),
    "coalq.conversation_input": ("ConversationInput",),
    "coalq.errors": (
        "CoalqError",
        "InputError",
        "NotBuiltError",
        "PermanentError",
        "RunFailedError",
        "ServerError",
        "TransientError",
    ),
    "coalq.generation": ("Generation", "GenerationConfig"),
    "coalq.in_process": ("aexplain", "explain", "iter_jobs"),
    "coalq.inference": (
        "CoalitionDedupRegistry",
        "CoalitionJob",
        "CoalitionProgress",
        "CoalitionRecord",
        "CoalitionRecordDraft",
        "HotResultStore",
        "InferenceScheduler",
        "NullCoalitionProgress",
        "RunArchive",
    ),
    "coalq.input_file": ("read_input",),
    "coalq.masks": ("PackedMask",),
    "coalq.outcome": ("Outcome", "RunStatus", "SchedulerMetrics"),
    "coalq.producer": ("Producer",),
    "coalq.run": ("Run",),
    "coalq.run_options": ("run_config",),
    "coalq.settings": ("Settings",),
    "coalq.values": ("ValueFunction",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Attribution",
    "CoalitionDedupRegistry",
    "CoalitionJob",
    "CoalitionProgress",
    "CoalitionRecord",
    "CoalitionRecordDraft",
    "CoalqError",
    "ConversationInput",
    "ConversationSnapshot",
    "Generation",
    "GenerationConfig",
    "HotResultStore",
    "InferenceScheduler",
    "InputError",
    "Manifest",
    "NotBuiltError",
    "NullCoalitionProgress",
    "Outcome",
    "PackedMask",
    "PermanentError",
    "Producer",
    "Run",
    "RunArchive",
    "RunConfig",
    "RunFailedError",
    "RunStatus",
    "SchedulerMetrics",
    "ServerError",
    "Settings",
    "TransientError",
    "ValueFunction",
    "aexplain",
    "explain",
    "iter_jobs",
    "read_input",
    "run_config",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the public name is
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
