"""Jobs of one process with equal keys: one of them leads, the others share how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from coalq.generation import Generation


@dataclass(frozen=True, slots=True)
class Committed:
    """The generation is in the archive."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class Rejected:
    """It failed and would fail again.

    Attributes:
        only_call: The call for which that holds; None for all. Another call may have another value function.
    """

    error: str
    only_call: int | None = None


@dataclass(frozen=True, slots=True)
class HeldElsewhere:
    """Another process generates the key."""


@dataclass(frozen=True, slots=True)
class GivenBack:
    """Nothing can be generated here now, whoever asks."""


@dataclass(frozen=True, slots=True)
class Vacant:
    """It ended without a result that others could share; one of them leads next."""


LeadEnd = Committed | Rejected | HeldElsewhere | GivenBack | Vacant


class Lead:
    """The job of this process that claims and generates one key, for those that wait for it."""

    __slots__ = ("end",)

    def __init__(self) -> None:
        self.end: asyncio.Future[LeadEnd] = asyncio.get_running_loop().create_future()
