"""The producer: turns a conversation and a request into a run in the archive, and publishes its first groups."""

from __future__ import annotations

from typing import Self

from coalq.archive import Archive, NewRun
from coalq.broker import CeleryGroupSender, make_sending_app
from coalq.config import RunConfig
from coalq.connections import check_broker, open_archive
from coalq.conversation_input import ConversationInput
from coalq.identity import new_id
from coalq.manifest import make_manifest
from coalq.publisher import Publisher
from coalq.run import Run
from coalq.settings import Settings
from coalq.wire import queue_name


class Producer:
    """Submits runs to the configured servers. Close it, or use it as a context manager.

    Raises:
        InputError, ServerError: On construction, when the servers cannot be used.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings.load()
        redis_url = check_broker(self._settings)
        self._archive: Archive = open_archive(self._settings)
        app = make_sending_app(self._settings.model_copy(update={"redis_url": redis_url}))
        self._sender = CeleryGroupSender(app)
        self._publisher = Publisher(self._archive, self._sender)

    def submit(
        self,
        conversation: ConversationInput | str,
        config: RunConfig,
        *,
        item_id: str | None = None,
        backend_identity: str | None = None,
    ) -> Run:
        """Store a run and publish its base group; workers finish it even if this process ends at once.

        Args:
            conversation: A parsed input, or a prompt.
            config: What is asked.
            item_id: The user's own id of this conversation.
            backend_identity: What identifies the model's output beyond its name; the model's name by default.

        Raises:
            InputError: Nothing was stored or enqueued.
        """
        if isinstance(conversation, str):
            conversation = ConversationInput.from_text(conversation)
        manifest = make_manifest(
            conversation,
            config,
            run_id=new_id(),
            live_workers=len(self._archive.live_workers(config.model)),
            backend_identity=backend_identity,
        )
        snapshot = manifest.template.grand()
        queue = queue_name(self._archive.archive_id, config.model, local_id=self._settings.local_id)
        self._archive.create_run(
            NewRun(
                run_id=manifest.run_id,
                name=config.name,
                campaign=config.campaign,
                item_id=item_id,
                metadata=config.metadata,
                model=config.model,
                queue=queue,
                manifest=manifest.model_dump(mode="json"),
                snapshot_id=snapshot.snapshot_id,
                snapshot=list(snapshot.messages),
            )
        )
        run = Run(self._archive, manifest.run_id, publisher=self._publisher)
        run.drive()
        return run

    def run(self, reference: str) -> Run:
        """A run by id, unique prefix or suffix, name or `@last`; `InputError` when there is none or several."""
        return Run(self._archive, self._archive.find_run(reference).run_id, publisher=self._publisher)

    def close(self) -> None:
        """Give up all connections; submitted runs go on."""
        self._sender.close()
        self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
