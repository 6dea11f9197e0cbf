"""Options that several commands share, so that each is named and explained once.

Command modules import the rooms they use inside their functions: `gkm gpus` should not wait for an HTTP client.
"""

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gkm.images.options import ClientOptions
    from gkm.store.store import Store


class Output(enum.StrEnum):
    """How a command answers on stdout."""

    TEXT = "text"
    JSON = "json"


class Compression(enum.StrEnum):
    """How layers are compressed; gzip is for readers that know nothing newer, upstream's MCV among them."""

    ZSTD = "zstd"
    GZIP = "gzip"


OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="text for people, or json: one document on stdout.")
]
CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca", exists=True, dir_okay=False, help="PEM file with the CA of the registry's certificate."
    ),
]
PlainHttpOption = Annotated[
    bool, typer.Option("--plain-http", help="Speak HTTP to registries. Loopback needs no permission.")
]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", file_okay=False, help="The store's directory (default: $GKM_STORE, see docs)."),
]
ImageArgument = Annotated[
    str, typer.Argument(help="HOST/REPO[:TAG][@DIGEST] or oci:DIR[:TAG]", metavar="IMAGE")
]
CacheArgument = Annotated[str, typer.Argument(help="an image, or a plain cache directory", metavar="CACHE")]


def client_options(ca: Path | None, *, plain_http: bool) -> "ClientOptions":
    """The registry client's options from the two shared flags."""
    from gkm.images.options import ClientOptions

    return ClientOptions(ca=ca, plain_http=plain_http)


def open_store(directory: Path | None) -> "Store":
    """The store named by `--store`, or the default one."""
    from gkm.store.location import default_store
    from gkm.store.store import Store

    return Store.open(directory or default_store())
