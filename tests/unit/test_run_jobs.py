"""Jobs of a run's coalitions."""

from __future__ import annotations

from collections.abc import Iterator

from coalq.generation import Generation
from coalq.inference import CoalitionJob
from coalq.run_jobs import RunContext, Sampled, make_jobs
from manifests import words_manifest

CONTEXT = RunContext.of(words_manifest(3, samples=2)).with_base(Generation("7"))


def test_the_samples_of_a_coalition_share_its_rendered_conversation_and_have_keys_of_their_own() -> None:
    pairs = [(mask, sample) for mask in (0b111, 0b101, 0) for sample in range(2)]

    jobs = list(make_jobs(CONTEXT, pairs, make=CoalitionJob))

    assert [(job.mask.words[0], job.sample) for job in jobs] == pairs
    assert len({id(job.snapshot) for job in jobs}) == 3
    assert len({job.coalition_key for job in jobs}) == 6
    keys, render = CONTEXT.manifest.key_scheme, CONTEXT.manifest.template.render
    assert [job.coalition_key for job in jobs] == [
        keys.coalition_key(render(mask), mask, sample=sample) for mask, sample in pairs
    ]


def test_a_coalition_is_rendered_when_its_jobs_are_asked_for() -> None:
    asked: list[Sampled] = []

    def pairs() -> Iterator[Sampled]:
        for mask in range(8):
            asked.append((mask, 0))
            yield mask, 0

    first = next(make_jobs(CONTEXT, pairs(), make=CoalitionJob))

    assert first.mask.words == b"\x00"
    assert len(asked) <= 2


def test_only_the_first_sample_of_the_grand_coalition_is_its_own_reference() -> None:
    context = RunContext.of(words_manifest(3, samples=2, value="exact")).with_base(Generation("7"))

    base, other = make_jobs(context, [(0b111, 0), (0b111, 1)], make=CoalitionJob)

    assert base.utility is not None
    assert other.utility is not None
    assert (base.utility(Generation("8")), other.utility(Generation("8"))) == (1.0, 0.0)
