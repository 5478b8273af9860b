"""What the scheduler needs from others: a registry of claims, an archive, a hot store, the model.

In memory for one process in `coalq.inference.memory`; across processes Redis (`coalq.claims`) and SQL stand behind the
same protocols.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from coalq.claim import Claim
from coalq.conversation import ConversationSnapshot
from coalq.generation import Generation
from coalq.inference.jobs import CoalitionRecord, CoalitionRecordDraft

GenerateFn = Callable[[ConversationSnapshot], Awaitable[str | Generation]]
"""Asks the model once. Raises `PermanentError` if it never will answer, `HandBack` if nothing shall be recorded."""


class DedupRegistry(Protocol):
    """Who may generate a coalition key."""

    async def claim(self, coalition_key: str) -> Claim:
        """Try once to claim a key; asked only when a place in flight is free for it.

        A call that is cancelled must leave no claim behind.

        Raises:
            HandBack: Nobody can say, and this process is stopping.
        """
        ...

    def release(self, coalition_key: str, generation: Generation | None = None) -> None:
        """Give up a claim that was won. Never waits and never raises: it also runs while a job is being cancelled.

        Args:
            coalition_key: The key that was won.
            generation: What was committed under the key, or None if nothing was.
        """
        ...


class RecordArchive(Protocol):
    """Where records go."""

    async def append(self, draft: CoalitionRecordDraft) -> CoalitionRecord:
        """Compute the utility and commit the record; returns what is really stored, after the commit.

        Raises:
            HandBack: Nothing was or will be recorded for this job.
        """
        ...


class ResultStore(Protocol):
    """Recent generations in front of the archive."""

    def get(self, coalition_key: str) -> Generation | None:
        """The generation of a key, or None if it is not here."""
        ...

    def put(self, coalition_key: str, generation: Generation) -> None:
        """Keep a committed generation."""
        ...
