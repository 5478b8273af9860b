"""What the scheduler is given (`CoalitionJob`), and what it leaves behind (`CoalitionRecord`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coalq.conversation import ConversationSnapshot
from coalq.errors import CoalqError
from coalq.generation import Generation
from coalq.masks import PackedMask
from coalq.outcome import Outcome

Utility = Callable[[Generation], float]
"""A value function with its base generation already bound."""


def describe_error(error: BaseException) -> str:
    """What a record says about a failure: our own errors speak for themselves, others need their type."""
    return str(error) if isinstance(error, CoalqError) else f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class CoalitionJob:
    """One coalition to be evaluated.

    Attributes:
        coalition_key: Identity of the generation; jobs with equal keys may share one.
        snapshot_id: Content hash of the conversation under explanation.
        snapshot: The rendered conversation, sent to the model as it is.
        absence_policy: How absent players were rendered.
        mask_words: Packed mask, little-endian bits.
        mask_n_bits: Number of players.
        model_id: Model that generates.
        utility: Turns the generation into its utility; None leaves that to the archive.
        prefix_hash: Hash of the prompt prefix that the job shares with its group.
        sample: Which of the coalition's generations this is, from 0.
    """

    coalition_key: str
    snapshot_id: str
    snapshot: ConversationSnapshot
    absence_policy: str
    mask_words: bytes
    mask_n_bits: int
    model_id: str
    utility: Utility | None
    prefix_hash: str = ""
    sample: int = 0

    @property
    def mask(self) -> PackedMask:
        """The coalition."""
        return PackedMask(self.mask_words, self.mask_n_bits)


@dataclass(frozen=True, slots=True)
class CoalitionRecordDraft:
    """How a job went in this process; the archive makes the record of it.

    Attributes:
        generation: None exactly when the outcome is `failed`.
        error: Why it failed; None otherwise.
    """

    job: CoalitionJob
    outcome: Outcome
    generation: Generation | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CoalitionRecord:
    """The record of one job as it was stored, which may differ from its draft.

    Somebody else may have stored another generation of the same key first (that one and its utility are here then), and
    a value that cannot be computed turns the outcome into `failed`.

    Attributes:
        generation: The stored generation; None exactly when the outcome is `failed`.
        utility: None when the job failed or nobody computed it.
        error: Why it failed; None otherwise.
    """

    coalition_key: str
    snapshot_id: str
    mask: PackedMask
    sample: int
    absence_policy: str
    model_id: str
    outcome: Outcome
    generation: Generation | None = None
    utility: float | None = None
    error: str | None = None

    @classmethod
    def of(
        cls,
        job: CoalitionJob,
        outcome: Outcome,
        *,
        generation: Generation | None = None,
        utility: float | None = None,
        error: str | None = None,
    ) -> CoalitionRecord:
        """The record of `job`; it does not keep the rendered conversation."""
        return cls(
            coalition_key=job.coalition_key,
            snapshot_id=job.snapshot_id,
            mask=job.mask,
            sample=job.sample,
            absence_policy=job.absence_policy,
            model_id=job.model_id,
            outcome=outcome,
            generation=generation,
            utility=utility,
            error=error,
        )

    @property
    def generation_text(self) -> str:
        """The text that was scored; empty when the job failed."""
        return self.generation.text if self.generation else ""

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds the generation took, whoever made it; 0 when the job failed."""
        return self.generation.elapsed_ms if self.generation else 0.0

    @property
    def cache_hit(self) -> bool:
        """Whether the generation was there before the job."""
        return self.outcome is Outcome.CACHE_HIT
