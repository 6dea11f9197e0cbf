"""Puts the commands together and turns failures into exit statuses."""

import os
import sys
from typing import Annotated

import typer

import gkm
from gkm.cli import demonstrating, looking, moving, running, storing
from gkm.cli.options import Output
from gkm.cli.output import emit, say
from gkm.cli.status import INTERRUPTED, RUN_FAILED, describe, reason_of, status_of

app = typer.Typer(
    name="gkm",
    help="GPU Kernel Manager: compiled GPU kernels as verified OCI images, mounted warm into workloads.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("pack")(moving.pack)
app.command("push")(moving.push)
app.command("pull")(moving.pull)
app.command("unpack")(moving.unpack)
app.command("inspect")(looking.inspect)
app.command("check")(looking.check)
app.command("gpus")(looking.gpus)
app.command("diff")(looking.diff)
app.command("run", context_settings={"allow_interspersed_args": False})(running.run)
app.add_typer(storing.app, name="store")
app.command("demo")(demonstrating.demo)


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"gkm {gkm.__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """GPU Kernel Manager: compiled GPU kernels as verified OCI images, mounted warm into workloads."""
    del version


def main() -> None:
    """The entry point of the `gkm` script."""
    arguments = sys.argv[1:]
    is_run = next((word for word in arguments if not word.startswith("-")), None) == "run"
    try:
        status = app(args=arguments, standalone_mode=False)
    except KeyboardInterrupt:
        say("interrupted")
        status = INTERRUPTED
    except BrokenPipeError:
        # The reader of our stdout left (`gkm … | head`): nothing more to say, and nowhere to say it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except Exception as error:
        usage = _usage_status(error)
        status = usage if usage is not None else status_of(error)
        if status is None:
            raise
        if usage is None:
            say(describe(error))
            if not is_run and _wants_json(arguments):
                emit({"error": {"reason": reason_of(error), "message": describe(error)}}, (), Output.JSON)
        if is_run:
            # A command that cannot be started has a status of its own, as env(1) has it.
            status = getattr(error, "exit_status", RUN_FAILED)
    sys.exit(status)


def _usage_status(error: Exception) -> int | None:
    """Typer's own complaints about arguments print themselves (with the usage line) and carry a status."""
    show = getattr(error, "show", None)
    if show is None:
        return None
    show()
    return int(getattr(error, "exit_code", 2))


def _wants_json(arguments: list[str]) -> bool:
    words = " ".join(arguments)
    return any(form in words for form in ("--output json", "--output=json", "-o json"))
