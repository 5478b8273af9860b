"""What a worker needs of a model backend."""

from __future__ import annotations

from typing import Protocol

from coalq.conversation import ConversationSnapshot
from coalq.generation import Generation, GenerationConfig


class Backend(Protocol):
    """Answers rendered prompts; one object per process, used from its event loop only."""

    async def generate(self, snapshot: ConversationSnapshot, *, model: str, generation: GenerationConfig) -> Generation:
        """Ask once, without retries.

        Raises:
            PermanentError: The endpoint rejects this prompt for good.
            TransientError: A fault that may pass.
        """

    async def models(self) -> tuple[str, ...]:
        """Models that can be asked; `TransientError` when the endpoint does not say."""

    async def capacity(self) -> int | None:
        """Generations the endpoint itself runs at once (llama.cpp's slots); None when it does not say."""

    @property
    def endpoint(self) -> str:
        """What is asked, for people: a URL without credentials, or the backend's name."""

    async def close(self) -> None:
        """Give up connections."""
