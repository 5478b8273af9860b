"""From the command line to a checked request: the input, the run's configuration and the model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from coalq.cli.run_flags import flag_of
from coalq.config import Manifest, RunConfig
from coalq.conversation_input import ConversationInput
from coalq.endpoint_url import api_root
from coalq.errors import InputError
from coalq.input_file import read_input
from coalq.local import BundledModel, find_model
from coalq.manifest import make_manifest
from coalq.run_options import checked_options, run_config
from coalq.settings import Settings
from coalq.toy import parse_toy

InputArgument = Annotated[
    str | None,
    typer.Argument(metavar="INPUT", help="A YAML, JSON or text file, or - for standard input.", show_default=False),
]
PromptOption = Annotated[str | None, typer.Option("--prompt", help="The prompt itself, instead of a file.")]


@dataclass(frozen=True, slots=True)
class Request:
    """One run as it will be submitted.

    Attributes:
        bundled: The model that has to be served for it; None when a worker has an endpoint of its own.
        draft: What would be planned, for messages; the run gets a manifest of its own.
    """

    conversation: ConversationInput
    config: RunConfig
    bundled: BundledModel | None
    draft: Manifest


def read_request(
    given: str | None, prompt: str | None, *, flags: Mapping[str, Any], settings: Settings, embedded: bool
) -> Request:
    """Read the input and decide everything that needs no server, so that bad input starts and enqueues nothing.

    Flags override the file, the file overrides the environment.

    Raises:
        InputError: Names what is wrong and what is allowed.
        ServerError: The bundled model is needed and not installed.
    """
    conversation = read_input(given, prompt=prompt, stdin=sys.stdin.buffer)
    bundled = _bundled_model(settings) if embedded else None
    default_model = settings.model or (bundled.name if bundled else None)
    environment = {} if default_model is None else {"model": default_model}
    # Each layer by itself first, so that an error names where the parameter comes from.
    checked_options(environment, source="environment", place=lambda _: "COALQ_MODEL")
    checked_options(flags, source="flags", place=flag_of)
    config = run_config(environment, conversation.options, flags, source=conversation.source)
    if bundled is not None and config.model != bundled.name:
        raise InputError(
            f"model: {config.model!r} is not served here; without COALQ_BASE_URL it can only be {bundled.name!r}"
        )
    if embedded:
        _check_embedded(config, settings)
    draft = make_manifest(conversation, config, run_id="draft")
    return Request(conversation=conversation, config=config, bundled=bundled, draft=draft)


def describe(manifest: Manifest) -> str:
    """What is about to be done, e.g. `7 slots, 128 coalitions (exact), model smollm2-135m-instruct`."""
    kind = manifest.players_kind if manifest.n_players != 1 else manifest.players_kind.removesuffix("s")
    samples = f" × {manifest.samples_per_coalition} samples" if manifest.samples_per_coalition > 1 else ""
    return (
        f"{manifest.n_players:,} {kind}, {manifest.budget:,} coalitions{samples} ({manifest.estimator}), "
        f"value {manifest.value}, model {manifest.model}"
    )


def _check_embedded(config: RunConfig, settings: Settings) -> None:
    """What the embedded worker would refuse, before anything is stored or started; other workers check their own.

    Raises:
        InputError: Names the variable or the model, and what is allowed.
    """
    if settings.backend == "toy":
        parse_toy(config.model)
    elif settings.base_url is not None:
        api_root(settings.base_url)


def _bundled_model(settings: Settings) -> BundledModel | None:
    if settings.backend != "openai" or settings.base_url is not None:
        return None
    return find_model(settings.local_model)
