"""The staging controller: brings each granted digest that belongs here onto the node. Keys are digests."""

import base64
import binascii
import logging
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from gkm.agent.child import Extractor
from gkm.agent.config import AgentConfig
from gkm.agent.disk import UNKNOWN_BYTES, DiskSpace
from gkm.agent.errors import PullSecretError
from gkm.agent.fitness import Fitness
from gkm.agent.grants import Source, newest
from gkm.agent.messages import ExtractRequest, Moved
from gkm.agent.metrics import AgentMetrics
from gkm.agent.plan import Action, Wish, after_failure, belongs_here, decide, source_of_attempt, wish_for
from gkm.agent.resources import SECRETS
from gkm.agent.stage import stage
from gkm.agent.state import NodeState
from gkm.agent.telling import STAGED, Tell, nobody
from gkm.api.grant import GKMGrant
from gkm.api.names import SYSTEM_NAMESPACE
from gkm.base.errors import GKMError
from gkm.images.reference import RegistryReference, parse_reference
from gkm.kube.client import Client
from gkm.kube.errors import NotFoundError
from gkm.kube.objects import Key
from gkm.kube.reconcile import Result
from gkm.store.sealed import SealedTree
from gkm.store.store import Store

_SECRET_TYPE = "kubernetes.io/dockerconfigjson"  # noqa: S105  a type, not a secret
_SECRET_KEY = ".dockerconfigjson"  # noqa: S105

_log = logging.getLogger(__name__)


def digest_key(digest: str) -> Key:
    """The controller's key of a digest."""
    return Key("", digest)


def digests_of(grant: GKMGrant) -> Iterable[Key]:
    """The keys that a change of `grant` concerns."""
    digest = newest(grant)
    return [] if digest is None else [digest_key(digest)]


class Staging:
    """Reconciles one digest at a time: stages it, waits, or does nothing.

    `grants` and `node_labels` give what is known now; `judge` is the verdict of this node; `roots` the paths at
    which pods that are here already will see a digest.
    """

    def __init__(
        self,
        config: AgentConfig,
        store: Store,
        extractor: Extractor,
        client: Client,
        state: NodeState,
        *,
        grants: Callable[[], Iterable[GKMGrant]],
        node_labels: Callable[[], dict[str, str]],
        judge: Callable[[GKMGrant], Fitness],
        metrics: AgentMetrics,
        roots: Callable[[str], tuple[str, ...]] = lambda _: (),
        tell: Tell = nobody,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._store = store
        self._extractor = extractor
        self._client = client
        self._state = state
        self._grants = grants
        self._node_labels = node_labels
        self._judge = judge
        self._metrics = metrics
        self._roots = roots
        self._tell = tell
        self._clock = clock
        self._eager_from: dict[str, float] = {}

    def wish(self, digest: str) -> Wish | None:
        """Why `digest` belongs on this node now; None where it does not."""
        return wish_for(
            digest,
            self._grants(),
            judge=self._judge,
            node_labels=self._node_labels(),
            demanded=self._state.demanded,
        )

    def wished(self) -> frozenset[str]:
        """All digests that belong on this node now."""
        labels, demanded = self._node_labels(), self._state.demanded
        return frozenset(
            digest
            for grant in self._grants()
            if (digest := newest(grant)) and belongs_here(grant, self._judge, labels, demanded)
        )

    async def reconcile(self, key: Key) -> Result:
        """Bring the digest that `key` names onto this node, if it belongs here."""
        try:
            return await self._reconcile(key)
        finally:
            self._extractor.keep_ready(wanted=self._may_be_asked())

    def _may_be_asked(self) -> bool:
        """Whether a pod may come for a cache that is not on this node yet."""
        return any(
            digest is not None and digest not in self._state.staged and self._judge(grant).fits
            for grant in self._grants()
            for digest in (newest(grant),)
        )

    async def _reconcile(self, key: Key) -> Result:
        digest, now = key.name, self._clock()
        wish, failure = self.wish(digest), self._state.failures.get(digest)
        if wish is None:
            self._eager_from.pop(digest, None)
            self._state.forget(digest)
            return Result()
        # Spreading load, not a secret.
        jitter = self._config.jitter_seconds * random.random()  # noqa: S311
        eager_from = self._eager_from.setdefault(digest, now + jitter)
        decision = decide(
            wish, staged=digest in self._state.staged, failure=failure, eager_from=eager_from, now=now
        )
        if decision.action is Action.WAIT:
            return Result(requeue_after=decision.seconds)
        if decision.action is Action.STAGE:
            return await self._attempt(wish)
        return Result()

    async def _attempt(self, wish: Wish) -> Result:
        digest, before = wish.digest, self._state.failures.get(wish.digest)
        source = source_of_attempt(wish, before)
        began = self._clock()
        try:
            tree = await self._stage(wish, source)
        except GKMError as error:
            failure = after_failure(wish, before, self._clock())
            self._metrics.failures.labels(error.reason).inc()
            self._state.fail(digest, failure, error.reason, str(error))
            text = f"node {self._config.node} cannot stage the cache: {error}"
            self._tell_all(digest, error.reason, text, warning=True)
            _log.warning(
                "staging %s failed (%d in a row), next try in %.1f s: %s: %s",
                *(source.image, failure.count, failure.pause, error.reason, error),
            )
            return Result(requeue_after=failure.pause)
        finally:
            self._state.abandon(digest)
        self._state.succeed(digest, tree.bytes)
        if before is not None:
            text = f"node {self._config.node} has staged the cache at last"
            self._tell_all(digest, STAGED, text, warning=False)
        seconds = self._clock() - began
        self._metrics.seconds.observe(seconds)
        _log.info("staged %s: %d bytes in %.2f s", source.image, tree.bytes, seconds)
        return Result()

    def _tell_all(self, digest: str, reason: str, message: str, *, warning: bool) -> None:
        """Tell it about every cache that this node would have from `digest`."""
        labels, demanded = self._node_labels(), self._state.demanded
        for grant in self._grants():
            if newest(grant) == digest and belongs_here(grant, self._judge, labels, demanded):
                self._tell(grant, reason, message, warning=warning)

    async def _stage(self, wish: Wish, source: Source) -> SealedTree:
        allowance = self._config.disk.allowance(
            DiskSpace.of(self._store.root),
            staged=self._state.stored_bytes,
            under_way=sum(self._state.staging.values()),
            wanted=wish.bytes,
        )
        # From the check to here nothing is awaited: two digests cannot be promised the same space.
        self._state.begin(wish.digest, UNKNOWN_BYTES if wish.bytes is None else wish.bytes)
        reference = parse_reference(source.image)
        auth = await self._auth(source.pull_secret)
        plain = isinstance(reference, RegistryReference) and reference.host in self._config.plain_http

        def request(directory: Path) -> ExtractRequest:
            return ExtractRequest(
                directory=str(directory),
                image=source.image,
                auth=auth,
                ca=str(self._config.ca) if self._config.ca else None,
                plain_http=plain,
                limit_bytes=allowance,
                roots=self._roots(wish.digest),
            )

        return await stage(
            self._store.layout, self._extractor, wish.digest, request, self._moved(wish.digest)
        )

    def _moved(self, digest: str) -> Callable[[Moved], None]:
        def moved(event: Moved) -> None:
            _log.debug("%s: %d of %d bytes", digest, event.bytes, event.total)
            if event.bytes:
                self._state.moving.add(digest)

        return moved

    async def _auth(self, name: str | None) -> str | None:
        """The text of the mirrored pull secret called `name`."""
        if name is None:
            return None
        where = f"the Secret {SYSTEM_NAMESPACE}/{name}"
        try:
            secret = await self._client.get(SECRETS, name, SYSTEM_NAMESPACE)
        except NotFoundError as error:
            raise PullSecretError(
                f"{where} is gone; the operator makes it again from the cache's own"
            ) from error
        if secret.type != _SECRET_TYPE or _SECRET_KEY not in secret.data:
            raise PullSecretError(f"{where} is not of type {_SECRET_TYPE} with {_SECRET_KEY}: delete it")
        try:
            return base64.b64decode(secret.data[_SECRET_KEY], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise PullSecretError(f"{where} holds no text in {_SECRET_KEY}: delete it") from error
