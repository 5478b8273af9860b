"""What is asked of the model (`GenerationConfig`) and what came back (`Generation`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field


class GenerationConfig(BaseModel):
    """Sampling settings sent with every request of a run; all of them enter the coalition key.

    `max_new_tokens` is accepted as another name of `max_tokens`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    max_tokens: int = Field(
        default=128, ge=1, le=1_000_000, strict=True, validation_alias=AliasChoices("max_tokens", "max_new_tokens")
    )
    temperature: float = Field(default=0.0, ge=0.0, le=2.0, strict=True)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0, strict=True)

    def request_fields(self) -> dict[str, Any]:
        """The fields as they are sent to an OpenAI-compatible chat endpoint.

        A neutral `top_p` is sent explicitly: servers apply defaults of their own otherwise.
        """
        return {"max_tokens": self.max_tokens, "temperature": self.temperature, "top_p": self.top_p}


@dataclass(frozen=True, slots=True)
class Generation:
    """The model's output for one rendered prompt. Unknown token counts are None, never 0.

    Attributes:
        text: The text that value functions score.
        finish_reason: Why the model stopped, in the endpoint's words.
        reasoning: Hidden reasoning, kept apart and never scored.
        elapsed_ms: Milliseconds from sending the request to the whole reply.
    """

    text: str
    finish_reason: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: str | None = None
    fingerprint: str | None = None
    endpoint: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    elapsed_ms: float = 0.0
