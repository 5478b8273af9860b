"""Waiting for a run while servers come and go."""

from __future__ import annotations

from archive_runs import ArchiveRun
from coalq.archive import Archive, open_engine, upgrade
from coalq.outcome import RunStatus
from coalq.run import Run
from servers import PostgresServer
from threads import in_thread
from waiting import wait_until


def test_an_archive_that_is_away_is_waited_for() -> None:
    with PostgresServer() as server:
        url = server.create_database("waited_for")
        upgrade(url)
        impatient = Archive(open_engine(url), patience_s=0.2)
        working = ArchiveRun.create(Archive(open_engine(url)))
        seen: list[RunStatus] = []
        waiting = in_thread(
            lambda: Run(impatient, working.run_id).wait(timeout=50, on_progress=lambda p: seen.append(p.status))
        )
        wait_until(lambda: bool(seen), "the waiting began")

        server.stop()
        wait_until(lambda: not _moves(seen, within_s=1.5), "no progress can be read")
        server.start()
        working.execute_all()

        assert waiting.result(50) is RunStatus.COMPLETE
        impatient.close()
        working.archive.close()


def _moves(seen: list[RunStatus], *, within_s: float) -> bool:
    """Whether anything is appended within some time."""
    before = len(seen)
    try:
        wait_until(lambda: len(seen) > before, "something is seen", within_s=within_s)
    except AssertionError:
        return False
    return True
