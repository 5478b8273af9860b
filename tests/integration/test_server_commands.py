from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from coalq.local.valkey import free_port
from command import coalq, running_coalq

pytestmark = pytest.mark.timeout(120)  # several commands one after another

GAME = ("--prompt", "p0 p1 p2 p3", "--model", "additive:1,2,4,8", "--value", "number")
TOY = {"COALQ_BACKEND": "toy", "COALQ_MODELS": GAME[3]}


@pytest.fixture
def servers(redis_url: str, postgres_url: str) -> dict[str, str]:
    return {"COALQ_REDIS_URL": redis_url, "COALQ_DATABASE_URL": postgres_url}


def test_a_run_is_submitted_worked_on_and_read_back_from_anywhere(servers: dict[str, str], tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with running_coalq("worker", "--hostname", "one@%h", folder=tmp_path, settings=servers | TOY) as worker:
        submitted = coalq("submit", *GAME, "--wait", "--json", folder=tmp_path, settings=servers)
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=30)

    document = json.loads(submitted.stdout)
    results = coalq("results", document["run_id"][:6], "--json", folder=elsewhere, settings=servers)
    status = coalq("status", document["run_id"][-6:], folder=elsewhere, settings=servers)
    runs = coalq("runs", "--json", folder=elsewhere, settings=servers)

    assert worker.returncode == 0
    assert [player["value"] for player in document["players"]] == pytest.approx([1, 2, 4, 8], abs=1e-12)
    assert json.loads(results.stdout) == document
    assert "16 of 16: 16 executed" in status.stdout
    assert [run["run_id"] for run in json.loads(runs.stdout)["runs"]] == [document["run_id"]]
    assert not (elsewhere / ".coalq").exists()


def test_explain_uses_the_servers_that_are_configured(servers: dict[str, str], tmp_path: Path) -> None:
    with running_coalq("worker", folder=tmp_path, settings=servers | TOY):
        explained = coalq("explain", *GAME, folder=tmp_path, settings=servers)

    assert explained.returncode == 0, explained.stderr
    assert "+8.0000  word-3  p3" in explained.stdout
    assert not (tmp_path / ".coalq").exists()


def test_submit_writes_the_id_of_a_run_that_goes_on_without_it(servers: dict[str, str], tmp_path: Path) -> None:
    submitted = coalq("submit", *GAME, folder=tmp_path, settings=servers)

    run_id = submitted.stdout.strip()
    results = coalq("results", run_id, folder=tmp_path, settings=servers)
    status = coalq("status", run_id, folder=tmp_path, settings=servers)
    assert submitted.returncode == 0
    assert len(run_id) == 16
    assert (results.returncode, status.returncode) == (3, 0)
    assert f"run {run_id} running" in results.stdout
    assert "additive:1,2,4,8, 0 live workers" in status.stdout


def test_an_interrupted_wait_leaves_the_run_to_its_workers(servers: dict[str, str], tmp_path: Path) -> None:
    with running_coalq("submit", *GAME, "--wait", "--progress", "json", folder=tmp_path, settings=servers) as process:
        assert process.stderr is not None
        while '"progress"' not in (line := process.stderr.readline()):
            assert line, "it ended before it waited"

        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)

    (run,) = json.loads(coalq("runs", "--json", folder=tmp_path, settings=servers).stdout)["runs"]
    assert process.returncode == 130
    assert f"interrupted; run {run['run_id']} goes on with its workers: coalq results {run['run_id']}" in err
    assert run["status"] == "running"


@pytest.mark.parametrize("command", ["submit", "worker"])
def test_a_redis_that_cannot_be_reached_is_named_without_its_password(
    servers: dict[str, str], tmp_path: Path, command: str
) -> None:
    arguments = GAME if command == "submit" else ()
    nowhere = {**servers, "COALQ_REDIS_URL": f"redis://:hidden@127.0.0.1:{free_port()}/0"}

    ended = coalq(command, *arguments, folder=tmp_path, settings=nowhere)

    assert ended.returncode == 2
    assert ended.stderr.startswith("coalq: error: ")
    assert "COALQ_REDIS_URL" in ended.stderr
    assert "hidden" not in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_database_that_cannot_be_reached_is_named_without_its_password(redis_url: str, tmp_path: Path) -> None:
    nowhere = {
        "COALQ_REDIS_URL": redis_url,
        "COALQ_DATABASE_URL": f"postgresql://me:hidden@127.0.0.1:{free_port()}/coalq",
    }

    ended = coalq("submit", *GAME, folder=tmp_path, settings=nowhere)

    assert ended.returncode == 2
    assert "127.0.0.1" in ended.stderr
    assert "hidden" not in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_database_without_schema_is_upgraded_by_a_command(
    redis_url: str, empty_postgres_url: str, tmp_path: Path
) -> None:
    servers = {"COALQ_REDIS_URL": redis_url, "COALQ_DATABASE_URL": empty_postgres_url}

    refused = coalq("submit", *GAME, folder=tmp_path, settings=servers)
    before = coalq("db", "current", folder=tmp_path, settings=servers)
    upgraded = coalq("db", "upgrade", folder=tmp_path, settings=servers)
    accepted = coalq("submit", *GAME, folder=tmp_path, settings=servers)

    assert refused.returncode == 2
    assert "run `coalq db upgrade`" in refused.stderr
    assert "has schema none" in before.stdout
    assert (upgraded.returncode, accepted.returncode) == (0, 0)


def test_only_a_database_is_not_enough(postgres_url: str, tmp_path: Path) -> None:
    ended = coalq("explain", *GAME, folder=tmp_path, settings={"COALQ_DATABASE_URL": postgres_url})

    assert ended.returncode == 2
    assert "COALQ_REDIS_URL: not set" in ended.stderr


def test_an_unknown_run_is_an_error(servers: dict[str, str], tmp_path: Path) -> None:
    ended = coalq("results", "nothing", folder=tmp_path, settings=servers)

    assert ended.returncode == 2
    assert "nothing" in ended.stderr


def test_where_no_archive_was_ever_made_there_are_no_runs_and_none_is_created(tmp_path: Path) -> None:
    runs = coalq("runs", folder=tmp_path)
    document = coalq("runs", "--json", folder=tmp_path)
    looks = [coalq(command, "@last", folder=tmp_path) for command in ("status", "results")]

    assert (runs.returncode, runs.stdout, runs.stderr) == (0, "no runs yet\n", "")
    assert json.loads(document.stdout)["runs"] == []
    assert [look.returncode for look in looks] == [2, 2]
    assert all(look.stderr.startswith("coalq: error: there is no run '@last': no archive was made") for look in looks)
    assert not (tmp_path / ".coalq").exists()


@pytest.mark.parametrize("command", ["submit", "explain", "worker"])
def test_only_a_redis_is_not_enough(redis_url: str, tmp_path: Path, command: str) -> None:
    arguments = () if command == "worker" else GAME

    ended = coalq(command, *arguments, folder=tmp_path, settings={"COALQ_REDIS_URL": redis_url})

    assert ended.returncode == 2
    assert ended.stderr.startswith("coalq: error: COALQ_DATABASE_URL: not set; it names the archive that")
    assert ended.stderr.count("\n") == 1


def test_who_waits_for_a_run_is_told_its_id_at_once(servers: dict[str, str], tmp_path: Path) -> None:
    with running_coalq("submit", *GAME, "--wait", "--json", folder=tmp_path, settings=servers) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(2)]

        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)

    (run,) = json.loads(coalq("runs", "--json", folder=tmp_path, settings=servers).stdout)["runs"]
    assert lines[1] == f"coalq: run {run['run_id']}\n"
    assert out == ""
