"""Trees that nobody needs any more: found again and again, deleted when the grace is over."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import NoReturn

from gkm.agent.config import AgentConfig
from gkm.agent.grants import still_of_use
from gkm.agent.state import NodeState
from gkm.api.grant import GKMGrant
from gkm.store.errors import StoreError
from gkm.store.layers import bytes_of_layers
from gkm.store.sealed import read_tree
from gkm.store.store import Store
from gkm.store.threads import run_to_end

_PROMISED_SECONDS = 30.0
"""From an answer to the mount it takes milliseconds; so long a disk may hang meanwhile."""
_LAYERS_UNUSED_SECONDS = 24 * 3600.0
"""How long a relocation layer is kept for a path at which no pod sees the cache any more: it is small, and the
job that comes once a day wants it."""

_log = logging.getLogger(__name__)


class Garbage:
    """Collects by the clock, once `ready` is set: every grant and every view that outlived a restart is known.

    `in_use` gives the digests that pods have mounted. The store keeps what other processes' views use.
    """

    def __init__(
        self,
        config: AgentConfig,
        store: Store,
        state: NodeState,
        *,
        grants: Callable[[], Iterable[GKMGrant]],
        in_use: Callable[[], frozenset[str]],
        ready: asyncio.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._store = store
        self._state = state
        self._grants = grants
        self._in_use = in_use
        self._ready = ready
        self._clock = clock

    async def run(self) -> NoReturn:
        """Collect until cancelled."""
        await self._ready.wait()
        while True:
            try:
                await self.collect()
            except StoreError as error:
                _log.warning(
                    "collecting garbage failed, next try in %s s: %s", self._config.collect_seconds, error
                )
            await asyncio.sleep(self._config.collect_seconds)

    def kept(self) -> frozenset[str]:
        """The digests that stay."""
        now = self._clock()
        promised = self._state.promised
        for digest in [d for d, when in promised.items() if now - when > _PROMISED_SECONDS]:
            del promised[digest]
        useful = still_of_use(self._grants(), self._state.staged)
        return useful | self._in_use() | self._state.staging.keys() | promised.keys()

    async def collect(self) -> tuple[str, ...]:
        """Delete what may go, and take note of what the store really holds; the digests deleted."""
        before = set(self._state.staged)
        collected = await run_to_end(
            partial(
                self._store.collect,
                keep=self.kept(),
                unused_seconds=self._config.unused_seconds,
                layers_unused_seconds=_LAYERS_UNUSED_SECONDS,
            )
        )
        trees = await run_to_end(partial(trees_of, self._store))
        self._state.layers = await run_to_end(partial(layers_of_trees, self._store, trees))
        # What was staged while we looked is not missing, only newer than our look.
        newer = {d: size for d, size in self._state.staged.items() if d not in before}
        self._state.found({**trees, **newer})
        if collected.removed:
            _log.info("collected %d trees, %d bytes", len(collected.removed), collected.bytes)
        return collected.removed


def trees_of(store: Store) -> dict[str, int]:
    """The digests in the store, and their bytes. A damaged tree is none: staging it again says what to do.

    Raises:
        OSError: the store cannot be listed.
    """
    found: dict[str, int] = {}
    for directory in store.layout.trees.iterdir():
        try:
            tree = read_tree(directory)
        except StoreError as error:
            _log.warning("a sealed tree is left out: %s", error)
            continue
        if tree is not None:
            found[tree.digest] = tree.bytes
    return found


def layers_of_trees(store: Store, digests: Iterable[str]) -> dict[str, int]:
    """The bytes of the relocation layers of each tree of `digests` that has some. Raises `OSError`."""
    sizes = {digest: bytes_of_layers(store.layout.tree(digest)) for digest in digests}
    return {digest: size for digest, size in sizes.items() if size}
