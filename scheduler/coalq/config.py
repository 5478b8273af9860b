"""`RunConfig`, what a user asks for, and `Manifest`, the frozen plan of a run stored with it."""

from __future__ import annotations

import unicodedata
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from coalq.generation import GenerationConfig
from coalq.identity import KeyScheme
from coalq.template import Player, PromptTemplate

_LARGEST_WHOLE_NUMBER = 2**63 - 1  # of JSON as it is written here, and of the database


class RunConfig(BaseModel):
    """One attribution request. Parameters that this version cannot honour are refused by name, never ignored.

    Attributes:
        model: Model name as the endpoint calls it.
        players: What is attributed: slots if there are any, else sentences if two or more, else words.
        value: Value function, e.g. `chrf` or `contains:14`.
        budget: Evaluations allowed, v(∅) and v(N) included; absolute.
        dedup: Share equal prompts; `auto` does so exactly when temperature is 0.
        fresh: Ignore generations of earlier runs.
        cache_tag: Text that separates generations of otherwise equal requests.
        group_size: Coalitions in one message; chosen from the run's size when None.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(min_length=1)
    players: Literal["auto", "words", "sentences", "slots"] = "auto"
    roles: tuple[str, ...] = ("user",)
    absence: Literal["delete"] = "delete"
    empty: Literal["ask"] = "ask"
    value: str = "chrf"
    estimand: Literal["shapley"] = "shapley"
    estimator: Literal["auto", "exact"] = "auto"
    budget: int | None = Field(default=None, ge=2, le=_LARGEST_WHOLE_NUMBER, strict=True)
    seed: int = Field(default=0, ge=-_LARGEST_WHOLE_NUMBER, le=_LARGEST_WHOLE_NUMBER, strict=True)
    samples_per_coalition: int = Field(default=1, ge=1, le=1000, strict=True)
    dedup: Literal["auto", "on", "off"] = "auto"
    fresh: bool = False
    cache_tag: str = ""
    generation: GenerationConfig = GenerationConfig()
    group_size: int | None = Field(default=None, ge=1, le=256, strict=True)
    campaign: str | None = None
    name: str | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @field_validator("model", "name")
    @classmethod
    def _is_printable(cls, given: str | None) -> str | None:
        """Both stand in messages, requests and tables, where an escape sequence has no place."""
        bad = next((char for char in given or "" if unicodedata.category(char) == "Cc"), None)
        if bad is not None:
            raise ValueError(f"the control character U+{ord(bad):04X} is not allowed in it, but it is {given!r}")
        return given

    @field_validator("name")
    @classmethod
    def _is_no_reference(cls, given: str | None) -> str | None:
        if given is not None and given.startswith("@"):
            raise ValueError(f"must not begin with @, which is for references such as @last, but it is {given!r}")
        return given

    @property
    def dedup_enabled(self) -> bool:
        """Whether equal prompts share one generation."""
        return self.generation.temperature == 0 if self.dedup == "auto" else self.dedup == "on"


class Manifest(BaseModel):
    """Everything needed to run and to reproduce a run; stored as JSON in `runs.manifest`, read by every worker.

    One of another `manifest_version` does not validate: a worker hands such a run's groups back.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    manifest_version: Literal[1] = 1
    coalq_version: str
    run_id: str
    model: str
    backend_identity: str
    players: tuple[Player, ...]
    players_kind: Literal["words", "sentences", "slots"]
    template: PromptTemplate
    absence: Literal["delete"] = "delete"
    empty: Literal["ask"] = "ask"
    value: str
    value_version: int
    estimand: Literal["shapley"] = "shapley"
    estimator: Literal["exact"] = "exact"
    budget: int
    seed: int
    samples_per_coalition: int = 1
    dedup: bool
    fresh: bool = False
    cache_tag: str = ""
    generation: GenerationConfig
    group_size: int

    @property
    def n_players(self) -> int:
        """Number of players."""
        return len(self.players)

    @property
    def key_scheme(self) -> KeyScheme:
        """How coalition keys of this run are made."""
        return KeyScheme(
            backend_identity=self.backend_identity,
            generation=self.generation,
            run_id=self.run_id,
            cache_tag=self.cache_tag,
            salt=self.run_id if self.fresh else "",
            share_masks=self.dedup,
        )
