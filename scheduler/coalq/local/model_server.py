"""Serves a GGUF model on loopback as an OpenAI-compatible endpoint (llama.cpp): `python -m coalq.local.model_server`.

The first line of standard output is `{"base_url": …}`; everything llama.cpp says goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from coalq.errors import ServerError

CONTEXT_TOKENS = 2048
"""Prompt and answer of one generation, in tokens."""

_MOST_THREADS = 8
"""More threads make so small a model slower, not faster."""


def serve(
    path: Path, *, name: str, host: str, port: int, parallel: int, on_ready: Callable[[str], None], until_stdin: bool
) -> None:
    """Load the model, serve it and return when told to stop.

    Args:
        path: The GGUF file.
        name: The model's name in requests.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        parallel: Prompts decoded at once.
        on_ready: Called with the base URL, e.g. `http://127.0.0.1:4321/v1`.
        until_stdin: Stop when standard input ends, besides SIGTERM and SIGINT.

    Raises:
        ServerError: The extra `local` is missing, or the model could not be loaded or the port not be bound.
    """
    try:
        import xllamacpp  # noqa: PLC0415 - heavy, and in an extra
    except ImportError as error:
        raise ServerError('the model\'s server needs the extra `local`: pip install "coalq[local]"') from error
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.model_alias = {name}
    parameters.hostnames = [host]
    parameters.port = port
    parameters.n_parallel = parallel
    parameters.n_ctx = CONTEXT_TOKENS * parallel
    parameters.cpuparams.n_threads = _threads()
    stop = _listen_for_stop(until_stdin=until_stdin)
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:
        raise ServerError(f"{path.name} cannot be served on {host}:{port}: {error}") from error
    on_ready(f"{server.listening_address}/v1")
    stop()


def _threads() -> int:
    """All cores but one.

    The threads wait for each other at every layer, so a single one that must share its core with the worker, or with
    anybody else, holds up all: with one busy stranger on two cores, two threads were half as fast as one, or stalled.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(_MOST_THREADS, cores - 1))


def _listen_for_stop(*, until_stdin: bool) -> Callable[[], None]:
    """Take over SIGTERM and SIGINT now; the returned function waits for one of them, or for the end of input."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)

    def wait() -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(reading, selectors.EVENT_READ)
            if until_stdin:
                selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
            selector.select()

    return wait


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until standard input ends or a signal comes, then leave at once."""
    parser = argparse.ArgumentParser(prog="python -m coalq.local.model_server")
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--parallel", type=int, default=4)
    options = parser.parse_args(arguments)
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # llama.cpp may write to standard output; only our line belongs there

    def tell(base_url: str) -> None:
        told.write(json.dumps({"base_url": base_url}) + "\n")
        told.flush()

    try:
        serve(
            options.path,
            name=options.name,
            host="127.0.0.1",
            port=0,
            parallel=options.parallel,
            on_ready=tell,
            until_stdin=True,
        )
    except ServerError as error:
        sys.stderr.write(f"coalq: error: {error}\n")
        sys.stderr.flush()
        os._exit(2)
    # An answer in the making would hold the server's threads; nobody waits for it any more.
    os._exit(0)


if __name__ == "__main__":
    main()
