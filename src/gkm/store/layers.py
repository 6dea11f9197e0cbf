"""Relocation layers: what of a sealed tree depends on the path at which it is seen, made once for each path.

::

    trees/sha256-HEX/layers/KEY/files/          the rewritten files, the lower above the tree's own
    trees/sha256-HEX/layers/KEY/layer.json      the path, and how much it is
    trees/sha256-HEX/layers/KEY                 its modification time: when it was last of use

A layer is shared by all views that stand at its path, never changed after the rename that put it there, and
goes with its tree. Making and dropping layers is `gkm.store.relocation`.
"""

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from gkm.store.sealed import FILES, SealedTree

_RECORD = "layer.json"


class LayerRecord(msgspec.Struct, frozen=True, rename="camel"):
    """What is known of a layer beside its files."""

    version: Literal[1]
    root: str
    """The absolute path that it is for."""
    files: int
    """0: at this path the tree fits as it is."""
    bytes: int


@dataclass(frozen=True, slots=True)
class Layer:
    """A relocation layer in the store."""

    directory: Path
    record: LayerRecord

    @property
    def name(self) -> str:
        """What tells it from the tree's other layers."""
        return self.directory.name

    @property
    def root(self) -> str:
        """The absolute path at which a view that has it stands."""
        return self.record.root

    @property
    def bytes(self) -> int:
        """The sum of its files' sizes."""
        return self.record.bytes

    def lower_directories(self) -> tuple[Path, ...]:
        """What lies above the tree in an overlay mount; nothing where no file had to differ."""
        return (self.directory / FILES,) if self.record.files else ()


def layers_of(tree: Path) -> Path:
    """Where the layers of the tree in the directory `tree` are."""
    return tree / "layers"


def layer_directory(tree: Path, root: str) -> Path:
    """Where the layer for `root` is, if it is.

    Roots are chosen by pods and may be longer than a file's name, so its digest stands for it.
    """
    return layers_of(tree) / hashlib.sha256(root.encode()).hexdigest()[:32]


def find_layer(tree: SealedTree, root: str) -> Layer | None:
    """The layer of `tree` for `root`; None where there is none, or a damaged one. Raises `OSError`."""
    layer = read_layer(layer_directory(tree.directory, root))
    return layer if layer is not None and layer.root == root else None


def read_layer(directory: Path) -> Layer | None:
    """The layer in `directory`; None where there is none, or a damaged one. Raises `OSError`."""
    try:
        record = msgspec.json.decode((directory / _RECORD).read_bytes(), type=LayerRecord)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None
    return Layer(directory, record)


class Use(NamedTuple):
    """When a layer was last of use."""

    seconds: float
    """Since the epoch."""
    directory: Path


def all_layers(tree: Path) -> list[Use]:
    """All layers of the tree in the directory `tree`, damaged ones too, the last used first. Raises `OSError`."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for path in layers_of(tree).iterdir():
            with contextlib.suppress(FileNotFoundError):  # dropped meanwhile
                found.append(Use(path.stat().st_mtime, path))
    return sorted(found, reverse=True)


def bytes_of_layers(tree: Path) -> int:
    """The sum of the sizes of all layers of the tree in the directory `tree`. Raises `OSError`."""
    layers = [read_layer(use.directory) for use in all_layers(tree)]
    return sum(layer.bytes for layer in layers if layer is not None)


def write_layer_record(directory: Path, record: LayerRecord) -> None:
    """Write beside the files what `read_layer` reads; the caller makes it durable. Raises `OSError`."""
    (directory / _RECORD).write_bytes(msgspec.json.encode(record))


def mark_layer_used(directory: Path) -> None:
    """The layer in `directory` is, or was until now, of use.

    Raises:
        FileNotFoundError: it is gone.
    """
    os.utime(directory)
