"""`coalq submit`: hand a run to the workers of configured servers."""

from __future__ import annotations

from typing import Annotated

import typer

from coalq.cli.exit_codes import ExitCode, of_status
from coalq.cli.home import require_shared_archive
from coalq.cli.output import AsJson, Progress, Quiet, Verbose, reporter, set_up_logging, show_run, write_json
from coalq.cli.request import InputArgument, PromptOption, describe, read_request
from coalq.cli.run_flags import RunFlags, takes_run_flags
from coalq.cli.waiting import wait_for
from coalq.errors import InputError
from coalq.producer import Producer
from coalq.report import ProgressMode
from coalq.settings import Settings


@takes_run_flags
def submit(
    *,
    given: InputArgument = None,
    prompt: PromptOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the run and show it.")] = False,
    as_json: AsJson = False,
    progress: Progress = ProgressMode.AUTO,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    flags: RunFlags,
) -> int:
    """Submit a run to the workers of COALQ_REDIS_URL and COALQ_DATABASE_URL; writes its id."""
    set_up_logging(verbose)
    settings = Settings.load()
    if settings.is_embedded:
        raise InputError(
            "submit needs servers that outlive it: set COALQ_REDIS_URL and COALQ_DATABASE_URL; "
            "`coalq explain` starts its own"
        )
    require_shared_archive(settings)
    request = read_request(given, prompt, flags=flags, settings=settings, embedded=False)
    report = reporter(progress, quiet=quiet)
    with Producer(settings) as producer:
        run = producer.submit(request.conversation, request.config, item_id=request.conversation.id)
        report.note(describe(request.draft))
        if not wait:
            if as_json:
                write_json({"schema_version": 1, "run_id": run.id, "status": str(run.status)})
            else:
                typer.echo(run.id)
            return ExitCode.COMPLETE
        report.note(f"run {run.id}")
        try:
            with report:
                status = wait_for(run, report=report)
        except KeyboardInterrupt:
            report.warn(f"interrupted; run {run.id} goes on with its workers: coalq results {run.id}")
            return ExitCode.INTERRUPTED
    show_run(run.id, settings=settings, as_json=as_json)
    return of_status(status)
