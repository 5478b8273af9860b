from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from command import coalq, processes_in, running_coalq
from waiting import wait_until

pytestmark = pytest.mark.timeout(150)  # several whole stacks one after another

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of a stack in /proc")

GAME = ("--prompt", "p0 p1 p2 p3", "--model", "additive:1,2,4,8", "--value", "number")
RECORDS = "SELECT count(*) FROM records"
TOY = {"COALQ_BACKEND": "toy"}
SLOW = {**TOY, "COALQ_TOY_LATENCY_MS": "400", "COALQ_MAX_INFLIGHT": "1"}


def counted(folder: Path, query: str) -> int:
    """The number that a query of the folder's archive gives; 0 while there is none."""
    try:
        with closing(sqlite3.connect(f"file:{folder / '.coalq' / 'archive.db'}?mode=ro", uri=True)) as archive:
            return archive.execute(query).fetchone()[0] or 0
    except sqlite3.OperationalError:
        return 0


def wait_for(process: subprocess.Popen[str], folder: Path, query: str, *, at_least: int) -> None:
    """Wait until the archive of a command that still runs has come so far."""
    wait_until(lambda: process.poll() is not None or counted(folder, query) >= at_least, f"{query}: {at_least}")
    assert process.poll() is None, process.communicate()


def test_a_game_is_explained_with_everything_started_and_stopped(tmp_path: Path) -> None:
    ended = coalq("explain", *GAME, "--json", folder=tmp_path, settings=TOY)

    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert [player["value"] for player in document["players"]] == pytest.approx([1, 2, 4, 8], abs=1e-12)
    assert document["status"] == "complete"
    assert document["answer"] == "15"
    assert document["counters"]["executed"] == 16
    assert "4 words, 16 coalitions (exact)" in ended.stderr
    assert not processes_in(tmp_path)


def test_the_same_command_again_calls_no_model_and_gives_the_same_values(tmp_path: Path) -> None:
    first, second = (
        json.loads(coalq("explain", *GAME, "--json", folder=tmp_path, settings=TOY).stdout) for _ in range(2)
    )

    assert second["counters"] == {**first["counters"], "executed": 0, "cache_hits": 16}
    assert second["players"] == first["players"]
    assert second["run_id"] != first["run_id"]


def test_runs_of_an_embedded_stack_are_read_back_later(tmp_path: Path) -> None:
    explained = coalq("explain", *GAME, "--name", "game", folder=tmp_path, settings=TOY)

    results = coalq("results", "game", folder=tmp_path)
    status = coalq("status", "@last", "--json", folder=tmp_path)
    runs = coalq("runs", folder=tmp_path)

    assert results.returncode == status.returncode == runs.returncode == 0
    assert results.stdout == explained.stdout
    assert json.loads(status.stdout)["done"] == 16
    assert "additive:1,2,4,8" in runs.stdout


def test_two_commands_in_one_folder_do_not_meet(tmp_path: Path) -> None:
    games = (GAME, (*GAME[:2], "--model", "additive:8,4,2,1", *GAME[4:]))
    with ExitStack() as running:
        processes = [
            running.enter_context(running_coalq("explain", *game, "--json", "-q", folder=tmp_path, settings=TOY))
            for game in games
        ]
        documents = [json.loads(process.communicate(timeout=50)[0]) for process in processes]

    values = [[round(player["value"]) for player in document["players"]] for document in documents]
    assert values == [[1, 2, 4, 8], [8, 4, 2, 1]]
    assert [document["counters"]["executed"] for document in documents] == [16, 16]


@needs_proc
def test_an_interrupt_stops_everything_and_the_same_command_reuses_what_is_finished(tmp_path: Path) -> None:
    with running_coalq("explain", *GAME, "-q", folder=tmp_path, settings=SLOW) as process:
        wait_for(process, tmp_path, RECORDS, at_least=3)

        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert out == ""
    assert err.count("\n") == 1
    assert "stays in the archive, and the same command reuses what is finished" in err
    assert not processes_in(tmp_path)
    status = json.loads(coalq("status", "@last", "--json", folder=tmp_path).stdout)
    assert (status["status"], status["reason"]) == ("paused", "interrupted")

    again = json.loads(coalq("explain", *GAME, "--json", folder=tmp_path, settings=TOY).stdout)

    assert again["status"] == "complete"
    assert again["counters"]["cache_hits"] >= 3


@needs_proc
def test_a_second_interrupt_waits_for_nobody_and_leaves_nothing(tmp_path: Path) -> None:
    # The lease sets how often the worker tells what it has in flight.
    endless = {**SLOW, "COALQ_TOY_LATENCY_MS": "3600000", "COALQ_DRAIN_S": "3600", "COALQ_LEASE_S": "2"}
    with running_coalq("explain", *GAME, folder=tmp_path, settings=endless) as process:
        wait_for(process, tmp_path, "SELECT max(in_flight) FROM workers", at_least=1)
        log = next(tmp_path.glob(".coalq/logs/*/worker.log"))
        process.send_signal(signal.SIGINT)
        wait_until(lambda: "Warm shutdown" in log.read_text(), "the worker is asked to stop")
        assert process.poll() is None

        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)

    assert process.returncode == 130
    wait_until(lambda: not processes_in(tmp_path), "nothing runs")


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_nothing_is_left_when_the_command_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    with running_coalq("explain", *GAME, folder=tmp_path, settings=SLOW) as process:
        wait_for(process, tmp_path, RECORDS, at_least=1)
        assert len(processes_in(tmp_path)) == 3

        process.send_signal(number)

        wait_until(lambda: not processes_in(tmp_path), f"nothing runs after {number.name}")


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_asked_to_end_pauses_its_run_at_once(tmp_path: Path, number: signal.Signals) -> None:
    with running_coalq("explain", *GAME, "-q", folder=tmp_path, settings=SLOW) as process:
        wait_for(process, tmp_path, RECORDS, at_least=1)

        process.send_signal(number)
        process.communicate(timeout=30)

    assert process.returncode == 130
    status = json.loads(coalq("status", "@last", "--json", folder=tmp_path).stdout)
    assert (status["status"], status["reason"]) == ("paused", f"ended by {number.name}")


@needs_proc
def test_the_run_of_a_killed_command_is_paused_by_the_next_one_and_one_that_lives_is_left_alone(
    tmp_path: Path,
) -> None:
    with running_coalq("explain", *GAME, "--name", "killed", folder=tmp_path, settings=SLOW) as process:
        wait_for(process, tmp_path, RECORDS, at_least=1)
        process.kill()
        process.wait()
    slower = {**SLOW, "COALQ_TOY_LATENCY_MS": "3600000", "COALQ_DRAIN_S": "0"}
    alive = ("--prompt", "p0 p1", "--model", "additive:1,2", "--name", "alive")
    with running_coalq("explain", *alive, folder=tmp_path, settings=slower) as process:
        wait_for(process, tmp_path, "SELECT count(*) FROM runs WHERE name = 'alive'", at_least=1)

        after = coalq("explain", *GAME, folder=tmp_path, settings=TOY)
        killed, living = (
            json.loads(coalq("status", name, "--json", folder=tmp_path).stdout) for name in ("killed", "alive")
        )

    assert after.returncode == 0
    assert (killed["status"], killed["reason"]) == ("paused", "its process ended")
    assert living["status"] == "running"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="/proc is a folder in which nobody can make one")
@pytest.mark.parametrize("home", ["/proc/x", "occupied"])
def test_a_home_that_cannot_be_used_is_named(tmp_path: Path, home: str) -> None:
    (tmp_path / "occupied").touch()

    ended = coalq("explain", *GAME, "-q", folder=tmp_path, settings={**TOY, "COALQ_HOME": home})

    assert ended.returncode == 2
    assert ended.stderr.startswith(f"coalq: error: COALQ_HOME: '{home}' cannot be used: ")
    assert ended.stderr.count("\n") == 1


@needs_proc
def test_nothing_is_left_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    with running_coalq("explain", *GAME, folder=tmp_path, settings=SLOW) as process:
        wait_for(process, tmp_path, RECORDS, at_least=1)

        os.kill(processes_in(tmp_path, program="supervisor")[0], signal.SIGKILL)
        process.communicate(timeout=30)

    assert process.returncode == 3
    assert not processes_in(tmp_path)


@needs_proc
def test_a_worker_that_dies_ends_the_command_with_the_end_of_its_log(tmp_path: Path) -> None:
    with running_coalq("explain", *GAME, folder=tmp_path, settings=SLOW) as process:
        wait_for(process, tmp_path, RECORDS, at_least=1)

        os.kill(processes_in(tmp_path, program="celery")[0], signal.SIGKILL)
        _, err = process.communicate(timeout=30)

    assert process.returncode == 3
    assert "coalq: error: the embedded worker was killed by signal 9; the end of its log:\n  | " in err
    assert not processes_in(tmp_path)
    status = json.loads(coalq("status", "@last", "--json", folder=tmp_path).stdout)
    assert (status["status"], status["reason"]) == ("paused", "the embedded worker was killed by signal 9")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.yaml",), "none.yaml"),
        (("--prompt", " "), "no"),
        (("--prompt", "p0", "--players", "lines"), "not built"),
        (("--prompt", "p0", "--value", "cosine"), "not built"),
        (("--prompt", "p0", "--model", "gpt-9"), "model: 'gpt-9' is not served here"),
        (("--prompt", " ".join(f"w{i}" for i in range(12))), "4,096"),
        ((), "exactly one of"),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    ended = coalq("explain", *arguments, folder=tmp_path)

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("coalq: error: ")
    assert message in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / ".coalq").exists()


def test_a_prompt_from_standard_input_is_explained(tmp_path: Path) -> None:
    ended = coalq("explain", "-", *GAME[2:], "--json", folder=tmp_path, stdin=b"p0 p1\n", settings=TOY)

    assert [player["text"] for player in json.loads(ended.stdout)["players"]] == ["p0", "p1"]
