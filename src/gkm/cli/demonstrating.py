"""`gkm demo`: the main job, told and done."""

from gkm.cli.options import Output, OutputOption
from gkm.cli.output import emit, say


def demo(*, output: OutputOption = Output.TEXT) -> None:
    """Compile real kernels, carry their cache to another path, and start warm there. Needs no GPU."""
    from gkm.local.demo import demonstrate

    if output is Output.JSON:
        emit(demonstrate(say), (), output)
    else:
        demonstrate(lambda line: print(line, flush=True))  # noqa: T201  the story is this command's answer
