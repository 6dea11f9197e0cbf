"""Does this cache fit these GPUs? Answered from labels alone for an image, before any download."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gkm.caches.labels import targets_from_labels
from gkm.caches.model import Target
from gkm.caches.verdict import GPUVerdict, judge, overall
from gkm.gpus.model import GPU
from gkm.images.options import ClientOptions
from gkm.local.load import fetch, is_directory
from gkm.local.pack import scan_cache


class CheckReport(msgspec.Struct, frozen=True, rename="camel"):
    """The document of `gkm check`: the answer as a whole (one fitting GPU is enough), then per GPU."""

    cache: str
    digest: str | None
    verdict: str
    reason: str
    targets: tuple[Target, ...]
    gpus: tuple[GPUVerdict, ...]


async def check_cache(
    cache: str, gpus: Sequence[GPU], *, options: ClientOptions | None = None
) -> CheckReport:
    """Judge `cache`, an image or a directory, against `gpus`."""
    digest = None
    if is_directory(cache):
        inventory = await asyncio.to_thread(scan_cache, Path(cache).expanduser())
        targets = inventory.targets
    else:
        image = await fetch(cache, options or ClientOptions())
        digest = image.descriptor.digest
        targets = targets_from_labels(image.labels)
    verdicts = judge(targets, gpus)
    answer = overall(verdicts)
    return CheckReport(
        cache=cache,
        digest=digest,
        verdict=answer.verdict.value,
        reason=answer.reason,
        targets=targets,
        gpus=verdicts,
    )
