"""The embedded stack: Valkey, the bundled model and one worker, started for one run and stopped with it."""

from coalq.local.messages import Failed, Ready, StackOptions
from coalq.local.model import BUNDLED_MODEL, BundledModel, find_model
from coalq.local.stack import EmbeddedStack, make_log_dir
from coalq.local.worker_command import worker_command

__all__ = [
    "BUNDLED_MODEL",
    "BundledModel",
    "EmbeddedStack",
    "Failed",
    "Ready",
    "StackOptions",
    "find_model",
    "make_log_dir",
    "worker_command",
]
