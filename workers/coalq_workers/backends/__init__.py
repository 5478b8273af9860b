"""Model backends: what answers a rendered prompt."""

from coalq_workers.backends.chat import ChatBackend
from coalq_workers.backends.protocol import Backend
from coalq_workers.backends.toy import ToyBackend

__all__ = ["Backend", "ChatBackend", "ToyBackend"]
