"""Identities: the key of a generation, the hash of a prefix, ids of runs and processes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from coalq.conversation import ConversationSnapshot, canonical_json
from coalq.generation import GenerationConfig
from coalq.masks import Mask

KEY_VERSION = 1
"""Version of the coalition key's layout; a change makes every archived generation unknown."""


@dataclass(frozen=True, slots=True)
class KeyScheme:
    """Everything of a coalition key that is the same for a whole run.

    Attributes:
        backend_identity: Model id and whatever else changes its output (revision, quantisation).
        cache_tag: The user's own text that keeps generations apart.
        generation: The settings sent with each request.
        salt: Empty when generations are shared between runs; the run id when they are not (`fresh`).
        share_masks: False when dedup is off: the mask and the run then enter the key.
        run_id: Used only when `share_masks` is False.
    """

    backend_identity: str
    generation: GenerationConfig
    run_id: str
    cache_tag: str = ""
    salt: str = ""
    share_masks: bool = True
    _same_for_all: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Encode the fields that are the same for all keys, once: a run makes up to millions."""
        same_for_all = _framed(
            str(KEY_VERSION).encode(),
            b"generate",
            self.backend_identity.encode(),
            self.cache_tag.encode(),
            canonical_json(self.generation.request_fields()),
            self.salt.encode(),
        )
        object.__setattr__(self, "_same_for_all", same_for_all)

    def coalition_key(self, rendered: ConversationSnapshot, mask: Mask, *, sample: int = 0) -> str:
        """Identity of one generation: BLAKE2b-128, hex, over length-prefixed fields.

        Two masks that render to the same messages have the same key, also across runs and snapshots.
        """
        (key,) = self.sample_keys(rendered, mask, samples=(sample,))
        return key

    def sample_keys(self, rendered: ConversationSnapshot, mask: Mask, *, samples: Iterable[int]) -> list[str]:
        """The coalition keys of several generations of one prompt, which is encoded once."""
        own = b"" if self.share_masks else f"{self.run_id}:{mask:x}".encode()
        head, messages = self._same_for_all + _framed(own), _framed(canonical_json(rendered.messages))
        return [
            hashlib.blake2b(head + _framed(str(sample).encode()) + messages, digest_size=16).hexdigest()
            for sample in samples
        ]


def _framed(*fields: bytes) -> bytes:
    """Each field behind its length, so that text cannot wander from one into the next."""
    return b"".join(len(field).to_bytes(8, "little") + field for field in fields)


def prefix_hash(text: str) -> str:
    """BLAKE2b-64, hex, of the rendered text that a group's coalitions share at the start."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def new_id() -> str:
    """A random id of 16 hex digits, for runs, processes and archives."""
    return secrets.token_hex(8)
