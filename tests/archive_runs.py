"""Builds runs in an archive and plays the worker on them, without broker, claims or model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlalchemy import Engine, func, select

from coalq.archive import Archive, Draft, FlushResult, GroupKey, NewRun, Publication, StartedGroup
from coalq.archive.tables import generations, records
from coalq.config import Manifest
from coalq.generation import Generation
from coalq.identity import new_id
from coalq.masks import unpack_masks
from coalq.outcome import Outcome, RunStatus
from manifests import words_manifest

MODEL = "toy"
LEASE_S = 60.0
PROMPT_TOKENS = 10


def make_manifest(n_players: int = 3, *, group_size: int = 2, samples: int = 1, identity: str = MODEL) -> Manifest:
    """The exact plan of a run of its own; runs of one `identity` share their generations."""
    manifest = words_manifest(n_players, group_size=group_size, samples=samples)
    return manifest.model_copy(update={"run_id": new_id(), "backend_identity": identity})


def make_run(manifest: Manifest, *, queue: str = "queue", priority: int = 0, name: str | None = None) -> NewRun:
    """The run of a manifest."""
    snapshot = manifest.template.grand()
    return NewRun(
        run_id=manifest.run_id,
        model=manifest.model,
        queue=queue,
        manifest=manifest.model_dump(mode="json"),
        snapshot_id=snapshot.snapshot_id,
        snapshot=[dict(message) for message in snapshot.messages],
        priority=priority,
        name=name,
    )


@dataclass
class ArchiveRun:
    """A run in an archive, and one worker process that can execute its groups."""

    archive: Archive
    manifest: Manifest
    queue: str = "queue"
    process_id: str = "process"

    @classmethod
    def create(
        cls, archive: Archive, manifest: Manifest | None = None, *, queue: str = "queue", priority: int = 0
    ) -> ArchiveRun:
        """Create the run; nothing is planned yet."""
        manifest = manifest or make_manifest()
        archive.create_run(make_run(manifest, queue=queue, priority=priority))
        return cls(archive, manifest, queue)

    @property
    def run_id(self) -> str:
        return self.manifest.run_id

    @property
    def status(self) -> RunStatus:
        return self.archive.run(self.run_id).status

    def publish(self) -> list[Publication]:
        """Plan and publish what there is room for; other runs of the queue too."""
        while self.archive.advance(self.run_id):
            pass
        return self.archive.take_publications(self.queue)

    def start(self, publication: Publication, *, process_id: str | None = None) -> StartedGroup:
        """Start a published group, which must succeed."""
        started = self.archive.start(
            publication.run_id,
            publication.group_number,
            publication.attempt,
            process_id=process_id or self.process_id,
            lease_s=LEASE_S,
        )
        assert started is not None
        return started

    def start_next(self) -> StartedGroup:
        """Plan, publish and start the next group, which must be there."""
        return self.start(self.publish()[0])

    def drafts(
        self,
        group: StartedGroup,
        *,
        outcome: Outcome = Outcome.EXECUTED,
        text: Callable[[int, int], str] = lambda mask, sample: f"{mask:b}/{sample}",
        error: str | None = None,
    ) -> list[Draft]:
        """What a worker would flush for the whole group."""
        return [
            self.draft(group, mask, sample=sample, outcome=outcome, text=text(mask, sample), error=error)
            for mask in unpack_masks(group.masks, self.manifest.n_players)
            for sample in range(self.manifest.samples_per_coalition)
        ]

    def draft(
        self,
        group: StartedGroup | Publication,
        mask: int,
        *,
        sample: int = 0,
        outcome: Outcome = Outcome.EXECUTED,
        text: str = "",
        error: str | None = None,
    ) -> Draft:
        """What a worker would flush for one coalition; its utility is the number of players present."""
        rendered = self.manifest.template.render(mask)
        failed = outcome is Outcome.FAILED
        return Draft(
            run_id=self.run_id,
            group_number=group.group_number,
            mask=mask.to_bytes(1, "little"),
            sample=sample,
            coalition_key=self.manifest.key_scheme.coalition_key(rendered, mask, sample=sample),
            model_id=MODEL,
            outcome=outcome,
            utility=None if failed else float(mask.bit_count()),
            error=error or ("refused" if failed else None),
            generation=Generation(text, prompt_tokens=PROMPT_TOKENS, cached_tokens=0, completion_tokens=2)
            if outcome is Outcome.EXECUTED
            else None,
        )

    def flush(self, drafts: Iterable[Draft], *, process_id: str | None = None) -> FlushResult:
        """Flush as this process, or as another one."""
        return self.archive.flush(drafts, process_id=process_id or self.process_id)

    def execute(self, publication: Publication) -> FlushResult:
        """Start and finish a published group."""
        return self.flush(self.drafts(self.start(publication)))

    def execute_all(self) -> None:
        """Run the run to its end."""
        while self.status is RunStatus.RUNNING:
            publications = [p for p in self.publish() if p.run_id == self.run_id]
            assert publications or self.status is not RunStatus.RUNNING
            for publication in publications:
                self.execute(publication)

    def group_key(self, number: int) -> GroupKey:
        return GroupKey(self.run_id, number)


def count_generations(engine: Engine) -> int:
    """All generation rows."""
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(generations)).scalar_one()


def count_executed(engine: Engine) -> int:
    """All executed records."""
    with engine.connect() as connection:
        executed = select(func.count()).select_from(records).where(records.c.outcome == Outcome.EXECUTED)
        return connection.execute(executed).scalar_one()
