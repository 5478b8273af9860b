"""Estimators by name, and which one a request gets."""

from __future__ import annotations

from coalq.config import RunConfig
from coalq.errors import InputError
from coalq.estimators.exact import MAX_PLAYERS, ExactEstimator
from coalq.estimators.protocol import Estimate, Estimator

__all__ = ["Estimate", "Estimator", "ExactEstimator", "check_player_count", "make_estimator", "resolve_estimator"]

AUTO_EXACT_COALITIONS = 512
"""`auto` enumerates everything up to this many coalitions."""

EXACT_PLAYERS_WITHOUT_BUDGET = 16
"""Beyond this many players the user has to state the number of generations as a budget."""

_LARGEST_WRITTEN_POWER = 62
_FEWER = "fewer players (for example sentences instead of words)"


def check_player_count(n_players: int) -> None:
    """Refuse more players than any estimator of this version takes; cheap, so that it can come before the template.

    Raises:
        InputError: Says the number of coalitions and the choices.
    """
    if n_players > MAX_PLAYERS:
        raise InputError(
            f"{_counted(n_players)}; exact values are limited to {MAX_PLAYERS} players and a sampled estimator is not "
            f"built yet: choose {_FEWER}"
        )


def make_estimator(name: str, n_players: int, *, budget: int, seed: int) -> Estimator:
    """The estimator that a manifest names.

    Raises:
        InputError: If there is none of that name, or the game does not fit its budget.
    """
    del seed  # the exact plan has no randomness; sampled estimators draw from it
    if name != "exact":
        raise InputError(f"estimator {name!r} is unknown; allowed is: exact")
    estimator = ExactEstimator(n_players)
    if budget < estimator.n_planned:
        raise InputError(f"estimator exact: budget {budget} is below 2^{n_players} = {estimator.n_planned} coalitions")
    return estimator


def resolve_estimator(config: RunConfig, n_players: int) -> tuple[str, int]:
    """The estimator and the budget that a request gets: `auto` means exact up to 512 coalitions.

    Raises:
        InputError: If no estimator of this version fits; says the number of coalitions and the choices.
    """
    if n_players < 1:
        raise InputError("there is no player to attribute anything to")
    check_player_count(n_players)
    coalitions, counted = 1 << n_players, _counted(n_players)
    if config.estimator == "auto" and coalitions > AUTO_EXACT_COALITIONS:
        raise InputError(
            f"{counted}, more than the {AUTO_EXACT_COALITIONS} that estimator auto enumerates, and a sampled estimator "
            f"is not built yet: choose --estimator exact{_needed_budget(n_players)}, or {_FEWER}"
        )
    if config.budget is None and n_players > EXACT_PLAYERS_WITHOUT_BUDGET:
        raise InputError(
            f"{counted}; allow that many with --budget {coalitions} (without one, exact values are limited to "
            f"{EXACT_PLAYERS_WITHOUT_BUDGET} players), or choose {_FEWER}"
        )
    if config.budget is not None and config.budget < coalitions:
        raise InputError(
            f"budget {config.budget:,} is below the {coalitions:,} that exact values need ({counted}), and a sampled "
            f"estimator is not built yet: raise --budget or choose {_FEWER}"
        )
    return "exact", coalitions if config.budget is None else config.budget


def _counted(n_players: int) -> str:
    """E.g. `3 players make 2^3 = 8 coalitions`; a number that nobody could read is left as a power."""
    written = f" = {1 << n_players:,}" if n_players <= _LARGEST_WRITTEN_POWER else ""
    return f"{n_players:,} players make 2^{n_players}{written} coalitions"


def _needed_budget(n_players: int) -> str:
    return f" --budget {1 << n_players}" if n_players > EXACT_PLAYERS_WITHOUT_BUDGET else ""
