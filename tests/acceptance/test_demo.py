from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import coalq

EXAMPLE = Path(__file__).parents[2] / "examples" / "refund.yaml"

pytestmark = [pytest.mark.model, pytest.mark.timeout(240)]


def test_the_example_is_explained_with_the_bundled_model_and_then_from_the_archive(tmp_path: Path) -> None:
    first = coalq("explain", str(EXAMPLE), "--json", folder=tmp_path, timeout_s=180)
    second = coalq("explain", str(EXAMPLE), "--json", folder=tmp_path)

    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    explained, reused = json.loads(first.stdout), json.loads(second.stdout)
    assert explained["answer"] == "Within 14 days."
    assert [player["value"] for player in explained["players"]] == [0, 1, 0, 0, 0, 0, 0]
    assert explained["counters"]["executed"] == 128
    assert explained["tokens"]["prompt"] > 0
    assert explained["manifest"]["backend_identity"].startswith("smollm2-135m-instruct@sha256:")
    assert reused["counters"] == {**explained["counters"], "executed": 0, "cache_hits": 128, "kv_cache_hits": 0}
    assert reused["players"] == explained["players"]
    assert (reused["empty_value"], reused["grand_value"]) == (explained["empty_value"], explained["grand_value"])
