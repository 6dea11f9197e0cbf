"""Staging one digest on a node: a child fetches and seals, the agent takes the tree over.

Like `gkm.store.stage`, but nothing foreign is parsed in this process, and the child never sees the store: it
works in a directory of its own below ``staging/``, with other ids, and is dead before its tree is looked at.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from gkm.agent.adopt import adopt
from gkm.agent.child import Extractor
from gkm.agent.errors import ExtractionFailedError
from gkm.agent.messages import ExtractRequest, Moved
from gkm.store.claims import Claim, claim
from gkm.store.damage import whole_tree
from gkm.store.errors import disk_error
from gkm.store.layout import Layout
from gkm.store.locks import waiting_for
from gkm.store.sealed import SealedTree
from gkm.store.threads import run_to_end
from gkm.store.trash import throw_away
from gkm.store.usetime import mark_used

MakeRequest = Callable[[Path], ExtractRequest]
"""The request, once it is known where the child's store is to be."""


async def stage(
    layout: Layout, extractor: Extractor, digest: str, request: MakeRequest, moved: Callable[[Moved], None]
) -> SealedTree:
    """The sealed tree of `digest`; fetched by a child unless it is here, or another process brings it meanwhile.

    A failure, a cancellation or a kill leaves nothing but what the next opening of the store clears away.

    Raises:
        ExtractionFailedError, ExtractionCrashedError, TreeRefusedError: the child or its tree failed.
        StoreFullError, StoreError: the disk failed.
    """
    try:
        async with waiting_for(layout.digest_lock(digest)):
            mark_used(layout, digest)
            tree = whole_tree(layout, digest)
            if tree is not None:
                return tree
            async with handed_over(layout, extractor) as directory:
                await _extract(extractor, request(directory), moved, layout)
                return await run_to_end(partial(adopt, layout, Layout(directory), digest))
    except OSError as error:
        raise disk_error(error, f"staging {digest}", layout.root) from error


@asynccontextmanager
async def handed_over(layout: Layout, extractor: Extractor) -> AsyncIterator[Path]:
    """An empty directory on the store's filesystem that belongs to a child of `extractor`, for the length of a
    block. Raises `OSError`.
    """
    owned = claim(layout, layout.staging)
    try:
        yield _hand_over(layout, owned, extractor)
    finally:
        await run_to_end(partial(_clear, layout, owned))


async def _extract(
    extractor: Extractor, request: ExtractRequest, moved: Callable[[Moved], None], layout: Layout
) -> None:
    try:
        await extractor.extract(request, moved)
    except ExtractionFailedError as error:
        # The child's directory has another name at each attempt; one and the same fault has to read the same.
        text = str(error).replace(request.directory, str(layout.root))
        raise ExtractionFailedError(text, error.reason) from error


def _hand_over(layout: Layout, owned: Claim, extractor: Extractor) -> Path:
    """An empty directory that belongs to the child. It may pass through ours, whose names only we can list."""
    directory = owned.path / "store"
    directory.mkdir(mode=0o700)
    if extractor.identity is not None:
        os.chown(directory, extractor.identity.uid, extractor.identity.gid)
        for way in (owned.path, layout.staging):
            way.chmod(0o711)
    return directory


def _clear(layout: Layout, owned: Claim) -> None:
    try:
        throw_away(layout, owned.path)
    finally:
        owned.close()
