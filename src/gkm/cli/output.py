"""What commands print: one JSON document, or plain lines. Tables and colours only on a terminal."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gkm.cli.options import Output


def emit(document: Any, lines: Iterable[str], output: Output) -> None:  # noqa: ANN401  any JSON-able document
    """Print `document` as JSON, or `lines` for people, to stdout."""
    if output is Output.JSON:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")
    else:
        for line in lines:
            sys.stdout.write(line + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """A line for people on stderr."""
    sys.stderr.write(f"gkm: {text}\n")
    sys.stderr.flush()


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns as wide as their content, kubectl's way: upper-case header, three spaces between."""
    everything = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(row[column]) for row in everything) for column in range(len(header))]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in everything
    ]


def size(number: int) -> str:
    """Bytes for people, in powers of 1024: `6.6 KiB`."""
    amount = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{number} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("unreachable")
