"""Manifests of small runs, for tests that need one and do not care where it came from."""

from __future__ import annotations

from coalq.config import Manifest
from coalq.conversation_input import ConversationInput
from coalq.generation import GenerationConfig
from coalq.template_build import build_template


def words_manifest(n_players: int, *, group_size: int = 8, samples: int = 1, value: str = "number") -> Manifest:
    """An exact run over the words `p0 p1 …`."""
    text = " ".join(f"p{i}" for i in range(n_players))
    built = build_template(ConversationInput.from_text(text), "words", ("user",))
    return Manifest(
        coalq_version="0",
        run_id="0123456789abcdef",
        model="toy",
        backend_identity="toy",
        players=built.players,
        players_kind=built.kind,
        template=built.template,
        value=value,
        value_version=1,
        budget=1 << n_players,
        seed=0,
        samples_per_coalition=samples,
        dedup=True,
        generation=GenerationConfig(),
        group_size=group_size,
    )
