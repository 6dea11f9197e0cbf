"""The main job on one machine: a command that starts with its kernels compiled already.

Stage the image, judge it, mount it for this one run, run the command in that view, say what was hit. A cache
that cannot be had or cannot fit never keeps the command from starting: it starts cold, with the reason said
(contracts.md, "The command"); only `require_hit` asks for a refusal instead.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gkm.base.errors import GKMError
from gkm.caches.environment import variables
from gkm.caches.labels import targets_from_labels
from gkm.caches.model import Inventory
from gkm.caches.upper import added_files
from gkm.caches.usage import Usage, count
from gkm.caches.verdict import GPUVerdict, Reason, Verdict, judge, overall
from gkm.gpus.detect import detect
from gkm.gpus.errors import GPUDetectionError
from gkm.images.image import Image, fetch_image
from gkm.images.open import open_repository
from gkm.images.options import ClientOptions
from gkm.images.progress import Progress
from gkm.images.reference import parse_reference
from gkm.local.capture import Capture, save_capture
from gkm.local.errors import CacheRefusedError
from gkm.local.pack import PackReport
from gkm.local.report import RunReport
from gkm.store.prepare import PreparedMount, prepared_mount
from gkm.store.sealed import SealedTree
from gkm.store.session import SessionResult, run_in_view
from gkm.store.stage import stage
from gkm.store.store import Store


class RunRequest(msgspec.Struct, frozen=True):
    """What `gkm run` was asked for."""

    command: tuple[str, ...]
    cache: str | None = None
    save: str | None = None
    mount: Path | None = None
    """Where the command shall see the cache; None for a private directory."""
    require_hit: bool = False
    options: ClientOptions = ClientOptions()


class Readiness(msgspec.Struct, frozen=True):
    """What the command can start with; `cold_because` is set where a cache was asked for and there is none."""

    tree: SealedTree | None = None
    image: str | None = None
    digest: str | None = None
    verdict: GPUVerdict | None = None
    cold_because: str | None = None
    seconds: float = 0.0


async def make_ready(
    store: Store, request: RunRequest, environ: Mapping[str, str], progress: Progress | None = None
) -> Readiness:
    """Judge and stage the cache that `request` names.

    The verdict comes first, from labels: what cannot fit is not downloaded. Whatever fails means a cold start.

    Raises:
        UsageError: a reference that names nothing; also that of `request.save`, before anything is run.
        CacheRefusedError: `request.require_hit`, and the start would be cold.
    """
    if request.save is not None:
        parse_reference(request.save)
    if request.cache is None:
        return Readiness()
    reference = parse_reference(request.cache)
    started = time.monotonic()
    ready = Readiness(image=str(reference))
    try:
        async with open_repository(reference, request.options) as repository:
            image = await fetch_image(repository, reference)
            verdict = await asyncio.to_thread(_judge, image, environ)
            ready = msgspec.structs.replace(ready, digest=image.descriptor.digest, verdict=verdict)
            if verdict is not None and verdict.verdict is Verdict.INCOMPATIBLE:
                because = f"the cache does not fit: {verdict.factor} ({verdict.reason})"
                ready = msgspec.structs.replace(ready, cold_because=because)
            else:
                tree = store.tree(image.descriptor.digest)
                if tree is None:
                    tree = await stage(store, repository, image, reference=str(reference), progress=progress)
                ready = msgspec.structs.replace(ready, tree=tree)
    except (GKMError, OSError) as error:
        ready = msgspec.structs.replace(ready, cold_because=str(error))
    if ready.cold_because is not None and request.require_hit:
        raise CacheRefusedError(f"--require-hit: not started, for it would be cold: {ready.cold_because}")
    return msgspec.structs.replace(ready, seconds=round(time.monotonic() - started, 3))


def run(
    store: Store,
    request: RunRequest,
    ready: Readiness,
    *,
    environ: Mapping[str, str] | None = None,
) -> RunReport:
    """Run the command in a view of its own of what is `ready`; wait for its end and take stock.

    Call from the main thread: while the command runs, this process's signals are the command's. Raises
    `CommandError` where it cannot be started, `TargetError` for a mount path that cannot be used, `NotSavedError`
    where the capture could not be written, `StoreError` where disk or mount failed.
    """
    environ = os.environ if environ is None else environ
    inventory = ready.tree.inventory if ready.tree is not None else None
    with prepared_mount(store, ready.tree, target=request.mount, secluded=True) as prepared:
        view = str(prepared.target)
        frameworks = variables(inventory, view)
        _make_directories(prepared, frameworks)
        result = run_in_view(prepared, request.command, {**environ, **frameworks})
        usage = count(inventory or _NOTHING, result.observation.opened, prepared.upper, prepared.lower)
        saved = None
        if request.save is not None:
            capture = Capture(ready.tree, added_files(prepared.upper, prepared.lower))
            saved = asyncio.run(save_capture(capture, request.save, store, request.options))
    return _report(request, ready, result, usage, saved, view=view)


def _judge(image: Image, environ: Mapping[str, str]) -> GPUVerdict | None:
    """The verdict on this host; None where the check is switched off, as upstream's NO_GPU does."""
    if environ.get("NO_GPU", "").lower() == "true" and not environ.get("GKM_SIMULATED_GPUS"):
        return None
    try:
        gpus = detect(environ)
    except GPUDetectionError as error:
        # Only a known no keeps a cache away; a driver that cannot be asked is no answer.
        return GPUVerdict(None, None, Verdict.UNKNOWN, Reason.NO_GPU, str(error))
    return overall(judge(targets_from_labels(image.labels), gpus))


def _make_directories(prepared: PreparedMount, frameworks: Mapping[str, str]) -> None:
    """A framework may expect its directory to exist; below an empty view nothing does yet."""
    if prepared.tree is None:
        for path in frameworks.values():
            below = Path(path).relative_to(prepared.target)
            (prepared.layer / below).mkdir(parents=True, exist_ok=True)
            (prepared.layer / below).chmod(0o777)


def _report(
    request: RunRequest,
    ready: Readiness,
    result: SessionResult,
    usage: Usage,
    saved: PackReport | None,
    *,
    view: str,
) -> RunReport:
    cold = ready.tree is None
    seen = result.observation
    return RunReport(
        command=request.command,
        image=ready.image,
        digest=ready.digest,
        verdict=ready.verdict.verdict.value if ready.verdict else None,
        reason=ready.verdict.reason.value if ready.verdict else None,
        cold=cold,
        cold_because=ready.cold_because,
        mount=result.mode.value,
        path=view,
        entries=len(ready.tree.inventory.entries) if ready.tree is not None else 0,
        hits=None if seen.kind == "none" else usage.hits,
        misses=0 if cold else usage.misses,
        missed=() if cold else usage.missed,
        compiled=usage.misses,
        observation=f"{seen.kind}({seen.reason})" if seen.kind == "partial" else seen.kind,
        seconds=round(result.seconds, 3),
        staging_seconds=ready.seconds,
        exit_status=result.exit_status,
        saved=saved.digest if saved else None,
        saved_image=saved.image if saved else None,
    )


_NOTHING = Inventory(formats=(), files=(), bytes=0)
