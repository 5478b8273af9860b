"""Identities: what makes two generations the same and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coalq.conversation import ConversationSnapshot
from coalq.generation import GenerationConfig
from coalq.identity import KeyScheme, new_id, prefix_hash

SCHEME = KeyScheme(backend_identity="model", generation=GenerationConfig(), run_id="run-1")
PROMPT = ConversationSnapshot.from_prompt("a a b")


def test_equal_prompts_share_a_key_across_masks_and_runs() -> None:
    other_run = replace(SCHEME, run_id="run-2")

    assert SCHEME.coalition_key(PROMPT, 0b01) == other_run.coalition_key(PROMPT, 0b10)


@pytest.mark.parametrize(
    "changed",
    [
        replace(SCHEME, backend_identity="model@2"),
        replace(SCHEME, generation=GenerationConfig(max_tokens=12)),
        replace(SCHEME, generation=GenerationConfig(temperature=0.5)),
        replace(SCHEME, salt="run-1"),
        replace(SCHEME, share_masks=False),
    ],
)
def test_whatever_can_change_the_answer_changes_the_key(changed: KeyScheme) -> None:
    assert changed.coalition_key(PROMPT, 1) != SCHEME.coalition_key(PROMPT, 1)


def test_the_sample_changes_the_key() -> None:
    assert SCHEME.coalition_key(PROMPT, 1, sample=1) != SCHEME.coalition_key(PROMPT, 1, sample=0)


def test_without_sharing_every_mask_and_run_has_its_own_key() -> None:
    alone = replace(SCHEME, share_masks=False)

    keys = {
        alone.coalition_key(PROMPT, 0b01),
        alone.coalition_key(PROMPT, 0b10),
        replace(alone, run_id="run-2").coalition_key(PROMPT, 0b01),
    }

    assert len(keys) == 3


def test_text_cannot_wander_from_one_field_into_the_next() -> None:
    one = replace(SCHEME, backend_identity="ab", salt="c").coalition_key(PROMPT, 1)
    other = replace(SCHEME, backend_identity="a", salt="bc").coalition_key(PROMPT, 1)

    assert one != other


def test_the_key_does_not_depend_on_the_order_of_a_messages_fields() -> None:
    turned = ConversationSnapshot(({"content": "a a b", "role": "user"},))

    assert SCHEME.coalition_key(turned, 1) == SCHEME.coalition_key(PROMPT, 1)
    assert turned.snapshot_id == PROMPT.snapshot_id


def test_keys_and_hashes_have_their_documented_lengths() -> None:
    assert len(SCHEME.coalition_key(PROMPT, 1)) == 32
    assert len(prefix_hash("text")) == 16
    assert len(PROMPT.snapshot_id) == 64
    assert len(new_id()) == 16


@pytest.mark.parametrize("scheme", [SCHEME, replace(SCHEME, share_masks=False)])
def test_keys_made_together_are_those_made_one_by_one(scheme: KeyScheme) -> None:
    one_by_one = [scheme.coalition_key(PROMPT, 5, sample=sample) for sample in (0, 3, 1000)]

    assert scheme.sample_keys(PROMPT, 5, samples=[0, 3, 1000]) == one_by_one


def test_a_key_stays_the_same_for_ever() -> None:
    # Archives hold generations under these keys: a change here needs a new KEY_VERSION.
    assert SCHEME.coalition_key(PROMPT, 1) == "70744818d6d8f3e57ba89e4690a1f50b"
