"""Makes a run's manifest: every choice that the user left open is decided once, before anything is stored."""

from __future__ import annotations

from importlib.metadata import version

from coalq.config import Manifest, RunConfig
from coalq.conversation_input import ConversationInput
from coalq.estimators import resolve_estimator
from coalq.grouping import choose_group_size
from coalq.template_build import build_template
from coalq.values import make_value


def make_manifest(
    conversation: ConversationInput,
    config: RunConfig,
    *,
    run_id: str,
    live_workers: int = 1,
    backend_identity: str | None = None,
) -> Manifest:
    """Decide everything about a run that the user left open, once; pure.

    Raises:
        InputError: If the conversation or the request cannot be honoured.
    """
    built = build_template(conversation, config.players, config.roles)
    value = make_value(config.value)
    estimator, budget = resolve_estimator(config, len(built.players))
    n_coalitions = min(budget, 1 << len(built.players))
    return Manifest(
        coalq_version=version("coalq"),
        run_id=run_id,
        model=config.model,
        backend_identity=backend_identity or config.model,
        players=built.players,
        players_kind=built.kind,
        template=built.template,
        value=config.value,
        value_version=value.version,
        estimator=estimator,
        budget=budget,
        seed=config.seed,
        samples_per_coalition=config.samples_per_coalition,
        dedup=config.dedup_enabled,
        fresh=config.fresh,
        cache_tag=config.cache_tag,
        generation=config.generation,
        group_size=config.group_size
        or choose_group_size(n_coalitions, live_workers, samples=config.samples_per_coalition),
    )
