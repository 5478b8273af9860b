"""Every error coalq raises, in one tree whose branches are the retry policy.

CoalqError
├── InputError          the user's input is wrong: one clear line, exit code 2, nothing enqueued
│   └── NotBuiltError   a documented parameter this version does not have yet; never ignored
├── ServerError         a server the user configured cannot be used (unreachable, wrong kind, old schema): exit code 2
├── PermanentError      this generation will never succeed: it becomes a `failed` record with this message
├── TransientError      try again later; retried where it happens
├── BaseUnknownError    a utility was asked before the base generation it is measured against is there: score later
├── HandBack            nothing is recorded: the group goes back to the queue and runs again elsewhere or later
│   └── LeaseLost       this group is halted (lease lost, run paused, process stopping); other groups go on
└── RunFailedError      a run ended without an attribution: exit code 3
"""

from __future__ import annotations


class CoalqError(Exception):
    """Base of all errors of this package. Holds one message; pickles by position."""


class InputError(CoalqError):
    """The input is wrong. Names the field, its value and what is allowed."""


class NotBuiltError(InputError):
    """A documented parameter that this version does not have yet."""


class ServerError(CoalqError):
    """A configured server (Redis, database) is unreachable or unusable. Never shows a password."""


class PermanentError(CoalqError):
    """The endpoint rejects this generation for good (HTTP 400, content filter)."""


class TransientError(CoalqError):
    """A fault that may pass (HTTP 429 or 5xx, timeout, cut connection, unreadable body).

    Args:
        message: What happened, with the endpoint's own words.
        retry_after_s: Seconds the endpoint asked to wait, if it did.
        may_be_prompt: Whether the fault may be this very prompt's (HTTP 500, no answer in time, an unreadable one).
    """

    def __init__(
        self,
        message: str,
        retry_after_s: float | None = None,
        may_be_prompt: bool = False,  # noqa: FBT001, FBT002 - positional, so that it pickles
    ) -> None:
        super().__init__(message, retry_after_s, may_be_prompt)
        self.retry_after_s = retry_after_s
        self.may_be_prompt = may_be_prompt

    def __str__(self) -> str:
        return str(self.args[0])


class BaseUnknownError(CoalqError):
    """The utility cannot be computed yet: the grand coalition has not been generated."""


class HandBack(CoalqError):  # noqa: N818 - an instruction to the loop, not a fault
    """The job was not started or not finished here and must not be recorded; its group is handed back."""


class LeaseLost(HandBack):
    """The job's group is no longer this process's to run; equal jobs of other groups go on."""


class RunFailedError(CoalqError):
    """A run ended without what was asked of it (no attribution, base generation failed)."""
