"""Why was this entry not in the cache? What sets it apart from the nearest one that was, in words."""

from collections.abc import Iterable, Iterator

import msgspec

from gkm.caches.known import BY_NAME
from gkm.caches.model import Entry, Target
from gkm.caches.tree import Tree

_COMPARED = 100
"""Namesakes that are read for one miss: one kernel may be compiled for thousands of shapes."""
_SAME_FACTS = (
    "no recorded fact differs from the cache's entry of this name: "
    "its source, its arguments' types or the build of the compiler do"
)


class Nearest:
    """Compares entries with those of one cache: `entries`, whose files are read from `tree`."""

    def __init__(self, tree: Tree, entries: Iterable[Entry]) -> None:
        self._tree = tree
        self._paths: set[str] = set()
        self._namesakes: dict[tuple[str, str], list[Entry]] = {}
        for entry in entries:
            self._paths.add(entry.path)
            self._namesakes.setdefault((entry.format, entry.name), []).append(entry)

    def differences(self, made: Tree, entry: Entry) -> tuple[str, ...]:
        """How `entry`, whose files are read from `made`, differs from the cache's nearest; never empty.

        Nearest is, among entries of the same format and name, one for the same target if there is any, and
        then the one with the fewest differences.
        """
        if entry.path in self._paths:
            return ("the cache has this entry, but the compiler did not accept it and made it again",)
        namesakes = self._namesakes.get((entry.format, entry.name))
        if namesakes is None:
            return ("the cache has no entry of this name",)
        facts = _facts(made, entry)
        like = [other for other in namesakes if other.targets == entry.targets] or namesakes
        found = (tuple(_compare(facts, _facts(self._tree, other))) for other in like[:_COMPARED])
        words = min(found, key=len)
        return words or (_SAME_FACTS,)


def _facts(tree: Tree, entry: Entry) -> dict[str, str]:
    """Everything comparable about `entry`, most telling first: targets, toolchain, options."""
    facts = {"target": ", ".join(sorted(map(_target, entry.targets)))} if entry.targets else {}
    toolchain = msgspec.structs.asdict(entry.toolchain)
    keys = dict(toolchain.pop("keys"))
    facts.update({name: value for name, value in toolchain.items() if value is not None})
    facts.update(keys)
    known = BY_NAME.get(entry.format)
    if known is not None:
        facts.update(known.options(tree, entry))
    return facts


def _target(target: Target) -> str:
    return f"{target.backend} {target.arch} (warp size {target.warp_size})"


def _compare(new: dict[str, str], old: dict[str, str]) -> Iterator[str]:
    for name in (*new, *(name for name in old if name not in new)):
        if new.get(name) != old.get(name):
            yield f"{name}: {new.get(name, 'not told')}, in the cache {old.get(name, 'not told')}"
