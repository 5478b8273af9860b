"""Shows runs: the attribution at the terminal and as JSON, and live progress."""

from coalq.report.document import counters, outcome_words, run_document, tokens
from coalq.report.progress import ProgressMode, ProgressReporter, make_reporter
from coalq.report.summary import RunSummary, read_summary
from coalq.report.terminal import show_summary

__all__ = [
    "ProgressMode",
    "ProgressReporter",
    "RunSummary",
    "counters",
    "make_reporter",
    "outcome_words",
    "read_summary",
    "run_document",
    "show_summary",
    "tokens",
]
