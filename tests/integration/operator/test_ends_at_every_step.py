"""An operator that loses its lease right after its n-th write, for every n: the next one ends where it
would have."""

from pathlib import Path

import pytest

from gkm.kube.errors import NotLeaderError
from gkm.kube.fence import Fence
from support.operating import Bench, delivered, operating, push
from support.waiting import until


class Budget(Fence):
    """Lets so many writes pass, then none."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.left = writes

    def check(self, request: str) -> None:
        """Count `request`, unless it is an Event, which changes nothing that anyone relies on."""
        if "/events" in request:
            return
        if self.left <= 0:
            self.left = -1
            raise NotLeaderError(f"{request} was not sent: the budget is spent")
        self.left -= 1


@pytest.mark.parametrize("writes", range(7))
async def test_coming(bench: Bench, image: str, tmp_path: Path, writes: int) -> None:
    digest = await push(image, tmp_path, b"one")
    cache = await bench.make("kernels", image)
    budget = Budget(writes)
    async with operating(bench.cluster, fence=budget):
        await until(lambda: budget.left < 0, "the budget is spent")
    async with operating(bench.cluster):
        cache = await bench.until(cache, delivered)
        assert (await bench.grant(cache)).spec.digests == (digest,)
        assert len(await bench.volumes(cache)) == 1


@pytest.mark.parametrize("writes", range(6))
async def test_going(bench: Bench, image: str, tmp_path: Path, writes: int) -> None:
    await push(image, tmp_path, b"one")
    async with operating(bench.cluster):
        cache = await bench.make("kernels", image)
        cache = await bench.until(cache, delivered)
    await bench.delete(cache)
    budget = Budget(writes)
    async with operating(bench.cluster, fence=budget):
        await until(lambda: budget.left < 0, "the budget is spent")
    async with operating(bench.cluster):
        await bench.eventually(lambda: bench.grant(cache), lambda found: found is None)
        await bench.eventually(lambda: bench.claim("kernels"), lambda found: found is None)
        await bench.eventually(lambda: bench.volumes(cache), lambda found: found == [])
