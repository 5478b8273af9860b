"""The example script tells errors in one line and with the exit codes of the commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from command import clean_environment

SCRIPT = Path(__file__).parents[2] / "examples" / "submit_run.py"


def test_bad_input_ends_with_2(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, SCRIPT, "none.yaml", "--model", "m"],
        cwd=tmp_path,
        env=clean_environment({}),
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2
    assert ended.stderr.startswith("error: none.yaml: there is no such file")
    assert ended.stderr.count("\n") == 1
