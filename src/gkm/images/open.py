"""From what a person wrote to a repository that is ready to use."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gkm.images.layout import LayoutRepository
from gkm.images.options import ClientOptions
from gkm.images.reference import LayoutReference, Reference
from gkm.images.repository import Repository


@asynccontextmanager
async def open_repository(
    reference: Reference, options: ClientOptions | None = None
) -> AsyncIterator[Repository]:
    """The repository that `reference` names, open until the block ends.

    A server on loopback is asked whether it speaks TLS; else nothing is sent yet, so that a registry that is
    down, or a directory that is no layout, shows at the first use.

    Raises:
        UsageError: `options.ca` is not a file of certificates.
    """
    repository: Repository
    if isinstance(reference, LayoutReference):
        repository = LayoutRepository(reference.directory)
    else:
        # A layout directory needs no HTTP client: its import would be a tenth of a warm `gkm run`.
        from gkm.images.connect import connect  # noqa: PLC0415

        repository = await connect(reference, options or ClientOptions())
    try:
        yield repository
    finally:
        await repository.aclose()
