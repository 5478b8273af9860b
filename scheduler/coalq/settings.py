"""Configuration of a process: one frozen object read from `COALQ_*` variables, checked at start.

`OPENAI_BASE_URL` and `OPENAI_API_KEY` are a fallback as a pair only, so that a key never goes to another host.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from coalq.errors import InputError, NotBuiltError

_PASSWORD_IN_QUERY = re.compile(r"([?&]password=)[^&#]*")
_NOT_BUILT = frozenset({"COALQ_CONFIG", "COALQ_LOG_FORMAT", "COALQ_METRICS_PORT"})
_GAMES = ("additive:", "pairwise:", "threshold:")


def mask_password(url: str) -> str:
    """The URL with every password in it replaced by `***`, for messages and logs."""
    parts = urlsplit(url)
    if parts.password is not None:
        host = parts.netloc.rpartition("@")[2]
        url = urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{host}"))
    return _PASSWORD_IN_QUERY.sub(r"\1***", url)


class Settings(BaseModel):
    """What this machine is connected to and how much it may do. Environment names are `COALQ_` + the field in capitals.

    Attributes:
        redis_url: Broker and claims; None means the embedded Valkey (only for `coalq explain`).
        database_url: The archive, a SQLAlchemy URL; None means SQLite under `home`.
        base_url: OpenAI-compatible endpoint, for workers.
        models: Models that a worker serves; empty means what the endpoint's `/models` lists.
        max_inflight: Generations in flight per worker process; None means the server's slots for llama.cpp, else 32.
        lease_s: How long a claim or an ownership lasts unless renewed, seconds.
        drain_s: How long a stopping worker waits for what is in flight, seconds.
        endpoint_wait_s: How long the first group of a run waits for an endpoint that never answered, seconds.
        toy_latency_ms: Latency of the toy backend's generations, milliseconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    redis_url: str | None = None
    database_url: str | None = None
    backend: Literal["openai", "toy"] = "openai"
    base_url: str | None = None
    api_key: SecretStr | None = None
    model: str | None = None
    models: tuple[str, ...] = ()
    max_inflight: int | None = Field(default=None, ge=1, le=4096)
    request_timeout_s: float = Field(default=600.0, gt=0)
    endpoint_wait_s: float = Field(default=300.0, gt=0)
    lease_s: float = Field(default=60.0, ge=1.0)
    drain_s: float = Field(default=120.0, ge=0)
    home: Path = Path(".coalq")
    local_model: Path | None = None
    local_id: str | None = None
    toy_latency_ms: float = Field(default=0.0, ge=0)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    @field_validator("models", mode="before")
    @classmethod
    def _split_models(cls, value: object) -> object:
        return split_models(value) if isinstance(value, str) else value

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read the settings from the environment.

        Raises:
            InputError: Names the variable, its value and what is allowed. A misspelt one is refused too: ignored, it
                could send a run to other servers than its user thinks.
            NotBuiltError: Names a documented variable that this version does not have.
        """
        environ = os.environ if environ is None else environ
        _refuse_unknown(environ, cls.model_fields)
        values: dict[str, Any] = {
            name: environ[f"COALQ_{name.upper()}"]
            for name in cls.model_fields
            if environ.get(f"COALQ_{name.upper()}", "") != ""
        }
        if "base_url" not in values and "api_key" not in values and environ.get("OPENAI_BASE_URL"):
            values["base_url"] = environ["OPENAI_BASE_URL"]
            if environ.get("OPENAI_API_KEY"):
                values["api_key"] = environ["OPENAI_API_KEY"]
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            name = f"COALQ_{str(first['loc'][0]).upper()}"
            shown = "***" if name == "COALQ_API_KEY" else repr(first["input"])
            raise InputError(f"{name}: {shown}: {first['msg']}") from error

    @property
    def is_embedded(self) -> bool:
        """Whether neither a Redis nor a database is configured, so that `explain` starts its own stack."""
        return self.redis_url is None and self.database_url is None

    @property
    def archive_url(self) -> str:
        """The archive's SQLAlchemy URL: `database_url`, or SQLite under `home`."""
        return self.database_url or f"sqlite:///{(self.home / 'archive.db').resolve()}"


def _refuse_unknown(environ: Mapping[str, str], fields: Iterable[str]) -> None:
    known = [f"COALQ_{name.upper()}" for name in fields]
    for name in sorted(environ):
        if not name.startswith("COALQ_") or name in known or not environ[name]:
            continue
        if name in _NOT_BUILT:
            raise NotBuiltError(f"{name}: this setting is not built yet")
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"{name}: there is no such setting{hint}")


def split_models(text: str) -> tuple[str, ...]:
    """Model names from one variable: a JSON list, or names separated by white space or commas.

    Commas inside a game of the toy backend (`additive:1,2,4,8`) do not separate: a piece that starts like a number
    belongs to the game before it.
    """
    if text.lstrip().startswith("["):
        return tuple(json.loads(text))
    names: list[str] = []
    for word in text.split():
        pieces = [piece for piece in word.split(",") if piece]
        for i, piece in enumerate(pieces):
            if i and names[-1].startswith(_GAMES) and piece[0] in "0123456789.-+":
                names[-1] += f",{piece}"
            else:
                names.append(piece)
    return tuple(names)
