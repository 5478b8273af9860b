from __future__ import annotations

import pytest
from sqlalchemy import Engine, text, update

from archive_runs import ArchiveRun, make_manifest, make_run
from coalq.archive import Archive, WorkerRow
from coalq.archive.clock import now
from coalq.archive.tables import workers
from coalq.errors import InputError
from coalq.masks import pack_mask
from coalq.outcome import Outcome, RunStatus


def test_an_archive_has_an_id_of_its_own(archive: Archive, engine: Engine) -> None:
    assert len(archive.archive_id) == 16
    assert Archive(engine).archive_id == archive.archive_id


def test_the_progress_of_a_run_without_groups_is_nothing(archive: Archive) -> None:
    run = ArchiveRun.create(archive)

    progress = archive.progress(run.run_id)

    assert (progress.status, progress.total, progress.done) == (RunStatus.RUNNING, None, 0)
    assert (progress.groups_waiting, progress.groups_executing, progress.groups_finished) == (0, 0, 0)
    assert progress.prompt_tokens is None


def test_progress_counts_finished_and_open_groups_alike(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(3, group_size=4))
    run.execute(run.publish()[0])
    first, _ = run.publish()
    started = run.start(first)
    executed, failed, _ = run.drafts(started)
    run.flush([executed, run.draft(started, failed.mask[0], outcome=Outcome.FAILED)])

    progress = archive.progress(run.run_id)

    assert (progress.total, progress.done, progress.executed, progress.failed) == (8, 4, 3, 1)
    assert (progress.groups_waiting, progress.groups_executing, progress.groups_finished) == (1, 1, 1)
    assert (progress.prompt_tokens, progress.completion_tokens, progress.reasoning_tokens) == (30, 6, None)
    assert progress.cached_tokens == 0


def test_progress_is_the_same_once_all_groups_are_finished(archive: Archive) -> None:
    run = ArchiveRun.create(archive)

    run.execute_all()

    progress = archive.progress(run.run_id)
    assert (progress.status, progress.total, progress.done, progress.executed) == (RunStatus.COMPLETE, 8, 8, 8)
    assert (progress.prompt_tokens, progress.kv_cache_hits) == (80, 0)
    assert progress.groups_waiting == progress.groups_executing == 0


def test_total_counts_every_sample(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(2, samples=3))

    run.execute_all()

    progress = archive.progress(run.run_id)
    assert progress.total == progress.done == 12


def test_utilities_come_in_mask_order_and_sample_order(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(4, samples=2))

    run.execute_all()

    found = [(r.mask, r.sample) for r in archive.utility_records(run.run_id)]
    assert found == [(mask, sample) for mask in range(16) for sample in range(2)]


def test_there_is_no_base_generation_before_it_or_when_it_failed(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    before = archive.base_generation(run.run_id)
    base = run.start_next()

    run.flush([run.draft(base, 7, outcome=Outcome.FAILED)])

    assert (before, archive.base_generation(run.run_id), archive.base_generation("nobody")) == (None, None, None)


def test_many_generations_are_read_at_once(archive: Archive) -> None:
    run = ArchiveRun.create(archive, make_manifest(6, group_size=64))
    run.execute_all()
    scheme, template = run.manifest.key_scheme, run.manifest.template
    keys = {mask: scheme.coalition_key(template.render(mask), mask) for mask in range(64)}

    found = archive.generations([*keys.values(), *(f"unknown {i}" for i in range(600))])

    assert {key: generation.text for key, generation in found.items()} == {
        key: f"{mask:b}/0" for mask, key in keys.items()
    }


def test_a_run_is_found_by_id_prefix_suffix_name_or_last(archive: Archive) -> None:
    manifest = make_manifest(2)
    archive.create_run(make_run(manifest, name="refund"))
    other = ArchiveRun.create(archive)
    run_id = manifest.run_id

    found = [archive.find_run(reference).run_id for reference in (run_id, run_id[:12], run_id[4:], "refund")]

    assert found == [run_id] * 4
    assert archive.find_run("@last").run_id == other.run_id


def test_a_reference_that_means_no_run_or_several_is_refused(archive: Archive) -> None:
    for _ in range(2):
        archive.create_run(make_run(make_manifest(2), name="twice"))

    with pytest.raises(InputError, match="'twice' means 2 runs"):
        archive.find_run("twice")
    for reference in ("nobody", "%", "_", ""):
        with pytest.raises(InputError):
            archive.find_run(reference)
    for look in (archive.run, archive.manifest, archive.progress):
        with pytest.raises(InputError, match="no run 'nobody'"):
            look("nobody")


def test_the_last_of_no_runs_is_refused(archive: Archive) -> None:
    with pytest.raises(InputError, match="no run yet"):
        archive.find_run("@last")


def test_runs_are_listed_newest_first(archive: Archive) -> None:
    created = [ArchiveRun.create(archive).run_id for _ in range(3)]

    assert [row.run_id for row in archive.list_runs(2)] == created[:0:-1]


def test_the_view_shows_one_flat_row_per_coalition(archive: Archive, engine: Engine) -> None:
    run = ArchiveRun.create(archive)
    base = run.start_next()
    run.flush([run.draft(base, 7, text="42"), run.draft(base, 0, outcome=Outcome.FAILED)])

    with engine.connect() as connection:
        rows = connection.execute(text("SELECT * FROM coalition_records ORDER BY mask_words")).mappings().all()

    failed, grand = rows
    assert (bytes(grand["mask_words"]), grand["mask_n_bits"]) == (pack_mask(7, 3), 3)
    assert (grand["generation"], grand["utility"], bool(grand["cache_hit"])) == ("42", 3.0, False)
    assert (grand["absence_policy"], grand["model_id"]) == ("delete", "toy")
    assert grand["snapshot_id"] == run.manifest.template.grand().snapshot_id
    assert (failed["generation"], failed["elapsed_ms"], failed["error"]) == (None, None, "refused")


def worker(process_id: str, *models: str) -> WorkerRow:
    return WorkerRow(process_id=process_id, host="head", version="1", models=models)


def test_a_worker_is_found_by_the_models_it_serves(archive: Archive) -> None:
    archive.heartbeat(worker("a", "small", "large"))
    archive.heartbeat(worker("b", "large"))

    found = {model: [w.process_id for w in archive.live_workers(model)] for model in ("small", "large", "none")}

    assert found == {"small": ["a"], "large": ["a", "b"], "none": []}
    assert [w.process_id for w in archive.live_workers()] == ["a", "b"]


def test_a_heartbeat_replaces_what_the_worker_said_before(archive: Archive) -> None:
    archive.heartbeat(worker("a", "small"))
    latest = WorkerRow(
        process_id="a",
        host="head",
        version="2",
        endpoint="http://head:8000",
        models=("large",),
        identity={"large": "large@sha256:00"},
        profile={"slots": 4},
        in_flight=3,
        limit=4,
        last_error="503\x00",
    )

    archive.heartbeat(latest)

    (found,) = archive.live_workers()
    assert (found.models, found.identity, found.profile) == (("large",), {"large": "large@sha256:00"}, {"slots": 4})
    assert (found.in_flight, found.limit, found.last_error) == (3, 4, "503\ufffd")
    assert found.heartbeat_at > 1.7e9


def test_a_silent_or_forgotten_worker_is_not_live(archive: Archive, engine: Engine) -> None:
    for process_id in ("silent", "forgotten", "live"):
        archive.heartbeat(worker(process_id, "small"))
    with engine.begin() as connection:
        silent = update(workers).where(workers.c.process_id == "silent")
        connection.execute(silent.values(heartbeat_at=now() - 1000))

    archive.forget_worker("forgotten")

    assert [w.process_id for w in archive.live_workers("small")] == ["live"]


def test_a_worker_silent_for_days_is_forgotten_by_the_next_heartbeat(archive: Archive, engine: Engine) -> None:
    archive.heartbeat(worker("gone", "small"))
    with engine.begin() as connection:
        connection.execute(update(workers).values(heartbeat_at=now() - 2 * 24 * 3600))

    archive.heartbeat(worker("live", "small"))

    assert [w.process_id for w in archive.live_workers(within_s=1e9)] == ["live"]
