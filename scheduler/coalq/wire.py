"""What travels through the broker: the task's name, queue names and the message of one group.

The message's version stands in the queue's name, so a worker of another version never sees it.
Prompts, masks, answers and secrets never travel here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

TASK_NAME = "coalq.evaluate_group"
MESSAGE_VERSION = 1

_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]{1,80}")


@dataclass(frozen=True, slots=True)
class GroupMessage:
    """One published group: a hint to a worker that archive row (run, group) may be started at this attempt."""

    archive_id: str
    run_id: str
    group_number: int
    attempt: int

    def encode(self) -> dict[str, str | int]:
        """The task's keyword arguments, JSON only."""
        return {
            "v": MESSAGE_VERSION,
            "archive": self.archive_id,
            "run": self.run_id,
            "group": self.group_number,
            "attempt": self.attempt,
        }

    @classmethod
    def decode(cls, fields: Mapping[str, object]) -> GroupMessage:
        """Read a message.

        Raises:
            ValueError: If it is of another version, a field is missing or of the wrong type.
        """
        version = fields.get("v")
        if version != MESSAGE_VERSION:
            raise ValueError(f"message version {version!r} is not {MESSAGE_VERSION}")
        archive_id, run_id = fields.get("archive"), fields.get("run")
        group_number, attempt = fields.get("group"), fields.get("attempt")
        if not (isinstance(archive_id, str) and isinstance(run_id, str)):
            raise ValueError("archive and run must be text")
        if not (isinstance(group_number, int) and isinstance(attempt, int)):
            raise ValueError("group and attempt must be whole numbers")
        return cls(archive_id, run_id, group_number, attempt)

    @property
    def task_id(self) -> str:
        """Derived from run, group and attempt, so that Flower shows one line for one delivery."""
        return f"{self.run_id}-{self.group_number}-{self.attempt}"


def describe_group(message: GroupMessage, *, n_groups: int | None, coalitions: int, prefix_hash: str) -> str:
    """The line Flower shows as the task's arguments; e.g. `run=3f2a9c1e group=17/64 coalitions=64 prefix=9c0d41aa`."""
    of = f"/{n_groups}" if n_groups is not None else ""
    return f"run={message.run_id[:8]} group={message.group_number}{of} coalitions={coalitions} prefix={prefix_hash[:8]}"


def queue_name(archive_id: str, model: str, *, local_id: str | None = None) -> str:
    """The queue of one model in one archive; an embedded run has its own (`local_id`).

    Names that a broker could mangle are replaced by a readable stem and a hash.
    """
    if _PLAIN_NAME.fullmatch(model):
        name = model
    else:
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", model)[:40].strip("-")
        name = f"{stem}-{hashlib.blake2b(model.encode(), digest_size=4).hexdigest()}"
    middle = f"{archive_id}.{local_id}" if local_id else archive_id
    return f"coalq{MESSAGE_VERSION}.{middle}.{name}"
