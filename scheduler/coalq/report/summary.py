"""Everything a report shows of one run, read from the archive in one place."""

from __future__ import annotations

from dataclasses import dataclass

from coalq.archive import Archive, RunProgress
from coalq.attribution import Attribution, Losses
from coalq.config import Manifest
from coalq.errors import RunFailedError
from coalq.generation import Generation
from coalq.outcome import RunStatus
from coalq.run import Run


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run at one moment.

    Attributes:
        answer: The base generation, once there is one.
        attribution: None until the run is complete, and where it has none.
        why_none: Why there is no attribution, if the run has ended.
        losses: What an incomplete run lacks.
    """

    run_id: str
    name: str | None
    campaign: str | None
    item_id: str | None
    progress: RunProgress
    manifest: Manifest
    answer: Generation | None
    attribution: Attribution | None
    why_none: str | None = None
    losses: Losses | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for the reader, the most important first."""
        warnings = list(self.attribution.warnings) if self.attribution is not None else []
        if self.answer is not None and self.answer.finish_reason == "length":
            limit = self.manifest.generation.max_tokens
            warnings.append(f"the base answer was cut off at {limit} tokens and measures little; raise --max-tokens")
        return tuple(warnings)

    @property
    def has_signal(self) -> bool:
        """Whether the values tell players apart."""
        return self.attribution is not None and not any(
            warning.startswith("no signal") for warning in self.attribution.warnings
        )


def read_summary(archive: Archive, run_id: str) -> RunSummary:
    """Read a run, finished or not; computes its attribution if it is complete."""
    run = Run(archive, run_id)
    row, progress = run.row(), run.progress()
    attribution, why_none, losses = None, None, run.losses()
    if progress.status is RunStatus.COMPLETE:
        try:
            attribution = run.attribution()
        except RunFailedError as error:
            why_none = str(error).removeprefix("no attribution: ")
    elif progress.status is not RunStatus.RUNNING:
        why_none = progress.reason or (str(losses) if losses else f"the run is {progress.status}")
    return RunSummary(
        run_id=run_id,
        name=row.name,
        campaign=row.campaign,
        item_id=row.item_id,
        progress=progress,
        manifest=run.manifest(),
        answer=archive.base_generation(run_id),
        attribution=attribution,
        why_none=why_none,
        losses=losses,
    )
