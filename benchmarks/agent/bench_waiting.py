"""Waiting for what only asking again can tell."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
SECONDS = 120.0
"""More than anything here takes; a benchmark that waits longer measures nothing."""


async def until(look: Callable[[], Awaitable[T]], holds: Callable[[T], object], what: str) -> T:
    """What `look` gives, once `holds` is true of it. Ends the run where that takes `SECONDS`."""
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                if holds(found := await look()):
                    return found
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise SystemExit(f"did not come true within {SECONDS:.0f} s: {what}") from None
