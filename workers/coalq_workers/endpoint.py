"""Which endpoint this worker asks, which models it serves and how many generations it keeps in flight."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from coalq.errors import InputError, PermanentError, ServerError, TransientError
from coalq.settings import Settings
from coalq.toy import parse_toy
from coalq_workers.backends import Backend, ChatBackend, ToyBackend

logger = logging.getLogger(__name__)

DEFAULT_MAX_INFLIGHT = 32
_ASK_AGAIN_S = 2.0


@dataclass(frozen=True, slots=True)
class ServedEndpoint:
    """What this process serves.

    Attributes:
        endpoint: For people; without credentials.
        models: At least one.
        max_inflight: Generations in flight at most.
    """

    endpoint: str
    models: tuple[str, ...]
    max_inflight: int


def open_backend(settings: Settings) -> Backend:
    """The backend that the settings name; called inside the event loop that will use it.

    Raises:
        InputError: If a setting it needs is missing; names the variable.
    """
    if settings.backend == "toy":
        if not settings.models:
            raise InputError('COALQ_MODELS: the toy backend needs the games it serves, e.g. "additive:1,2,4,8"')
        for model in settings.models:
            parse_toy(model)
        return ToyBackend(latency_ms=settings.toy_latency_ms)
    if settings.base_url is None:
        raise InputError(
            "COALQ_BASE_URL: not set; it names the OpenAI-compatible endpoint this worker asks, "
            "e.g. http://127.0.0.1:8000/v1"
        )
    api_key = settings.api_key.get_secret_value() if settings.api_key else None
    return ChatBackend(settings.base_url, api_key=api_key, timeout_s=settings.request_timeout_s)


async def wait_for_endpoint(backend: Backend, settings: Settings) -> ServedEndpoint:
    """Find out what is served; an endpoint that is still loading is waited for if its models are not configured.

    Raises:
        ServerError: If the endpoint does not list its models in time, or lists none.
    """
    models = settings.models or await _list_models(backend, settings.endpoint_wait_s)
    max_inflight = settings.max_inflight or await backend.capacity() or DEFAULT_MAX_INFLIGHT
    return ServedEndpoint(endpoint=backend.endpoint, models=models, max_inflight=max_inflight)


async def _list_models(backend: Backend, wait_s: float) -> tuple[str, ...]:
    deadline = asyncio.get_running_loop().time() + wait_s
    while True:
        try:
            models = await backend.models()
        except (TransientError, PermanentError) as error:
            if asyncio.get_running_loop().time() >= deadline:
                raise ServerError(f"the endpoint does not list its models: {error}; COALQ_MODELS names them") from error
            logger.warning("waiting for the endpoint: %s", error)
            await asyncio.sleep(_ASK_AGAIN_S)
            continue
        if not models:
            raise ServerError(f"{backend.endpoint} lists no model; COALQ_MODELS names those to serve")
        return models
