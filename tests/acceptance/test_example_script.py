"""The producer script of the examples, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cluster import Cluster

SCRIPT = Path(__file__).parents[2] / "examples" / "submit_run.py"
MODEL = "additive:1,2,4,8"


@pytest.mark.timeout(120)
def test_the_script_submits_a_run_waits_for_it_and_prints_the_values(
    redis_url: str, postgres_url: str, tmp_path: Path
) -> None:
    game = tmp_path / "game.yaml"
    game.write_text('prompt: "p0 p1 p2 p3"\nplayers: words\nvalue: number\n', encoding="utf-8")
    with Cluster(redis_url, postgres_url, tmp_path) as cluster:
        cluster.start_worker(MODEL)

        finished = subprocess.run(
            [sys.executable, str(SCRIPT), str(game), "--model", MODEL, "--wait"],
            env=cluster.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    assert lines[1:] == ["status complete", "+8.000  p3", "+4.000  p2", "+2.000  p1", "+1.000  p0"]
