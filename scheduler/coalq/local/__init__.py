"""The embedded stack: Valkey, the bundled model and one worker, started for one run and stopped with it."""

from coalq.local.messages import Failed, Ready, StackOptions
from coalq.local.model import BUNDLED_MODEL, BundledModel, find_model
from coalq.local.presence import holding, is_held
from coalq.local.stack import EmbeddedStack, log_dir_of, make_log_dir
from coalq.local.worker_command import worker_command

__all__ = [
    "BUNDLED_MODEL",
    "BundledModel",
    "EmbeddedStack",
    "Failed",
    "Ready",
    "StackOptions",
    "find_model",
    "holding",
    "is_held",
    "log_dir_of",
    "make_log_dir",
    "worker_command",
]
