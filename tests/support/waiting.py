"""Waiting for something to become true, with a limit that only a failing test reaches."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], what: str = "", seconds: float = 15.0) -> None:
    """Return once `condition` holds; it is looked at every 10 ms."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"did not come true within {seconds} s: {what or condition}") from None
