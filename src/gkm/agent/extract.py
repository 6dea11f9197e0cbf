"""What gkm-extract does for an agent: stage one digest into a store of its own, and tell how it goes.

The agent takes the sealed tree over afterwards (`gkm.agent.adopt`); this process never reaches the node's store.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gkm.agent.messages import MESSAGE_LENGTH, ExtractEvent, ExtractRequest, Failed, Moved, Staged, failure
from gkm.base.errors import GKMError, UsageError
from gkm.images.auth_config import Credentials, decode_auth_config, entry_credentials, find_entry
from gkm.images.credentials import CredentialSource, NoCredentials
from gkm.images.errors import DigestMismatchError
from gkm.images.image import fetch_image
from gkm.images.limits import Limits
from gkm.images.open import open_repository
from gkm.images.options import ClientOptions
from gkm.images.reference import parse_reference
from gkm.store.sealed import SealedTree
from gkm.store.store import Store

Tell = Callable[[ExtractEvent], None]

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 0.5
HEARTBEAT_SECONDS = 5.0
"""How often a sign of life comes at least, whatever the registry and the disk do."""


class SecretCredentials:
    """Credentials out of the text of a pull secret (Kubernetes, ``kubernetes.io/dockerconfigjson``)."""

    def __init__(self, text: str) -> None:
        """Raises `CredentialsError` for text that is no such document."""
        self._config = decode_auth_config(text.encode(), "the pull secret")

    async def find(self, host: str, repository: str) -> Credentials | None:
        """The secret's entry for the longest prefix of ``host/repository``; helpers it names are ignored."""
        entry = find_entry(self._config, host, repository)
        return None if entry is None else entry_credentials(entry, f"the pull secret's entry for {host}")


class Reporter:
    """A `gkm.images.progress.Progress` that tells how many bytes came, at most twice a second."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        self._bytes = 0
        self._total = 0
        self._told = float("-inf")

    def start(self, name: str, total: int) -> None:
        """A layer begins."""
        del name
        self._total += total

    def advance(self, name: str, n: int) -> None:
        """`n` more bytes of it came."""
        del name
        self._bytes += n
        if self._clock() - self._told >= _EVERY_SECONDS:
            self.tell()

    def finish(self, name: str) -> None:
        """A layer is done."""

    def tell(self) -> None:
        """Tell how far it is, now."""
        self._told = self._clock()
        self._tell(Moved(self._bytes, self._total))


async def extract(request: ExtractRequest, tell: Tell) -> bool:
    """Stage what `request` asks for; whether that worked. The last event told is `Staged` or `Failed`."""
    reporter = Reporter(tell)
    heart = asyncio.create_task(_beat(reporter))
    try:
        tree = await _stage(request, reporter)
    except GKMError as error:
        tell(failure(error))
        return False
    except OSError as error:
        tell(Failed("StoreFailed", f"staging {request.image}: {error}"[:MESSAGE_LENGTH]))
        return False
    finally:
        heart.cancel()
    tell(Staged(tree.digest, tree.bytes, tree.record.files))
    return True


async def _stage(request: ExtractRequest, reporter: Reporter) -> SealedTree:
    reference = parse_reference(request.image)
    if reference.digest is None:
        raise UsageError(f"{request.image} names no digest: an agent stages digests alone")
    credentials: CredentialSource = SecretCredentials(request.auth) if request.auth else NoCredentials()
    options = ClientOptions(
        ca=Path(request.ca) if request.ca else None, plain_http=request.plain_http, credentials=credentials
    )
    limits = Limits()
    if request.limit_bytes is not None:
        limits = replace(limits, bytes=min(limits.bytes, request.limit_bytes))
    store = await asyncio.to_thread(Store.open, Path(request.directory))
    async with open_repository(reference, options) as repository:
        image = await fetch_image(repository, reference)
        if image.descriptor.digest != reference.digest:
            # An index: what it leads to depends on who asks, and only what was granted may be staged.
            raise DigestMismatchError(
                f"{request.image} leads to the image {image.descriptor.digest}: grant that digest instead"
            )
        tree = await store.stage(repository, image, reference=request.image, progress=reporter, limits=limits)
    for root in request.roots:
        try:
            await asyncio.to_thread(store.relocated, tree, root)
        except GKMError as error:
            # The tree is whole. Who asks for this path will hear of it.
            _log.warning("%s is not relocated to %s yet: %s", request.image, root, error)
    return tree


async def _beat(reporter: Reporter) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_SECONDS)
        reporter.tell()
