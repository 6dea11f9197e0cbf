"""Sealed trees as the CSI driver mounts them: relocated to where a pod sees them, and whole.

Parsing a tree and rewriting its files is done by a child without privileges, once for each tree and path. A tree
that turns out damaged is set aside, so that it is staged again.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from gkm.agent.adopt import take_over_layer
from gkm.agent.child import Extractor
from gkm.agent.errors import ExtractionFailedError
from gkm.agent.messages import RelocateRequest
from gkm.agent.stage import handed_over
from gkm.agent.state import NodeState
from gkm.base.errors import GKMError
from gkm.store.damage import set_aside
from gkm.store.errors import StoreError, TreeDamagedError, TreeMissingError, disk_error
from gkm.store.layers import Layer, bytes_of_layers, find_layer
from gkm.store.relocated import layer_limit
from gkm.store.relocation import install_layer
from gkm.store.sealed import SealedTree
from gkm.store.store import Store
from gkm.store.threads import run_to_end

_AT_ONCE = 2
"""Children that relocate; they are busy, not waiting for a network."""
_MENDED_SECONDS = 600.0
"""A tree damaged again within so short a time is not helped by staging it once more."""

_log = logging.getLogger(__name__)


class Trees:
    """The trees of `store`. `again` is told each digest that has to be staged again."""

    def __init__(
        self,
        store: Store,
        extractor: Extractor,
        state: NodeState,
        *,
        again: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._extractor = extractor
        self._state = state
        self._again = again
        self._clock = clock
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._making: dict[tuple[str, str], asyncio.Task[Layer]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._mended: dict[str, float] = {}

    async def layer(self, digest: str, root: str) -> Layer | None:
        """The relocation layer of the tree of `digest` for `root`; None where the tree needs none.

        Pods that want the same one wait for one child. A caller that gives up does not end it: the next call
        finds the layer there.

        Raises:
            TreeMissingError, TreeDamagedError: the tree is gone, or not what was sealed.
            GKMError: it cannot be made.
        """
        tree, found = await asyncio.to_thread(self._look, digest, root)
        if found is not None or not tree.relocatable.files:
            return found
        key = (digest, root)
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.create_task(self._make(tree, root))
            task.add_done_callback(partial(self._made, key))
        return await asyncio.shield(task)

    def ahead(self, digest: str, root: str) -> None:
        """Have the layer ready for a pod that is about to ask for it. Never waits and never fails."""
        task = asyncio.create_task(self._ahead(digest, root))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ahead(self, digest: str, root: str) -> None:
        try:
            await self.layer(digest, root)
        except GKMError as error:
            # Who asks for it meets the same, and can be told.
            _log.info("%s is not relocated to %s ahead: %s", digest, root, error)

    async def lost(self, digest: str, error: StoreError) -> bool:
        """The tree of `digest` could not be used, because of `error`; whether it is staged again.

        It is not where it was staged again for the same cause only just now.
        """
        now = self._clock()
        damaged = isinstance(error, TreeDamagedError)
        if damaged and now - self._mended.get(digest, float("-inf")) < _MENDED_SECONDS:
            return False
        if damaged:
            self._mended[digest] = now
            _log.error("%s is set aside and staged again: %s", digest, error)
            try:
                await run_to_end(partial(set_aside, self._store.layout, digest))
            except OSError as failure:
                raise disk_error(failure, f"setting {digest} aside", self._store.root) from failure
        self._state.lose(digest)
        self._again(digest)
        return True

    async def aclose(self) -> None:
        """End what is under way; what was half-made is deleted."""
        tasks = [*self._making.values(), *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _look(self, digest: str, root: str) -> tuple[SealedTree, Layer | None]:
        tree = self._store.tree(digest)
        if tree is None:
            raise TreeMissingError(f"{digest} is no longer staged: asking again")
        try:
            return tree, find_layer(tree, root)
        except OSError as error:
            raise disk_error(error, f"looking for a layer of {digest}", self._store.root) from error

    def _made(self, key: tuple[str, str], task: asyncio.Task[Layer]) -> None:
        del self._making[key]
        # Every caller may have given up; without this Python complains that nobody looked.
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.info("relocating %s to %s failed: %s", *key, error)

    async def _make(self, tree: SealedTree, root: str) -> Layer:
        began = self._clock()
        layout = self._store.layout
        try:
            async with self._slots, handed_over(layout, self._extractor) as directory:
                built = directory / "layer"
                limit = layer_limit(tree.relocatable)
                request = RelocateRequest(str(built), root, limit)
                await self._extractor.relocate(tree.directory, request)
                await run_to_end(partial(take_over_layer, built, tree.relocatable))
                layer = await run_to_end(partial(install_layer, layout, tree, built, root))
                size = await asyncio.to_thread(bytes_of_layers, tree.directory)
        except ExtractionFailedError as error:
            if error.reason == TreeDamagedError.reason:
                raise TreeDamagedError(str(error)) from error
            raise
        except OSError as error:
            raise disk_error(error, f"relocating {tree.digest}", layout.root) from error
        self._state.layers[tree.digest] = size
        _log.info(
            "relocated %s to %s: %d files in %.2f s",
            *(tree.digest, root, layer.record.files, self._clock() - began),
        )
        return layer
