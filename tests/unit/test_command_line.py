from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from archive_runs import ArchiveRun, make_manifest
from coalq.archive import Archive, open_engine
from coalq.cli.entry import run
from coalq.cli.exit_codes import ExitCode, of_error, of_status
from coalq.cli.look import age
from coalq.cli.run_flags import RunFlags, takes_run_flags
from coalq.cli.waiting import unserved_warning
from coalq.config import RunConfig
from coalq.errors import CoalqError, InputError, NotBuiltError, PermanentError, RunFailedError, ServerError
from coalq.outcome import RunStatus
from coalq.run_options import run_config


@pytest.fixture(autouse=True)
def no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REDIS_URL", "DATABASE_URL", "BASE_URL", "MODEL", "BACKEND"):
        monkeypatch.delenv(f"COALQ_{name}", raising=False)


@takes_run_flags
def command(*, given: str = "file", flags: RunFlags) -> int:
    SEEN.append((given, flags))
    return 0


SEEN: list[tuple[str, RunFlags]] = []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explode"], "No such command 'explode'"),
        (["explain", "--colour"], "No such option: --colour"),
        (["explain", "--budget", "many"], "Invalid value for '--budget'"),
        (["runs", "--limit", "0"], "Invalid value for '--limit'"),
        (["runs", "--limit", "10001"], "Invalid value for '--limit'"),
        (["status"], "Missing argument 'RUN'"),
        (["explain", "--progress", "loud"], "Invalid value for '--progress'"),
        (["submit", "--base-url", "http://x"], "No such option: --base-url"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(arguments)

    told = capsys.readouterr()
    assert code == 2
    assert told.out == ""
    assert told.err.startswith(f"coalq: error: {message}")
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--players", "letters"], "--players: must be 'auto'"),
        (["--players", "lines"], "--players: lines is not built yet"),
        (["--roles", "human"], "--roles: 'human' is not a role"),
        (["--value", "cosine"], "--value 'cosine' is not built yet"),
        (["--max-tokens", "0"], "--max-tokens: must be greater than or equal to 1"),
        (["--samples", "0"], "--samples: must be greater than or equal to 1"),
        (["--group-size", "999"], "--group-size: must be less than or equal to 256"),
        (["--name", "@last"], "--name: must not begin with @"),
        (["--model", "a\x1b[31m"], "--model: the control character U+001B"),
    ],
)
def test_an_error_in_a_flag_names_the_flag_and_not_the_input(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COALQ_BACKEND", "toy")

    code = run(["explain", "--prompt", "p0 p1", "--model", "additive:1,2", *arguments])

    told = capsys.readouterr().err
    assert code == 2
    assert told.startswith(f"coalq: error: {message}")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("settings", "model", "message"),
    [
        ({"COALQ_BACKEND": "toy"}, "additive:x", "toy model 'additive:x': 'x' is not a number"),
        ({"COALQ_BASE_URL": "ftp://gpu1"}, "m", "COALQ_BASE_URL: 'ftp://gpu1' is not an http:// or https:// URL"),
        ({"COALQ_BASE_URL": "http://gpu1:99999/v1"}, "m", "COALQ_BASE_URL: 'http://gpu1:99999/v1' is not"),
        ({"COALQ_BACKEND": "toy", "COALQ_MODEL": "a\tb"}, None, "COALQ_MODEL: the control character U+0009"),
    ],
)
def test_a_configuration_that_no_embedded_worker_could_use_is_refused_before_anything_starts(
    settings: dict[str, str],
    model: str | None,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in settings.items():
        monkeypatch.setenv(name, text)

    code = run(["explain", "--prompt", "p0 p1", *(["--model", model] if model else [])])

    assert code == 2
    assert capsys.readouterr().err.startswith(f"coalq: error: {message}")
    assert list(tmp_path.iterdir()) == []


def test_submitting_without_servers_says_what_to_set(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["submit", "--prompt", "p0 p1"])

    assert code == 2
    assert "set COALQ_REDIS_URL and COALQ_DATABASE_URL" in capsys.readouterr().err


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code = run([])

    assert code == 2
    assert "explain" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("coalq 0.")


def test_every_command_of_this_version_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["explain", "submit", "runs", "status", "results", "worker", "serve", "db upgrade", "db current"]

    codes = {name: run([*name.split(), "--help"]) for name in names}

    assert codes == dict.fromkeys(names, 0)


def test_only_the_flags_that_were_given_override_the_file() -> None:
    SEEN.clear()
    defaults = {name: each.default for name, each in inspect.signature(command).parameters.items()}

    command(**defaults)
    command(**{**defaults, "given": "other", "samples": 2, "temperature": 0.5, "fresh": True})

    assert SEEN == [
        ("file", {}),
        ("other", {"samples_per_coalition": 2, "fresh": True, "generation": {"temperature": 0.5}}),
    ]


def test_every_flag_is_a_parameter_of_a_run() -> None:
    SEEN.clear()
    given = {
        "model": "m", "players": "words", "roles": "user,system", "value": "exact", "estimator": "exact", "budget": 4,
        "seed": 3, "samples": 2, "dedup": "off", "fresh": True, "cache_tag": "t", "max_tokens": 5, "temperature": 1.0,
        "top_p": 0.5, "group_size": 16, "name": "n",
    }  # fmt: skip
    shared = set(inspect.signature(command).parameters) - {"given"}

    command(**given)
    config = run_config(SEEN[0][1])

    assert shared == set(given)
    assert config == RunConfig.model_validate(
        {
            "model": "m", "players": "words", "roles": ("user", "system"), "value": "exact", "estimator": "exact",
            "budget": 4, "seed": 3, "samples_per_coalition": 2, "dedup": "off", "fresh": True, "cache_tag": "t",
            "generation": {"max_tokens": 5, "temperature": 1.0, "top_p": 0.5}, "group_size": 16, "name": "n",
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("x"), ExitCode.BAD_INPUT),
        (NotBuiltError("x"), ExitCode.BAD_INPUT),
        (ServerError("x"), ExitCode.BAD_INPUT),
        (RunFailedError("x"), ExitCode.INCOMPLETE),
        (PermanentError("x"), ExitCode.INTERNAL),
    ],
)
def test_errors_have_the_documented_exit_codes(error: CoalqError, code: ExitCode) -> None:
    assert of_error(error) is code


def test_run_statuses_have_the_documented_exit_codes() -> None:
    codes = {status.value: int(of_status(status)) for status in RunStatus}

    assert codes == {"running": 0, "complete": 0, "incomplete": 3, "paused": 3, "cancelled": 4}


def test_a_run_that_nobody_serves_gets_a_warning_that_says_how_to_start_a_worker() -> None:
    warning = unserved_warning("llama", log_dir=None)

    assert warning.startswith("no worker serves 'llama'; start one")
    assert "COALQ_BASE_URL=http://HOST:PORT/v1 coalq worker" in warning


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-1.0, "0 s"), (59.9, "59 s"), (61.0, "1 min"), (7200.0, "2 h"), (200_000.0, "2 d")]
)
def test_ages_are_told_in_one_unit(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_the_table_of_runs_shows_whole_ids_however_narrow_it_is(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = Archive(open_engine(sqlite_url))
    ids = [ArchiveRun.create(archive, make_manifest()).run_id for _ in range(2)]
    archive.close()
    monkeypatch.setenv("COALQ_DATABASE_URL", sqlite_url)
    monkeypatch.setenv("COLUMNS", "40")

    run(["runs"])

    told = capsys.readouterr().out
    assert all(run_id in told for run_id in ids)
