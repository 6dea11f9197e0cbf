"""`gkm run`: a command that starts with its kernels compiled already."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from gkm.base.files import write_atomic
from gkm.cli.options import (
    CaOption,
    Output,
    OutputOption,
    PlainHttpOption,
    StoreOption,
    client_options,
    open_store,
)
from gkm.cli.output import emit, say
from gkm.cli.progress import progress
from gkm.cli.status import RUN_FAILED


def run(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="the command and its arguments")],
    *,
    cache: Annotated[str | None, typer.Option(metavar="IMAGE", help="The cache image to start with.")] = None,
    save: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Pack what was mounted plus what the command compiled as IMAGE."),
    ] = None,
    mount: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Where the command sees the cache (default: a private directory)."),
    ] = None,
    require_hit: Annotated[
        bool, typer.Option("--require-hit", help="Refuse to start cold, and fail with 125 after a miss.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the run's report there, as JSON.")
    ] = None,
    store: StoreOption = None,
    ca: CaOption = None,
    plain_http: PlainHttpOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Run COMMAND with a kernel cache mounted copy-on-write, and say what was hit."""
    from gkm.local.report import summary
    from gkm.local.run import RunRequest, make_ready
    from gkm.local.run import run as run_command

    request = RunRequest(
        command=tuple(command),
        cache=cache,
        save=save,
        mount=mount,
        require_hit=require_hit,
        options=client_options(ca, plain_http=plain_http),
    )
    opened = open_store(store)
    with progress() as display:
        ready = asyncio.run(make_ready(opened, request, os.environ, display))
    if ready.cold_because is not None:
        say(f"starting cold: {ready.cold_because}")
    with _command_output(output):
        done = run_command(opened, request, ready)
    if report is not None:
        write_atomic(report, msgspec.json.format(msgspec.json.encode(done), indent=2) + b"\n")
    for line in summary(done):
        say(line)
    if save is not None:
        say(
            f"saved {save} as {done.saved}"
            if done.saved
            else "nothing to save: no kernel cache entry was made"
        )
    if output is Output.JSON:
        emit(done, (), output)
    status = done.exit_status
    if require_hit and done.misses:
        say(f"--require-hit: not in the cache: {', '.join(entry.name for entry in done.missed)}")
        status = RUN_FAILED
    raise typer.Exit(status)


@contextlib.contextmanager
def _command_output(output: Output) -> Iterator[None]:
    """With ``--output json`` stdout is for the document alone: the command's own output goes to stderr."""
    if output is not Output.JSON:
        yield
        return
    kept = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        yield
    finally:
        os.dup2(kept, sys.stdout.fileno())
        os.close(kept)
