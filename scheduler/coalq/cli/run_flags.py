"""The flags that describe a run, shared by `explain` and `submit`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

from typer import Option

RunFlags = dict[str, Any]
"""Run parameters by `RunConfig` field name; only those given on the command line."""


def flag_of(path: str) -> str:
    """The flag of a run parameter: `generation.max_tokens` is given with `--max-tokens`."""
    field = path.removeprefix("generation.").partition("[")[0]
    return f"--{_SHORTER.get(field, field).replace('_', '-')}"


_SHORTER = {"samples_per_coalition": "samples"}


def takes_run_flags(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command every run flag; it receives those that were used as its keyword `flags`."""
    own = inspect.signature(command, eval_str=True).parameters
    shared = inspect.signature(_run_flags, eval_str=True).parameters
    parameters = [*(each for name, each in own.items() if name != "flags"), *shared.values()]

    @wraps(command)
    def with_flags(**given: Any) -> int:  # noqa: ANN401 - typer has checked them
        flags = _run_flags(**{name: given.pop(name) for name in shared})
        return command(**given, flags=flags)

    # typer reads both.
    with_flags.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    with_flags.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": int}
    return with_flags


def _run_flags(
    *,
    model: Annotated[str | None, Option(help="Model, as the endpoint calls it.")] = None,
    players: Annotated[str | None, Option(help="What is attributed: auto, words, sentences or slots.")] = None,
    roles: Annotated[str | None, Option(help="Roles whose messages are explained, separated by commas.")] = None,
    value: Annotated[
        str | None, Option(help="What is measured: contains:TEXT, exact, number, or chrf (similarity to the answer).")
    ] = None,
    estimator: Annotated[str | None, Option(help="auto or exact.")] = None,
    budget: Annotated[int | None, Option(help="Coalitions evaluated at most, v(∅) and v(N) included.")] = None,
    seed: Annotated[int | None, Option(help="Seed of the plan.")] = None,
    samples: Annotated[int | None, Option(help="Generations per coalition; the utility is their mean.")] = None,
    dedup: Annotated[str | None, Option(help="Share equal prompts: auto (at temperature 0), on or off.")] = None,
    fresh: Annotated[bool, Option("--fresh", help="Use no generation of an earlier run.")] = False,
    cache_tag: Annotated[str | None, Option(help="Keeps generations apart from those with another tag.")] = None,
    max_tokens: Annotated[int | None, Option(help="Length of an answer, in tokens.")] = None,
    temperature: Annotated[float | None, Option(help="Sampling temperature.")] = None,
    top_p: Annotated[float | None, Option(help="Nucleus sampling.")] = None,
    group_size: Annotated[int | None, Option(help="Coalitions in one message to a worker.")] = None,
    name: Annotated[str | None, Option(help="A name to find the run by.")] = None,
) -> RunFlags:
    given: RunFlags = {
        "model": model,
        "players": players,
        "roles": roles,
        "value": value,
        "estimator": estimator,
        "budget": budget,
        "seed": seed,
        "samples_per_coalition": samples,
        "dedup": dedup,
        "fresh": fresh or None,
        "cache_tag": cache_tag,
        "group_size": group_size,
        "name": name,
    }
    generation = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p}
    flags = {option: chosen for option, chosen in given.items() if chosen is not None}
    chosen_generation = {option: chosen for option, chosen in generation.items() if chosen is not None}
    return flags | ({"generation": chosen_generation} if chosen_generation else {})
