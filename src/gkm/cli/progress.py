"""Progress on stderr: bars on a terminal, one plain line per finished piece elsewhere."""

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gkm.cli.output import say, size

if TYPE_CHECKING:
    from gkm.images.progress import Progress


class _Lines:
    """Says what is done when it is done; small pieces are not worth a line."""

    _WORTH_SAYING = 1 << 20

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}

    def start(self, name: str, total: int) -> None:
        self._totals[name] = total

    def advance(self, name: str, n: int) -> None:
        """Lines say only the end."""

    def finish(self, name: str) -> None:
        total = self._totals.pop(name, 0)
        if total >= self._WORTH_SAYING:
            say(f"{name[:19]}… {size(total)}")


@contextlib.contextmanager
def progress() -> Iterator["Progress"]:
    """A progress display that is gone when the context ends, also on Ctrl-C."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    # rich costs 100 ms to import; only a terminal pays for it.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TaskID,
        TextColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as RichProgress

    display = RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
    )

    class Bars:
        def __init__(self) -> None:
            self._tasks: dict[str, TaskID] = {}

        def start(self, name: str, total: int) -> None:
            # Work that starts over (an upload tried again) starts its bar over.
            if name in self._tasks:
                display.reset(self._tasks[name], total=total)
            else:
                self._tasks[name] = display.add_task(name[:19], total=total)

        def advance(self, name: str, n: int) -> None:
            display.advance(self._tasks[name], n)

        def finish(self, name: str) -> None:
            display.remove_task(self._tasks.pop(name))

    with display:
        yield Bars()
