"""How the program begins: streams that are closed, and Ctrl-C before everything is imported."""

from __future__ import annotations

import subprocess
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

from coalq.cli import main
from command import PROGRAM, clean_environment


class _Interrupted(MetaPathFinder):
    """Presses Ctrl-C when a module is looked for."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        del path, target
        if fullname == "coalq.cli.entry":
            raise KeyboardInterrupt


def test_ctrl_c_during_the_imports_is_an_interruption_and_no_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "coalq.cli.entry", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Interrupted(), *sys.meta_path])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 130
    assert capsys.readouterr().err == "coalq: interrupted\n"


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_standard_output_is_no_fault(tmp_path: Path, closed: str) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", f'"$@" {closed}', "sh", *PROGRAM, "runs"],
        cwd=tmp_path,
        env=clean_environment({}),
        capture_output=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_closed_standard_input_is_an_empty_one(tmp_path: Path) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", '"$@" <&-', "sh", *PROGRAM, "explain", "-", "--model", "additive:1"],
        cwd=tmp_path,
        env=clean_environment({"COALQ_BACKEND": "toy"}),
        capture_output=True,
        check=False,
    )

    assert ended.returncode == 2
    assert b"standard input: is empty" in ended.stderr
