"""Staging: a cache image becomes a sealed tree, once, however many ask for it at the same time."""

from functools import partial
from typing import TYPE_CHECKING

from gkm.caches.image_paths import tree_path
from gkm.images.bridge import unpack_image
from gkm.images.image import Image
from gkm.images.limits import Limits
from gkm.images.progress import Progress
from gkm.images.repository import Repository
from gkm.store.claims import Claim, claim
from gkm.store.damage import whole_tree
from gkm.store.errors import NotACacheImageError, disk_error
from gkm.store.layout import Layout
from gkm.store.locks import waiting_for
from gkm.store.seal import seal
from gkm.store.sealed import FILES, SealedTree
from gkm.store.threads import run_to_end
from gkm.store.trash import throw_away
from gkm.store.usetime import mark_used

if TYPE_CHECKING:
    from gkm.store.store import Store


async def stage(
    store: "Store",
    repository: Repository,
    image: Image,
    *,
    reference: str | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> SealedTree:
    """The sealed tree of `image`, fetched from `repository` unless it is staged already.

    `reference` is recorded for people; without it the digest is. One process fetches, others that want the
    same digest wait; if it fails or dies, the next one tries. A failure, a cancellation or a kill leaves
    nothing but what the next opening of the store clears away.

    Raises:
        RegistryError: the image cannot be fetched, or is not what its digests say.
        NotACacheImageError: it is an image of something else.
        LayerError, UsageError: its content is refused.
        StoreFullError, StoreError: the disk failed.
    """
    layout, digest = store.layout, image.descriptor.digest
    try:
        async with waiting_for(layout.digest_lock(digest)):
            mark_used(layout, digest)
            tree = whole_tree(layout, digest)
            if tree is not None:
                return tree
            owned = claim(layout, layout.staging)
            try:
                directory = owned.path / "tree"
                directory.mkdir(mode=0o700)
                unpacked = await unpack_image(
                    repository,
                    image,
                    directory / FILES,
                    select=tree_path,
                    limits=limits,
                    open_to_all=True,
                    progress=progress,
                )
                if not unpacked.members:
                    raise NotACacheImageError(
                        f"{reference or digest} holds no kernel cache (nothing below io.FORMAT.cache/):"
                        " name an image made by `gkm pack` or by MCV"
                    )
                sealing = partial(
                    seal,
                    layout,
                    directory,
                    unpacked.members,
                    digest=digest,
                    image=reference or digest,
                    labels=image.labels,
                )
                return await run_to_end(sealing)
            finally:
                await run_to_end(partial(_clear, layout, owned))
    except OSError as error:
        raise disk_error(error, f"staging {reference or digest}", layout.root) from error


def _clear(layout: Layout, owned: Claim) -> None:
    try:
        throw_away(layout, owned.path)
    finally:
        owned.close()
