"""Publishes planned groups: the archive chooses and marks them, the broker carries them.

The archive is the queue's truth: a group is marked published before it is sent, and a lost message is found by the
sweep. Producer and every worker run the same two steps, so a run goes on without its producer.
"""

from __future__ import annotations

import logging

from coalq.archive import Archive, GroupAttempt, Publication
from coalq.broker import GroupSender, OutgoingGroup
from coalq.errors import InputError, TransientError
from coalq.wire import GroupMessage, describe_group

logger = logging.getLogger(__name__)


class Publisher:
    """Drives runs forward: plans their next groups and publishes what there is room for."""

    def __init__(self, archive: Archive, sender: GroupSender) -> None:
        self._archive = archive
        self._sender = sender
        self._told: set[str] = set()

    def drive(self, queue: str) -> bool:
        """Plan, then publish; True if anything was done. See the two methods."""
        planned = self.advance(queue)
        return bool(self.publish(queue)) or planned

    def advance(self, queue: str) -> bool:
        """Plan ahead for every live run of the queue; True if anything changed. Idempotent."""
        changed = False
        for run_id in self._archive.runs_to_advance([queue]):
            try:
                changed = self._archive.advance(run_id) or changed
            except (InputError, ValueError) as error:
                # Made by a newer version, most likely: one that understands it plans it, and the others go on.
                if run_id not in self._told:
                    self._told.add(run_id)
                    logger.warning("run %s cannot be planned here: %s", run_id, error)
        return changed

    def publish(self, queue: str) -> int:
        """Publish what there is room for; returns how many groups were sent.

        A crash between marking and sending leaves marked groups without a message: the sweep unmarks them.

        Raises:
            TransientError: If the broker did not take them; they are unmarked again.
        """
        publications = self._archive.take_publications(queue)
        if not publications:
            return 0
        try:
            self._sender.send([self._outgoing(publication) for publication in publications])
        except TransientError:
            self._archive.unmark([GroupAttempt(p.run_id, p.group_number, p.attempt) for p in publications])
            raise
        return len(publications)

    def _outgoing(self, publication: Publication) -> OutgoingGroup:
        message = GroupMessage(
            archive_id=self._archive.archive_id,
            run_id=publication.run_id,
            group_number=publication.group_number,
            attempt=publication.attempt,
        )
        return OutgoingGroup(
            message=message,
            queue=publication.queue,
            description=describe_group(
                message,
                n_groups=publication.n_groups,
                coalitions=publication.count,
                prefix_hash=publication.prefix_hash,
            ),
        )
