"""Driving runs forward: archive and broker together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import pytest

from archive_runs import ArchiveRun, make_manifest, make_run
from coalq.archive import Archive
from coalq.broker import CeleryGroupSender, OutgoingGroup, make_sending_app
from coalq.errors import TransientError
from coalq.publisher import Publisher
from coalq.settings import Settings
from servers import ValkeyServer, free_port


class Broker:
    """Keeps what is sent, or refuses everything."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.sent: list[OutgoingGroup] = []

    def send(self, groups: Sequence[OutgoingGroup]) -> None:
        if self.refuses:
            raise TransientError("the broker is away")
        self.sent.extend(groups)

    def ready_counts(self, queues: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(queues, 0)


def test_a_planned_group_is_sent_once_with_a_line_for_people(archive: Archive) -> None:
    run = ArchiveRun.create(archive)
    broker = Broker()
    publisher = Publisher(archive, broker)

    first, second = publisher.drive("queue"), publisher.drive("queue")

    assert (first, second) == (True, False)
    (group,) = broker.sent
    assert group.description.startswith(f"run={run.run_id[:8]} group=0/")
    assert group.message.attempt == 1


def test_a_group_the_broker_did_not_take_is_sent_later(archive: Archive) -> None:
    ArchiveRun.create(archive)
    broker = Broker(refuses=True)
    publisher = Publisher(archive, broker)
    with pytest.raises(TransientError, match="away"):
        publisher.drive("queue")

    broker.refuses = False
    publisher.drive("queue")

    assert [group.message.attempt for group in broker.sent] == [2]


def test_a_run_nobody_here_can_plan_holds_up_no_other(archive: Archive) -> None:
    strange = make_run(make_manifest())
    archive.create_run(
        type(strange)(
            run_id=strange.run_id,
            model=strange.model,
            queue=strange.queue,
            manifest={**strange.manifest, "estimator": "from-the-future"},
            snapshot_id=strange.snapshot_id,
            snapshot=strange.snapshot,
            priority=9,
        )
    )
    run = ArchiveRun.create(archive)
    broker = Broker()

    Publisher(archive, broker).drive("queue")

    assert [group.message.run_id for group in broker.sent] == [run.run_id]


def test_a_connection_that_died_since_the_last_send_loses_no_group(archive: Archive) -> None:
    with ValkeyServer() as valkey:
        sender = CeleryGroupSender(make_sending_app(Settings(redis_url=valkey.url)))
        try:
            publisher = Publisher(archive, sender)
            ArchiveRun.create(archive)
            publisher.drive("queue")
            valkey.kill()
            valkey.start()
            ArchiveRun.create(archive)

            for _ in range(5):
                with suppress(TransientError):
                    publisher.drive("queue")

            assert sender.ready_counts(["queue"]) == {"queue": 1}
        finally:
            sender.close()


@pytest.mark.timeout(120)
def test_a_real_broker_counts_what_waits_and_says_when_it_is_away(archive: Archive, redis_url: str) -> None:
    ArchiveRun.create(archive)
    sender = CeleryGroupSender(make_sending_app(Settings(redis_url=redis_url)))
    try:
        Publisher(archive, sender).drive("queue")

        assert sender.ready_counts(["queue", "other"]) == {"queue": 1, "other": 0}
    finally:
        sender.close()
    away = CeleryGroupSender(make_sending_app(Settings(redis_url=f"redis://127.0.0.1:{free_port()}/0")))
    try:
        with pytest.raises(TransientError, match="cannot be asked"):
            away.ready_counts(["queue"])
    finally:
        away.close()
