"""`gkm pack`, `push`, `pull`, `unpack`: caches and cache images from one place to another."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from gkm.cli.options import (
    CaOption,
    Compression,
    ImageArgument,
    Output,
    OutputOption,
    PlainHttpOption,
    StoreOption,
    client_options,
    open_store,
)
from gkm.cli.output import emit, size
from gkm.cli.progress import progress


def pack(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="the directory a compiler wrote its cache to")
    ],
    image: ImageArgument,
    *,
    compression: Annotated[
        Compression, typer.Option(help="gzip for readers such as MCV.")
    ] = Compression.ZSTD,
    ca: CaOption = None,
    plain_http: PlainHttpOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Pack a kernel cache into a cache image, in a registry or a layout directory."""
    from gkm.local.pack import pack_directory

    with progress() as display:
        report = asyncio.run(
            pack_directory(
                directory,
                image,
                compression=compression.value,
                options=client_options(ca, plain_http=plain_http),
                progress=display,
            )
        )
    sizes = f"{size(report.cache_bytes)} → {size(report.size)}"
    emit(
        report,
        [
            f"{report.image} is {report.digest}",
            f"{report.entries} entries ({', '.join(report.formats)}), {report.files} files, {sizes}",
        ],
        output,
    )


def push(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="the IMAGE to copy")],
    destination: Annotated[str, typer.Argument(metavar="DESTINATION", help="the IMAGE to make")],
    *,
    ca: CaOption = None,
    plain_http: PlainHttpOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Copy a cache image between registries and layout directories, digest unchanged."""
    from gkm.local.transfer import push as push_image

    with progress() as display:
        result = asyncio.run(
            push_image(
                source, destination, options=client_options(ca, plain_http=plain_http), progress=display
            )
        )
    emit(
        result,
        [f"{destination} is {result.digest}: {size(result.bytes)} copied in {result.seconds:.2f} s"],
        output,
    )


def pull(
    image: ImageArgument,
    *,
    store: StoreOption = None,
    ca: CaOption = None,
    plain_http: PlainHttpOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Stage a cache image into the store: pulled, verified, unpacked, sealed."""
    from gkm.local.transfer import pull as pull_image

    opened = open_store(store)
    with progress() as display:
        report = asyncio.run(
            pull_image(opened, image, options=client_options(ca, plain_http=plain_http), progress=display)
        )
    how = "was staged already" if report.already_staged else f"staged in {report.seconds:.2f} s"
    emit(report, [f"{report.digest}: {report.entries} entries, {size(report.bytes)}, {how}"], output)


def unpack(
    image: ImageArgument,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="a new or empty directory")],
    *,
    relocate: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Rewrite absolute paths for a tree that will be used at PATH."),
    ] = None,
    ca: CaOption = None,
    plain_http: PlainHttpOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Write the plain tree of a cache image to a directory, byte for byte as it was packed."""
    from gkm.local.transfer import unpack as unpack_image

    with progress() as display:
        report = asyncio.run(
            unpack_image(
                image,
                directory,
                relocate_to=relocate,
                options=client_options(ca, plain_http=plain_http),
                progress=display,
            )
        )
    relocated = f", {report.relocated} rewritten for {relocate}" if relocate else ""
    emit(
        report,
        [f"{directory}: {report.files} files, {size(report.bytes)}{relocated}, from {report.digest}"],
        output,
    )
