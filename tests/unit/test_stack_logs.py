from __future__ import annotations

import os
from pathlib import Path

from coalq.local import Failed, make_log_dir


def test_old_logs_go_but_those_of_the_ten_newest_stacks(tmp_path: Path) -> None:
    for age in range(12):
        folder = make_log_dir(tmp_path, f"stack-{age}")
        (folder / "worker.log").write_text("said\n")
        os.utime(folder, (1_000_000 - age, 1_000_000 - age))

    newest = make_log_dir(tmp_path, "newest")

    kept = {path.name for path in (tmp_path / "logs").iterdir()}
    assert newest.is_absolute()
    assert kept == {"newest", *(f"stack-{age}" for age in range(9))}


def test_logs_of_the_last_days_stay_however_many_they_are(tmp_path: Path) -> None:
    for number in range(15):
        make_log_dir(tmp_path, f"stack-{number}")

    assert len(list((tmp_path / "logs").iterdir())) == 15


def test_a_failure_is_told_with_the_end_of_the_log() -> None:
    failure = Failed(what="worker", reason="ended with exit code 2", log_tail="starting\ncoalq: error: no broker")

    told = str(failure)

    assert told == (
        "the embedded worker ended with exit code 2; the end of its log:\n  | starting\n  | coalq: error: no broker"
    )


def test_a_failure_without_a_log_is_one_line() -> None:
    assert str(Failed(what="valkey", reason="was killed by signal 9", log_tail="")) == (
        "the embedded valkey was killed by signal 9"
    )


def test_a_worker_that_refused_to_start_says_why_itself() -> None:
    log = "starting\ncoalq: error: COALQ_MODELS: empty\n"

    refused = Failed(what="worker", reason="ended with exit code 2", log_tail=log, exit_code=2)
    died = Failed(what="worker", reason="ended with exit code 1", log_tail=log, exit_code=1)

    assert refused.refusal == "COALQ_MODELS: empty"
    assert died.refusal is None
