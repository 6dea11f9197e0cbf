"""Hits and misses of real overlay mounts, as they come out in a use: observed while mounted, counted in children."""

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gkm.agent.confinement import Identity
from gkm.agent.counter import Counter
from gkm.agent.counting import CountAnswer, CountRequest
from gkm.agent.observer import Observer
from gkm.agent.sightings import Order, Sighting, Watch, encode
from gkm.agent.untouched import count_untouched
from gkm.agent.usage import Usage
from gkm.api.node import PodUse
from gkm.api.values import Observation
from gkm.images.layout import LayoutRepository
from gkm.store.linux.syscalls import mount, umount
from gkm.store.store import Store
from support.granting import MadeView
from support.made_caches import key, triton_entry
from support.staging import image_of, pack_into_layout
from support.waiting import until

pytestmark = pytest.mark.root
POD_UID = 123_456


@dataclass
class Mounted:
    """A view of a tree with the entries A and B, told to a `Usage`."""

    usage: Usage
    view: MadeView

    @property
    def pod(self) -> PodUse:
        """What the reports will say of the pod."""
        return self.usage.uses[self.view.target].pod

    def read(self, letter: str) -> None:
        """Open the payload of an entry, in another process, as the pod's user."""
        self.run(f"open({str(self.view.target / key(letter) / 'add.cubin')!r}).read()")

    def compile(self, letter: str, *, secretly: bool = False) -> None:
        """Make an entry, as the pod's user; `secretly` readable to that user alone."""
        made = Path(self.view.target) / key(letter)
        umask = 0o077 if secretly else 0o022
        source = self.view.target.parent / f"made-{letter}"
        triton_entry(source, stood_at=str(made), name="mul")
        self.run(
            f"import os, shutil; os.umask({umask}); os.mkdir({str(made)!r})\n"
            f"for n in os.listdir({str(source)!r}):"
            f" open({str(made)!r} + '/' + n, 'wb').write(open({str(source)!r} + '/' + n, 'rb').read())"
        )

    def run(self, script: str) -> None:
        subprocess.run(
            ["setpriv", f"--reuid={POD_UID}", f"--regid={POD_UID}", "--clear-groups", _PYTHON, "-c", script],
            check=True,
            timeout=60,
        )


# The system's own: the tests' interpreter may lie where only its user may go.
_PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable


def requests_to(usage: Usage, monkeypatch: pytest.MonkeyPatch) -> list[CountRequest]:
    """What the counting child will be asked from now on."""
    asked: list[CountRequest] = []
    count = usage._counter.count

    async def counting(request: CountRequest) -> CountAnswer:
        asked.append(request)
        return await count(request)

    monkeypatch.setattr(usage._counter, "count", counting)
    return asked


@pytest.fixture
async def sealed(store: Store, open_path: Path) -> str:
    for letter in "AB":
        triton_entry(open_path / "cache" / key(letter), stood_at=f"/build/{key(letter)}")
    await pack_into_layout(open_path / "cache", open_path / "layout")
    repository = LayoutRepository(open_path / "layout")
    return (await store.stage(repository, await image_of(repository, open_path / "layout"))).digest


@pytest.fixture
async def usage(store: Store, child: Identity) -> AsyncIterator[Usage]:
    made = Usage(store, Observer(), Counter(child), changed=lambda: None)
    yield made
    await made.aclose()


@pytest.fixture
async def mounted(store: Store, usage: Usage, sealed: str, open_path: Path) -> AsyncIterator[Mounted]:
    tree = store.tree(sealed)
    assert tree is not None
    private = open_path / "private"
    private.mkdir(mode=0o700)
    upper, work, target = private / "upper", private / "work", open_path / "view"
    for directory in (upper, work, target):
        directory.mkdir()
    upper.chmod(0o777)
    mount("overlay", target, "overlay", 0, f"lowerdir={tree.path},upperdir={upper},workdir={work}")
    try:
        made = Mounted(usage, MadeView(target, sealed, upper=upper))
        await usage.mounted(made.view, restored=False)
        yield made
    finally:
        if os.path.ismount(target):
            await usage.unmounting(made.view)
            umount(target)


async def test_hits_are_seen_while_the_pod_runs(mounted: Mounted) -> None:
    mounted.read("A")
    await until(lambda: mounted.pod.hits == 1, "one hit")
    assert (mounted.pod.misses, mounted.pod.observation) == (0, Observation.COMPLETE)
    mounted.read("A")
    mounted.read("B")
    await until(lambda: mounted.pod.hits == 2, "two hits")
    assert mounted.pod.misses == 0


async def test_where_the_pod_wrote_nothing_no_child_is_started_to_count(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = requests_to(mounted.usage, monkeypatch)
    mounted.read("A")
    await until(lambda: mounted.pod.hits == 1, "one hit")
    held: list[PodUse] = []
    mounted.usage._changed = lambda: held.append(mounted.pod) if mounted.usage.uses else None
    mounted.read("B")
    await mounted.usage.unmounting(mounted.view)
    umount(mounted.view.target)
    await mounted.usage.unmounted(mounted.view)
    assert (held[-1].hits, held[-1].misses, held[-1].observation) == (2, 0, Observation.COMPLETE)
    assert asked == []


async def test_where_the_pod_wrote_something_a_child_counts(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = requests_to(mounted.usage, monkeypatch)
    mounted.read("A")
    mounted.compile("C")
    await until(lambda: mounted.pod.misses == 1, "one miss")
    assert mounted.pod.hits == 1
    assert {request.upper for request in asked} == {str(mounted.view.upper)}


async def test_a_count_without_a_child_is_the_childs(
    store: Store, sealed: str, open_path: Path, child: Identity
) -> None:
    tree = store.tree(sealed)
    assert tree is not None
    payloads = [entry.payload for entry in tree.inventory.entries]
    upper = open_path / "upper"
    upper.mkdir()
    for opened in ((), (f"{key('A')}/add.cubin",), (f"{key('A')}/add.cubin", f"{key('B')}/add.cubin", "x")):
        answer = count_untouched(payloads, opened, upper)
        assert answer == await Counter(child).count(CountRequest(str(tree.directory), str(upper), opened))
    (upper / "link").symlink_to(open_path)
    assert count_untouched(payloads, (), upper) is None
    assert count_untouched(payloads, (), upper / "link") is None
    assert count_untouched(payloads, (), upper / "gone") is None


async def test_observation_ends_some_time_after_the_first_hit_and_not_before_one(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished: list[int] = []
    observer = mounted.usage._observer
    finish = observer.finish

    async def finishing(number: int) -> None:
        await finish(number)
        finished.append(number)

    monkeypatch.setattr(observer, "finish", finishing)
    monkeypatch.setattr("gkm.agent.usage._OBSERVED_SECONDS", 0.0)
    mounted.compile("C")
    await until(lambda: mounted.pod.misses == 1, "one miss")
    assert finished == []
    mounted.read("A")
    await until(lambda: finished, "observation ended")
    mounted.read("B")
    await mounted.usage.unmounting(mounted.view)
    await mounted.usage._count(mounted.usage._tracked[mounted.view.target])
    assert (mounted.pod.hits, mounted.pod.misses, mounted.pod.observation) == (1, 1, Observation.COMPLETE)


async def test_a_compiled_entry_is_one_miss_even_where_only_its_pod_may_read_it(mounted: Mounted) -> None:
    mounted.read("A")
    mounted.compile("C", secretly=True)
    await until(lambda: mounted.pod.misses == 1, "one miss")
    assert mounted.pod.hits == 1


async def test_nothing_observed_keeps_a_view_from_being_unmounted(mounted: Mounted) -> None:
    held: list[PodUse] = []
    mounted.usage._changed = lambda: held.append(mounted.pod) if mounted.usage.uses else None
    mounted.compile("C")
    mounted.read("B")
    await mounted.usage.unmounting(mounted.view)
    umount(mounted.view.target)
    await mounted.usage.unmounted(mounted.view)
    assert mounted.usage.uses == {}
    assert (held[-1].hits, held[-1].misses, held[-1].observation) == (1, 1, Observation.COMPLETE)


async def test_a_view_found_after_a_restart_is_seen_in_part(mounted: Mounted) -> None:
    await mounted.usage.unmounting(mounted.view)
    again = Usage(mounted.usage._store, Observer(), mounted.usage._counter, changed=lambda: None)
    try:
        await again.mounted(mounted.view, restored=True)
        found = Mounted(again, mounted.view)
        found.read("A")
        await until(lambda: found.pod.hits == 1, "one hit")
        assert found.pod.observation == Observation.PARTIAL_RESTARTED
    finally:
        await again.unmounting(mounted.view)
        await again.aclose()


async def test_the_death_of_the_observer_is_told_and_the_next_view_is_observed(mounted: Mounted) -> None:
    mounted.read("A")
    await until(lambda: mounted.pod.hits == 1, "one hit")
    process = mounted.usage._observer._process
    assert process is not None
    process.kill()
    await until(lambda: mounted.pod.observation == Observation.PARTIAL_RESTARTED, "partial")
    assert mounted.pod.hits == 1
    other = replace(mounted.view, target=mounted.view.target.parent / "other", mode="copy")
    other.target.mkdir()
    await mounted.usage.mounted(other, restored=False)
    assert mounted.usage._tracked[other.target].observation == Observation.COMPLETE
    await mounted.usage.unmounted(other)


async def test_what_matters_in_a_tree_is_told_once_while_a_view_of_it_is_observed(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage, view = mounted.usage, mounted.view
    told: list[Watch] = []

    def encoding(order: Order | Sighting) -> bytes:
        if isinstance(order, Watch):
            told.append(order)
        return encode(order)

    monkeypatch.setattr("gkm.agent.observer.encode", encoding)
    others = [replace(view, target=view.target.parent / f"other-{n}", mode="copy") for n in range(3)]
    for other in others:
        other.target.mkdir()
    shutil.copytree(view.target, others[1].target, dirs_exist_ok=True)
    for other in others[:2]:
        await usage.mounted(other, restored=False)
    assert [order.wanted for order in told] == [None, None]
    # The first view goes, and the second is observed on.
    for ending in (view, others[0]):
        await usage.unmounting(ending)
    Mounted(usage, others[1]).read("B")
    await until(lambda: usage._tracked[others[1].target].opened == {f"{key('B')}/add.cubin"}, "one opened")
    # With the last one the list was forgotten, on both sides.
    await usage.unmounting(others[1])
    await usage.mounted(others[2], restored=False)
    assert told[-1].wanted is not None
    assert sorted(told[-1].wanted) == [f"{key(letter)}/add.cubin" for letter in "AB"]
    assert usage._tracked[others[2].target].observation == Observation.COMPLETE
    for other in others:
        await usage.unmounted(other)


async def test_a_cold_start_has_no_counts(usage: Usage, open_path: Path) -> None:
    cold = MadeView(open_path, None)
    await usage.mounted(cold, restored=False)
    assert (usage.uses[open_path].pod.cold, usage.uses[open_path].pod.hits) == (True, None)
    await usage.unmounting(cold)
    await usage.unmounted(cold)
    assert usage.uses == {}


def _deep(upper: Path) -> None:
    for _ in range(70):
        upper = upper / "d"
        upper.mkdir()


def _group(upper: Path, content: bytes) -> None:
    directory = upper / key("D")
    directory.mkdir()
    (directory / "__grp__x.json").write_bytes(content)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "links to secrets": lambda upper: (upper / "x.json").symlink_to("/etc/shadow"),
    "a link loop": lambda upper: (upper / "loop").symlink_to("."),
    "a named pipe": lambda upper: os.mkfifo(upper / f"{key('C')}.json"),
    "a device": lambda upper: os.mknod(upper / "zero", 0o20666, os.makedev(1, 5)),
    "a depth without end": _deep,
    "names that are no text": lambda upper: (upper / os.fsdecode(b"\xff\xfe.json")).write_bytes(b"{"),
    "json that nests without end": lambda upper: _group(upper, b"[" * 100_000),
}


@pytest.mark.parametrize("content", HOSTILE)
async def test_what_a_pod_leaves_cannot_harm_the_count(
    store: Store, sealed: str, open_path: Path, child: Identity, content: str
) -> None:
    tree = store.tree(sealed)
    assert tree is not None
    upper = open_path / "upper"
    upper.mkdir()
    HOSTILE[content](upper)
    opened = (f"{key('A')}/add.cubin",)
    answer = await Counter(child).count(CountRequest(str(tree.directory), str(upper), opened))
    # Counted, or refused with a reason; never a number that was made up.
    assert (answer.hits, answer.problem) == (1, "") or (answer.hits is None and answer.problem)
