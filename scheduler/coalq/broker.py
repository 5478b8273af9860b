"""The Celery application: its settings, how groups are sent, and how many messages wait in a queue.

Every setting here absorbs a measured fault of the stack; see the comments. Producer and worker use the same settings.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from celery import Celery
from kombu.exceptions import KombuError

from coalq.errors import TransientError
from coalq.settings import Settings
from coalq.wire import TASK_NAME, GroupMessage

logger = logging.getLogger(__name__)

BROKER_KEY_PREFIX = "coalq.broker."
"""Prefix of the broker's Redis keys, which have no TTL; claims use another one and always have one."""

SEND_PATIENCE_S = 3

_SENDING_FAULTS = (KombuError, ConnectionError, TimeoutError, OSError)


@dataclass(frozen=True, slots=True)
class OutgoingGroup:
    """One group to send: its message and the line Flower shows for it."""

    message: GroupMessage
    queue: str
    description: str


class GroupSender(Protocol):
    """Puts groups on the broker and counts those that wait."""

    def send(self, groups: Sequence[OutgoingGroup]) -> None:
        """Send all of them or raise `TransientError`; some may then have been sent."""

    def ready_counts(self, queues: Iterable[str]) -> dict[str, int]:
        """Messages waiting in each queue; `TransientError` when the broker cannot be asked."""


def celery_settings(settings: Settings) -> Mapping[str, Any]:
    """All Celery settings of producer and worker."""
    return {
        "broker_url": settings.redis_url,
        "broker_transport_options": {
            "global_keyprefix": BROKER_KEY_PREFIX,
            # Without it a first publish gives up after four seconds whatever the retry policy says.
            "connect_retries_timeout": 60,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 25,
            # A killed worker's mutex blocks everybody for five minutes otherwise.
            "unacked_mutex_expire": 30,
        },
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,  # the default of 100 ends the worker
        # Losing the broker kills a worker that holds an unacknowledged message: acknowledge early, ownership is in SQL.
        "task_acks_late": False,
        "worker_disable_prefetch": True,
        "worker_prefetch_multiplier": 1,
        "task_ignore_result": True,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_soft_shutdown_timeout": 0,
        "task_publish_retry_policy": {
            "max_retries": 30,
            "interval_start": 0.2,
            "interval_step": 0.5,
            "interval_max": 2,
        },
        "worker_send_task_events": True,
        "task_send_sent_event": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        "worker_pool": "threads",
        "worker_concurrency": 2,
        "worker_hijack_root_logger": True,
        "task_default_queue": "coalq-unused",
        "task_create_missing_queues": True,
    }


def make_sending_app(settings: Settings) -> Celery:
    """A Celery application that sends to `settings.redis_url` and gives up after a few seconds.

    A group that could not be sent is unmarked and sent in a later tick, so nobody needs to wait for the broker here; a
    producer that waits would show no progress meanwhile.
    """
    app = Celery("coalq")
    app.conf.update(celery_settings(settings))
    app.conf.broker_transport_options |= {"connect_retries_timeout": SEND_PATIENCE_S}
    return app


class CeleryGroupSender:
    """Sends groups in batches over one broker connection of the app's pool."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def send(self, groups: Sequence[OutgoingGroup]) -> None:
        """Send many messages per round trip; a crash in the middle leaves some sent, which start guards against.

        Raises:
            TransientError: If the broker did not take them all.
        """
        try:
            with self._app.producer_or_acquire() as producer, producer.batch(max_size=100):
                for group in groups:
                    self._app.send_task(
                        TASK_NAME,
                        kwargs=group.message.encode(),
                        task_id=group.message.task_id,
                        queue=group.queue,
                        argsrepr=group.description,
                        kwargsrepr="",
                        ignore_result=True,
                        producer=producer,
                        retry=False,
                    )
        except _SENDING_FAULTS as error:
            raise TransientError(f"the broker did not take {len(groups)} groups: {error}") from error

    def ready_counts(self, queues: Iterable[str]) -> dict[str, int]:
        """Messages waiting, by an active declare: a passive one answers 404 under a key prefix.

        Raises:
            TransientError: If the broker cannot be asked.
        """
        try:
            with self._app.connection_for_write() as connection:
                channel: Any = connection.default_channel  # the stubs know only what all transports share
                return {queue: channel.queue_declare(queue=queue).message_count for queue in queues}
        except _SENDING_FAULTS as error:
            raise TransientError(f"the broker cannot be asked: {error}") from error

    def close(self) -> None:
        """Close the app's broker connections."""
        self._app.close()
