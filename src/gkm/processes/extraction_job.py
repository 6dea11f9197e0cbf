"""What gkm-extract does as an extraction Job's container."""

import asyncio
import logging
from collections.abc import Mapping

from gkm.agent.job import Job, fill
from gkm.base.errors import GKMError

_log = logging.getLogger("gkm-extract")


def run_job(environ: Mapping[str, str]) -> bool:
    """Fill the directory that `environ` names with the image that it names; whether that worked."""
    try:
        job = Job.of(environ)
        fresh = asyncio.run(fill(job, environ))
    except (GKMError, OSError) as error:
        reason = error.reason if isinstance(error, GKMError) else type(error).__name__
        _log.error("%s: %s", reason, error)
        return False
    _log.info("%s: %s", job.directory, "filled" if fresh else "is filled with this image already")
    return True
