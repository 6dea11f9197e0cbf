"""`gkm inspect`, `check`, `gpus`, `diff`: questions about caches and GPUs."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from gkm.cli.options import CacheArgument, CaOption, Output, OutputOption, PlainHttpOption, client_options
from gkm.cli.output import emit, size, table
from gkm.cli.progress import progress
from gkm.cli.status import ANSWER_IS_NO
from gkm.gpus.model import GPU

if TYPE_CHECKING:
    from gkm.caches.compare import Change, Difference
    from gkm.caches.model import Entry, Target
    from gkm.local.inspect import Inspection


class _Gpus(msgspec.Struct, frozen=True):
    gpus: tuple[GPU, ...]


def inspect(
    cache: CacheArgument,
    *,
    ca: CaOption = None,
    plain_http: PlainHttpOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show formats, entries, targets and toolchains of a cache, and what cannot be relocated."""
    from gkm.local.inspect import inspect_cache
    from gkm.local.load import load

    async def work() -> "Inspection":
        with progress() as display:
            options = client_options(ca, plain_http=plain_http)
            async with load(cache, options=options, progress=display) as loaded:
                return inspect_cache(cache, loaded)

    found = asyncio.run(work())
    emit(found, _describe(found), output)


def check(
    cache: CacheArgument,
    *,
    gpu: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PRODUCT", help="Judge against this GPU (H100, 2xMI300X …) instead of this host's."
        ),
    ] = None,
    ca: CaOption = None,
    plain_http: PlainHttpOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Say per GPU whether a cache fits; exit status 1 if it fits none. An image is not downloaded."""
    from gkm.gpus.detect import detect
    from gkm.gpus.simulated import parse_simulated
    from gkm.local.check import check_cache

    gpus = parse_simulated(",".join(gpu)) if gpu else detect()
    report = asyncio.run(check_cache(cache, gpus, options=client_options(ca, plain_http=plain_http)))
    rows = [
        (one.gpu or "-", one.product or "-", one.verdict.value, one.reason, one.factor) for one in report.gpus
    ]
    emit(
        report,
        [
            f"{report.verdict} ({report.reason})",
            *table(("GPU", "PRODUCT", "VERDICT", "REASON", "FACTOR"), rows),
        ],
        output,
    )
    if report.verdict == "Incompatible":
        raise typer.Exit(ANSWER_IS_NO)


def gpus(*, output: OutputOption = Output.TEXT) -> None:
    """List the GPUs of this host, or those that GKM_SIMULATED_GPUS simulates."""
    from gkm.gpus.detect import detect

    found = detect()
    rows = [
        (
            str(gpu.index),
            gpu.product,
            gpu.arch,
            str(gpu.warp_size),
            size(gpu.memory_bytes) if gpu.memory_bytes else "-",
            gpu.driver_version or "-",
            gpu.pci_address or "-",
            gpu.uuid,
        )
        for gpu in found
    ]
    header = ("INDEX", "PRODUCT", "ARCH", "WARP", "MEMORY", "DRIVER", "PCI", "UUID")
    emit(_Gpus(found), table(header, rows) if found else ["no GPUs on this host"], output)


def diff(
    old: CacheArgument,
    new: CacheArgument,
    *,
    ca: CaOption = None,
    plain_http: PlainHttpOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Name the entries and files that differ between two caches; exit status 1 if any do."""
    from gkm.caches.compare import compare
    from gkm.local.load import load

    async def work() -> "Difference":
        options = client_options(ca, plain_http=plain_http)
        with progress() as display:
            async with load(old, options=options, progress=display) as a, load(new, options=options) as b:
                return await asyncio.to_thread(compare, a.directory, b.directory)

    found = asyncio.run(work())
    lines = [
        *_changes("+", found.added),
        *_changes("-", found.removed),
        *_changes("~", found.changed),
    ]
    emit(found, lines or ["no difference"], output)
    if lines:
        raise typer.Exit(ANSWER_IS_NO)


def _changes(sign: str, changes: "tuple[Change, ...]") -> Iterator[str]:
    for change in changes:
        yield f"{sign} {change.name} ({change.entry})" if change.entry else f"{sign} outside any entry"
        yield from (f"    {path}" for path in change.files)


def _describe(found: "Inspection") -> Iterator[str]:
    if found.digest and found.size is not None:
        yield f"digest   {found.digest}"
        yield f"image    {size(found.size)}"
    yield f"cache    {size(found.bytes)} in {found.files} files"
    yield f"targets  {', '.join(_target(target) for target in found.targets) or 'unknown'}"
    for inventory in found.formats:
        kernels = sorted((e for e in inventory.entries if not e.helper), key=lambda e: (e.format, e.name))
        helpers = len(inventory.entries) - len(kernels)
        yield ""
        yield f"{inventory.format} at {inventory.root}: {len(kernels)} entries, {helpers} helpers"
        yield from table(
            ("FORMAT", "NAME", "TARGETS", "TOOLCHAIN", "SIZE"), [_row(entry) for entry in kernels]
        )
        yield f"relocatable files: {len(inventory.relocatable)}"
        for path in inventory.unrelocatable:
            yield f"cannot be relocated: {path.file}: {path.path} ({path.reason})"
    if found.labels:
        yield ""
        yield "labels"
        yield from (f"  {key}={value}" for key, value in sorted(found.labels.items()))


def _row(entry: "Entry") -> tuple[str, ...]:
    toolchain = msgspec.structs.asdict(entry.toolchain)
    facts = [f"{name} {value}" for name, value in toolchain.items() if value and name != "keys"]
    targets = ", ".join(_target(target) for target in entry.targets)
    return (entry.format, entry.name, targets or "-", ", ".join(facts) or "-", size(entry.bytes))


def _target(target: "Target") -> str:
    return f"{target.arch} ({target.product})" if target.product else target.arch
