"""A kopf operator: seconds until its event handler was called for every Pod."""

import asyncio
import logging
import os
import sys
import time

import kopf
from report import report

os.environ["KUBECONFIG"] = sys.argv[1]
logging.disable(logging.WARNING)
count = int(sys.argv[3])
seen: set[str] = set()
complete = asyncio.Event()


@kopf.on.event("pods")
async def on_pod(name: str | None, **_: object) -> None:
    """Count the Pod."""
    seen.add(str(name))
    if len(seen) == count:
        complete.set()


async def main() -> None:
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(kopf.operator(namespaces=[sys.argv[2]]))
        await complete.wait()
        report(len(seen), synced=time.monotonic() - began)


asyncio.run(main())
