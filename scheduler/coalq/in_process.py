"""Explains in one process, without Celery or Redis: for notebooks, tests and small games.

The jobs, the scheduler and the sums are those of the distributed path.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from coalq.attribution import Attribution, UtilityRecord, attribute
from coalq.config import Manifest, RunConfig
from coalq.conversation_input import ConversationInput
from coalq.errors import NotBuiltError, RunFailedError
from coalq.grouping import GroupPlan
from coalq.identity import new_id
from coalq.inference import (
    CoalitionDedupRegistry,
    CoalitionJob,
    GenerateFn,
    HotResultStore,
    InferenceScheduler,
    RunArchive,
)
from coalq.manifest import make_manifest
from coalq.masks import unpack_mask
from coalq.run_jobs import RunContext, Sampled, make_jobs

DEFAULT_MAX_INFLIGHT = 32

Conversation = str | Mapping[str, Any] | ConversationInput
"""A prompt, the content of an input file as a mapping, or a parsed input."""

Result = TypeVar("Result")


def as_input(conversation: Conversation) -> ConversationInput:
    """Parse a conversation given in any form.

    Raises:
        InputError: Says what is wrong with it.
    """
    if isinstance(conversation, ConversationInput):
        return conversation
    if isinstance(conversation, str):
        return ConversationInput.from_text(conversation)
    return ConversationInput.from_mapping(conversation)


def iter_jobs(conversation: Conversation, config: RunConfig) -> Iterator[CoalitionJob]:
    """The jobs of a whole run, lazily, for an `InferenceScheduler` of your own; the grand coalition's comes first.

    Its generation is the reference of every utility. A `RunArchive` computes the utilities of jobs that end before it
    when its records are read.

    Raises:
        InputError: If the conversation or the request cannot be honoured.
    """
    context = RunContext.of(make_manifest(as_input(conversation), config, run_id=new_id()))
    return make_jobs(context, _pairs(context.manifest), make=CoalitionJob)


async def aexplain(
    conversation: Conversation,
    config: RunConfig,
    *,
    generate: GenerateFn | None = None,
    archive: RunArchive | None = None,
    max_inflight: int = DEFAULT_MAX_INFLIGHT,
) -> Attribution:
    """Explain an answer with a model function of your own.

    Args:
        conversation: What is explained.
        config: What is asked; `model` only names the model.
        generate: Coroutine function from a `ConversationSnapshot` to the answer, a `str` or a `Generation`.
        archive: Receives the records, if you want to look at them.
        max_inflight: Answers asked for at once.

    Raises:
        InputError: If the conversation or the request cannot be honoured; nothing was asked.
        RunFailedError: If a coalition failed, with the first error.
    """
    if generate is None:
        raise NotBuiltError("explain without `generate` is not built yet: pass a coroutine function, or use Producer")
    archive = RunArchive() if archive is None else archive
    context = RunContext.of(make_manifest(as_input(conversation), config, run_id=new_id()))
    scheduler = InferenceScheduler(
        max_inflight, config.generation, HotResultStore(maxsize=None), CoalitionDedupRegistry(), archive
    )
    before = len(archive)
    await scheduler.run(list(make_jobs(context, [context.base_pair], make=CoalitionJob)), generate)
    (base,) = archive.since(before)
    if base.generation is None:
        raise RunFailedError(f"no attribution: the grand coalition failed: {base.error}")
    context = context.with_base(base.generation)
    rest = (pair for pair in _pairs(context.manifest) if pair != context.base_pair)
    await scheduler.run_iter(make_jobs(context, rest, make=CoalitionJob), generate)
    return attribute(
        context.manifest,
        (
            UtilityRecord(unpack_mask(record.mask.words), record.sample, record.outcome, record.utility, record.error)
            for record in archive.since(before)
        ),
    )


def explain(
    conversation: Conversation,
    config: RunConfig,
    *,
    generate: GenerateFn | None = None,
    archive: RunArchive | None = None,
    max_inflight: int = DEFAULT_MAX_INFLIGHT,
) -> Attribution:
    """`aexplain` for code without an event loop; also works in a notebook, whose loop is already running."""
    return _run(aexplain(conversation, config, generate=generate, archive=archive, max_inflight=max_inflight))


def _pairs(manifest: Manifest) -> Iterator[Sampled]:
    plan = GroupPlan(manifest)
    for group in plan.groups(0, plan.n_groups):
        for mask in group.masks:
            for sample in range(manifest.samples_per_coalition):
                yield mask, sample


def _run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(coroutine))
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            errors.append(error)

    thread = threading.Thread(target=run, name="coalq-explain")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
