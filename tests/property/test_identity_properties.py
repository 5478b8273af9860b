"""Coalition keys: equal exactly when the prompts are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coalq.conversation import ConversationSnapshot
from coalq.conversation_input import ConversationInput
from coalq.generation import GenerationConfig
from coalq.identity import KeyScheme
from coalq.masks import grand_mask
from coalq.template_build import build_template

SCHEME = KeyScheme(backend_identity="model", generation=GenerationConfig(), run_id="run")
sentences = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=6).map(" ".join)
messages = st.lists(st.tuples(st.sampled_from(["user", "system"]), st.text("ab", max_size=3)), min_size=1, max_size=3)


@given(sentences)
def test_masks_share_a_key_exactly_when_they_render_alike(text: str) -> None:
    built = build_template(ConversationInput.from_text(text), "words", ("user",))
    masks = range(grand_mask(len(built.players)) + 1)

    keys = {mask: SCHEME.coalition_key(built.template.render(mask), mask) for mask in masks}

    prompts = {mask: str(built.template.render(mask).messages) for mask in masks}
    assert len(set(keys.values())) == len(set(prompts.values()))
    assert len(set(zip(keys.values(), prompts.values(), strict=True))) == len(set(keys.values()))


@given(messages, messages)
def test_different_conversations_have_different_keys(one: list[tuple[str, str]], other: list[tuple[str, str]]) -> None:
    first, second = (
        ConversationSnapshot(tuple({"role": role, "content": text} for role, text in chat)) for chat in (one, other)
    )

    assert (SCHEME.coalition_key(first, 0) == SCHEME.coalition_key(second, 0)) == (one == other)
    assert (first.snapshot_id == second.snapshot_id) == (one == other)
