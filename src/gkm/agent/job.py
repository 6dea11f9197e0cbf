"""gkm-extract as a Job runs it, with the environment of the upstream operator's extraction Job.

The directory is a volume that pods mount as it is, so there is no store: the plain tree stands in it, and
``.initialized`` says that it is whole and which image it is. A later image takes the place of an earlier one.
"""

import asyncio
import fcntl
import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gkm.agent.errors import AgentError
from gkm.base.errors import UsageError
from gkm.base.files import remove_tree, sync_directory, write_atomic
from gkm.caches.image_paths import tree_path
from gkm.caches.labels import targets_from_labels
from gkm.caches.verdict import Verdict, judge, overall
from gkm.gpus.detect import SIMULATED, detect
from gkm.gpus.errors import GPUDetectionError
from gkm.images.bridge import unpack_image
from gkm.images.image import Image, fetch_image
from gkm.images.open import open_repository
from gkm.images.reference import parse_reference

_LOCK = ".extract.lock"
_DONE = ".initialized"
_SCRATCH = ".extracting."

_log = logging.getLogger(__name__)


class IncompatibleError(AgentError):
    """The cache fits no GPU that this Job sees."""


@dataclass(frozen=True, slots=True)
class Job:
    """One extraction, as the environment asks for it."""

    directory: Path
    image: str
    no_gpu: bool

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Job":
        """The Job in ``GKM_CACHE_DIR``, ``GKM_IMAGE_URL`` and ``NO_GPU``. Raises `UsageError`."""
        directory, image = environ.get("GKM_CACHE_DIR", ""), environ.get("GKM_IMAGE_URL", "")
        if not directory or not image:
            raise UsageError("set GKM_CACHE_DIR to the directory to fill, and GKM_IMAGE_URL to the image")
        no_gpu = environ.get("NO_GPU", "").lower() == "true" and not environ.get(SIMULATED)
        return cls(Path(directory), image, no_gpu)


async def fill(job: Job, environ: Mapping[str, str]) -> bool:
    """Make the Job's directory the tree of its image; False when it is that already.

    Other Jobs with the same directory wait. A failure leaves the directory as it was.

    Raises:
        IncompatibleError: it fits no GPU here, and the check is not switched off.
        GKMError: the image cannot be had, or is refused.
        OSError: the directory cannot be written.
    """
    reference = parse_reference(job.image)
    job.directory.mkdir(parents=True, exist_ok=True)
    with (job.directory / _LOCK).open("ab") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        done = job.directory / _DONE
        if done.is_file() and done.read_text(encoding="utf-8", errors="replace") == job.image:
            return False
        _clear_scratch(job.directory)
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=job.directory))
        try:
            async with open_repository(reference) as repository:
                image = await fetch_image(repository, reference)
                if not job.no_gpu:
                    _check_fit(image, environ)
                await unpack_image(repository, image, scratch / "tree", select=tree_path, open_to_all=True)
            await asyncio.to_thread(_replace, job, scratch / "tree")
        finally:
            await asyncio.to_thread(remove_tree, scratch)
    return True


def _check_fit(image: Image, environ: Mapping[str, str]) -> None:
    try:
        gpus = detect(environ)
    except GPUDetectionError as error:
        _log.warning("the GPUs cannot be asked, so the cache is taken unchecked: %s", error)
        return
    verdict = overall(judge(targets_from_labels(image.labels), gpus))
    _log.info("verdict: %s (%s)", verdict.verdict, verdict.factor)
    if verdict.verdict is Verdict.INCOMPATIBLE:
        raise IncompatibleError(
            f"the cache does not fit: {verdict.factor}; run on another node, or set NO_GPU=true"
        )


def _replace(job: Job, tree: Path) -> None:
    """Put what is in `tree` in place of what is in the directory, the mark of completeness first and last."""
    done = job.directory / _DONE
    done.unlink(missing_ok=True)
    for old in job.directory.iterdir():
        if old.name not in (_LOCK, tree.parent.name):
            remove_tree(old)
    for new in tree.iterdir():
        new.rename(job.directory / new.name)
        _log.info("extracted %s", new.name)
    os.sync()
    sync_directory(job.directory)
    write_atomic(done, job.image.encode())


def _clear_scratch(directory: Path) -> None:
    """Remove what a Job that died left; the lock says that none works there now."""
    for left in directory.glob(f"{_SCRATCH}*"):
        remove_tree(left)
