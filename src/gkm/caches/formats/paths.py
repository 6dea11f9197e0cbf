"""Absolute paths inside files: finding them, and telling which part of one is where the tree once stood."""

import re
from collections.abc import Callable, Iterator

from gkm.caches.model import UnrelocatablePath

# A path counts where text can start: after white space, a quote, an opening bracket, '=' or ':', or after the
# header of a pickled string (protocol 4: SHORT_BINUNICODE with one byte of length, BINUNICODE with four).
# The slash stands first, before the look behind it: `re` then skips to slashes at the speed of memchr(3).
_PATH = re.compile(
    rb"/(?:(?<=[\s'\"(\[=:,]/)|(?<=\x8c./)|(?<=X...\x00/))[A-Za-z0-9_][\w.@+-]{0,99}(?:/[\w.@+-]{1,255}){1,40}",
    re.DOTALL,
)
_CACHE = re.compile(
    r".*?/torchinductor_[^/]+|.*?/[^/]*inductor(?=/|\Z)|.*?(?=/torch_compile_cache/|/[a-z2-7]{2}/c[a-z2-7]{51})"
)
_INSTALLATION = re.compile(r".*?/(?:site|dist)-packages(?=/)")
_SYSTEM = ("/usr/include/", "/dev/", "/proc/", "/sys/")


def absolute_paths(data: bytes) -> dict[str, str]:
    """The absolute paths in `data`, cut to what matters of them, each with its kind, in order of appearance.

    Kinds: ``cache`` (the directory that a cache stood in), ``installation`` (a Python installation) and
    ``source`` (a Python file elsewhere). Other paths mean nothing to a cache and are left out.
    """
    found: dict[str, str] = {}
    for raw in dict.fromkeys(_PATH.findall(data)):
        path = raw.decode()
        if path.startswith(_SYSTEM):
            continue
        if installation := _INSTALLATION.match(path):
            found.setdefault(installation[0], "installation")
        elif (cache := _CACHE.match(path)) and cache[0]:
            found.setdefault(cache[0], "cache")
        elif path.endswith(".py"):
            found.setdefault(path, "source")
    return found


def unrelocatable(file: str, data: bytes, where: str, effect: str) -> Iterator[UnrelocatablePath]:
    """A record for the first path of each kind in `data`, the content of `file`.

    The reason is for people: `where` the path stands, and the `effect` that a stale cache directory has there.
    """
    kinds: set[str] = set()
    for path, kind in absolute_paths(data).items():
        if kind not in kinds:
            kinds.add(kind)
            known = effect if kind == "cache" else "it says where the sources stood"
            yield UnrelocatablePath(file=file, path=path, reason=f"{where}: {known}")


def stood_at(path: str, now: str) -> str:
    """The directory that the tree stood in when the absolute `path` named what is now `now` in it.

    Where only a part of `now` ends `path`, the tree was put together since; then it is the directory that
    this part stood in.
    """
    old, new = path.split("/"), now.split("/")
    same = 0
    while same < min(len(old) - 1, len(new)) and old[-1 - same] == new[-1 - same]:
        same += 1
    return "/".join(old[: len(old) - same]) or "/"


def replace_strings(value: object, change: Callable[[str], str]) -> object:
    """`value` (JSON or Python literals) with `change` applied to every string in it but the keys of dicts."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: replace_strings(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_strings(item, change) for item in value]
    if isinstance(value, tuple):
        return tuple(replace_strings(item, change) for item in value)
    return value
