"""The toy backend: exactly known games, for tests, benchmarks and trying a cluster without a model."""

from __future__ import annotations

import asyncio
from functools import lru_cache

from coalq.conversation import ConversationSnapshot
from coalq.errors import InputError, PermanentError
from coalq.generation import Generation, GenerationConfig
from coalq.toy import ToyGame, parse_toy

_game = lru_cache(maxsize=64)(parse_toy)


class ToyBackend:
    """Answers with the number that the players present (words `p0 p1 …`) are worth in the game the model names."""

    endpoint = "toy"

    def __init__(self, *, latency_ms: float = 0.0) -> None:
        self._latency_s = latency_ms / 1000

    async def generate(self, snapshot: ConversationSnapshot, *, model: str, generation: GenerationConfig) -> Generation:
        """The number, after the configured latency; the settings change nothing."""
        del generation
        game = self._game_of(model)
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        return Generation(text=game.answer(snapshot), finish_reason="stop", endpoint=self.endpoint)

    @staticmethod
    def _game_of(model: str) -> ToyGame:
        try:
            return _game(model)
        except InputError as error:
            raise PermanentError(str(error)) from error

    async def models(self) -> tuple[str, ...]:
        """The toy backend knows every game, so it lists none: COALQ_MODELS names them."""
        return ()

    async def capacity(self) -> int | None:
        """No limit of its own."""
        return None

    async def close(self) -> None:
        """Nothing to give up."""
