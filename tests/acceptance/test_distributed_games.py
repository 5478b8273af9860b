"""Exactly known games through the whole distributed path: real Valkey, real workers, both databases."""

from __future__ import annotations

from itertools import chain, combinations
from math import comb
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text

from cluster import Cluster, game
from coalq.archive import open_engine
from coalq.attribution import Attribution
from coalq.outcome import RunStatus
from coalq.toy import parse_toy

ADDITIVE = "additive:1,2,4,8"


def players(count: int) -> str:
    return " ".join(f"p{i}" for i in range(count))


def run_game(cluster: Cluster, model: str, n_players: int, **changes: object) -> tuple[str, Attribution]:
    with cluster.producer() as producer:
        run = producer.submit(players(n_players), game(model, **changes))
        status = run.wait(timeout=50)
        assert status is RunStatus.COMPLETE, run.progress()
        return run.id, run.attribution()


def shapley_by_subsets(model: str, n_players: int) -> list[float]:
    """The textbook formula over subsets, as an oracle."""
    toy = parse_toy(model)
    values = []
    for player in range(n_players):
        others = [i for i in range(n_players) if i != player]
        subsets = chain.from_iterable(combinations(others, size) for size in range(n_players))
        values.append(
            sum(
                (toy.worth({*subset, player}) - toy.worth(set(subset))) / (n_players * comb(n_players - 1, len(subset)))
                for subset in subsets
            )
        )
    return values


def rows(database_url: str, statement: str, run_id: str) -> list[tuple[object, ...]]:
    engine = open_engine(database_url)
    try:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(statement), {"run": run_id})]
    finally:
        engine.dispose()


@pytest.mark.timeout(180)
def test_an_additive_game_gets_its_weights_bit_equal_on_one_and_three_workers(
    redis_url: str, archive_url: str, tmp_path: Path
) -> None:
    with Cluster(redis_url, archive_url, tmp_path) as cluster:
        cluster.start_worker(ADDITIVE)
        _, on_one = run_game(cluster, ADDITIVE, 4, group_size=2)
        cluster.start_worker(ADDITIVE)
        cluster.start_worker(ADDITIVE)

        run_id, on_three = run_game(cluster, ADDITIVE, 4, group_size=2, fresh=True)

        assert on_one.values == pytest.approx([1, 2, 4, 8], abs=1e-12)
        assert on_one.values.tobytes() == on_three.values.tobytes()
        assert (on_one.empty_value, on_one.grand_value) == (0, 15)
        progress = cluster.archive.progress(run_id)
        assert (progress.executed, progress.done) == (16, 16)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("model", "n_players"),
    [("pairwise:1,2,3,4,5,6,7,8,9,10;0-1=3;2-9=-4", 10), ("threshold:4;1,1,1,2,2,3,1", 7)],
)
def test_games_with_interactions_match_the_oracle(
    redis_url: str, sqlite_url: str, tmp_path: Path, model: str, n_players: int
) -> None:
    with Cluster(redis_url, sqlite_url, tmp_path) as cluster:
        cluster.start_worker(model)

        _, attribution = run_game(cluster, model, n_players, estimator="exact", budget=1 << n_players)

        assert attribution.values == pytest.approx(shapley_by_subsets(model, n_players), abs=1e-9)
        assert abs(attribution.efficiency_gap) < 1e-9


@pytest.mark.timeout(180)
def test_every_coalition_has_one_record_and_a_second_run_makes_no_call(
    redis_url: str, archive_url: str, tmp_path: Path
) -> None:
    with Cluster(redis_url, archive_url, tmp_path) as cluster:
        cluster.start_worker(ADDITIVE)
        first_id, first = run_game(cluster, ADDITIVE, 4)

        second_id, second = run_game(cluster, ADDITIVE, 4)

        assert np.array_equal(first.values, second.values)
        count = "SELECT count(*), count(DISTINCT mask) FROM records WHERE run_id = :run"
        executed = "SELECT count(*) FROM records WHERE run_id = :run AND outcome = 'executed'"
        for run_id in (first_id, second_id):
            assert rows(archive_url, count, run_id) == [(16, 16)]
        assert rows(archive_url, executed, first_id) == [(16,)]
        assert rows(archive_url, executed, second_id) == [(0,)]
        assert rows(archive_url, "SELECT count(*) FROM generations WHERE :run = :run", first_id) == [(16,)]
        progress = cluster.archive.progress(second_id)
        assert (progress.cache_hits + progress.deduplicated, progress.failed) == (16, 0)


@pytest.mark.timeout(180)
def test_masks_that_render_alike_cost_one_generation_and_get_a_record_each(
    redis_url: str, archive_url: str, tmp_path: Path
) -> None:
    with Cluster(redis_url, archive_url, tmp_path) as cluster:
        cluster.start_worker(ADDITIVE)
        with cluster.producer() as producer:
            run = producer.submit("p0 p0 p1 ", game(ADDITIVE))
            assert run.wait(timeout=50) is RunStatus.COMPLETE
            attribution = run.attribution()
            progress = run.progress()

        # p0 | p0 | p0 p0 | p1 | p0 p1 | p0 p1 | p0 p0 p1 | nothing: six different prompts
        assert (progress.executed, progress.done, progress.failed) == (6, 8, 0)
        assert progress.executed + progress.cache_hits + progress.deduplicated + progress.failed == progress.done
        assert attribution.values == pytest.approx([0.5, 0.5, 2], abs=1e-12)
