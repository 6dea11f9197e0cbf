"""kr8s has no informer: seconds to list every Pod into memory, which is what one would begin with."""

import asyncio
import sys
import time

import kr8s.asyncio
from report import report


async def main(kubeconfig: str, namespace: str) -> None:
    api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
    began = time.monotonic()
    pods = [pod async for pod in api.get("pods", namespace=namespace)]
    report(len(pods), synced=time.monotonic() - began)


asyncio.run(main(sys.argv[1], sys.argv[2]))
