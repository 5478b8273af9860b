"""Commands of a machine: `coalq worker`, `coalq serve` and `coalq db`."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from coalq.archive import current, upgrade
from coalq.archive.tables import SCHEMA_REVISION
from coalq.cli.exit_codes import ExitCode
from coalq.cli.home import lacks_archive, prepare_home, require_shared_archive
from coalq.connections import check_broker
from coalq.local import find_model, worker_command
from coalq.local.model_server import serve as serve_model
from coalq.settings import Settings, mask_password

database = typer.Typer(help="The archive's schema.", no_args_is_help=False, rich_markup_mode=None)


def worker(context: typer.Context) -> int:
    """Run a worker: Celery with the settings that coalq needs. Further arguments go to Celery.

    What it serves is set by COALQ_BASE_URL, COALQ_API_KEY, COALQ_MODELS and COALQ_MAX_INFLIGHT.
    """
    settings = Settings.load()
    require_shared_archive(settings)
    check_broker(settings)
    command = worker_command(log_level=settings.log_level, extra=context.args)
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - a fixed program, and no shell is wanted


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8080,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="Prompts decoded at once.")] = 4,
) -> int:
    """Serve the bundled model, or COALQ_LOCAL_MODEL, as an OpenAI-compatible endpoint until Ctrl-C."""
    bundled = find_model(Settings.load().local_model)

    def tell(base_url: str) -> None:
        typer.echo(f"serving {bundled.name} at {base_url}; for workers: COALQ_BASE_URL={base_url}")

    serve_model(
        bundled.path, name=bundled.name, host=host, port=port, parallel=parallel, on_ready=tell, until_stdin=False
    )
    return ExitCode.COMPLETE


@database.command("upgrade")
def upgrade_database() -> int:
    """Create the archive's schema, or bring it up to date."""
    settings = Settings.load()
    if settings.database_url is None:
        prepare_home(settings)
    url = settings.archive_url
    upgrade(url)
    typer.echo(f"{mask_password(url)} has schema {current(url)}")
    return ExitCode.COMPLETE


@database.command("current")
def show_schema() -> int:
    """Show the archive's schema and the one that this version needs."""
    settings = Settings.load()
    url = settings.archive_url
    found = None if lacks_archive(settings) else current(url)
    typer.echo(f"{mask_password(url)} has schema {found or 'none'}; {SCHEMA_REVISION} is needed")
    return ExitCode.COMPLETE
