"""`coalq explain`: plan, run and show, with an embedded stack when no servers are configured."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from coalq.cli.embedded import Servers, embedded_servers
from coalq.cli.endings import Ended, ends_raised
from coalq.cli.exit_codes import ExitCode, of_status
from coalq.cli.home import require_shared_archive
from coalq.cli.output import AsJson, Progress, Quiet, Verbose, reporter, set_up_logging, show_run
from coalq.cli.request import InputArgument, PromptOption, Request, describe, read_request
from coalq.cli.run_flags import RunFlags, takes_run_flags
from coalq.cli.waiting import wait_for
from coalq.connections import open_archive
from coalq.errors import CoalqError
from coalq.producer import Producer
from coalq.report import ProgressMode
from coalq.run import Run
from coalq.settings import Settings


@takes_run_flags
def explain(
    *,
    given: InputArgument = None,
    prompt: PromptOption = None,
    as_json: AsJson = False,
    progress: Progress = ProgressMode.AUTO,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    flags: RunFlags,
) -> int:
    """Explain one answer: plan, run and show.

    Without COALQ_REDIS_URL and COALQ_DATABASE_URL it starts its own Valkey, model and worker, and stops them again.
    """
    set_up_logging(verbose)
    settings = Settings.load()
    require_shared_archive(settings)
    request = read_request(given, prompt, flags=flags, settings=settings, embedded=settings.is_embedded)
    report = reporter(progress, quiet=quiet)
    report.note(describe(request.draft))
    with ends_raised(), _servers(settings, request) as servers, Producer(servers.settings) as producer:
        run = producer.submit(
            request.conversation,
            request.config,
            item_id=request.conversation.id,
            backend_identity=servers.identity,
        )
        if servers.stack is None:
            report.note(f"run {run.id}")
        try:
            with report:
                status = wait_for(run, report=report, stack=servers.stack, log_dir=servers.log_dir)
        except KeyboardInterrupt as error:
            # First of all, as the terminal that is written to may be gone, and a signal that kills may follow.
            _pause_embedded(run, servers, reason=f"ended by {error}" if isinstance(error, Ended) else "interrupted")
            report.warn(_interrupted(run, servers))
            return ExitCode.INTERRUPTED
        except CoalqError as error:
            _pause_embedded(run, servers, reason=str(error).partition(";")[0])
            raise
        show_run(run.id, settings=servers.settings, as_json=as_json)
        return of_status(status)


def _servers(settings: Settings, request: Request) -> AbstractContextManager[Servers]:
    if settings.is_embedded:
        return embedded_servers(settings, model=request.config.model, bundled=request.bundled)
    return nullcontext(Servers(settings))


def _interrupted(run: Run, servers: Servers) -> str:
    if servers.stack is None:
        return f"interrupted; run {run.id} goes on with its workers: coalq results {run.id}"
    return f"interrupted; run {run.id} stays in the archive, and the same command reuses what is finished"


def _pause_embedded(run: Run, servers: Servers, *, reason: str) -> None:
    """Nobody is left to work on an embedded run: do not leave it as running."""
    if servers.stack is None:
        return
    archive = open_archive(servers.settings)
    try:
        archive.pause(run.id, reason)
    finally:
        archive.close()
