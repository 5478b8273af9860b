"""Which embedded stacks still have the process that started them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from coalq.local import holding, is_held, make_log_dir

_HOLDER = """
import sys
from pathlib import Path
from coalq.local import holding
with holding(Path(sys.argv[1])):
    print("holds", flush=True)
    sys.stdin.read()
"""


def test_a_stack_is_held_as_long_as_its_process_lives(tmp_path: Path) -> None:
    with holding(tmp_path):
        inside = is_held(tmp_path)

    assert inside
    assert not is_held(tmp_path)


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holds\n"
        before = is_held(tmp_path)

        holder.kill()
        holder.wait()

    assert before
    assert not is_held(tmp_path)


def test_a_stack_whose_folder_is_gone_is_not_held(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "gone")


def test_the_logs_of_a_stack_that_lives_stay_however_old_they_are(tmp_path: Path) -> None:
    old = make_log_dir(tmp_path, "old")
    with holding(old):
        os.utime(old, (1, 1))
        for number in range(12):
            make_log_dir(tmp_path, f"stack-{number}")

        assert old.is_dir()
