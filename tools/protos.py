"""``python tools/protos.py [--check] [--fetch]``: the Python modules of the vendored .proto files.

Each file is pinned by version and sha256. Without options the modules are generated; ``--check`` fails where
they, or the vendored bytes, are not what the pins give; ``--fetch`` gets the .proto files again, as Go
modules by the ordinary `go` client.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from grpc_tools import protoc

SRC = Path(__file__).resolve().parents[1] / "src"
FOLDER = "gkm/kubelet/protos"


class Pin(NamedTuple):
    """One vendored file."""

    name: str
    module: str
    """The Go module and version that it is taken from."""
    path: str
    """Its path in the module."""
    sha256: str


PINS = (
    # 1.13 drops VolumeCondition, which kubelet up to 1.36 at least asks for.
    Pin(
        "csi.proto",
        "github.com/container-storage-interface/spec@v1.12.0",
        "csi.proto",
        "5b81236a3809f3ff0b877ff9b82215d0b74a8e291d7f3ec6ee1a44f537c0f86a",
    ),
    Pin(
        "pluginregistration.proto",
        "k8s.io/kubelet@v0.36.3",
        "pkg/apis/pluginregistration/v1/api.proto",
        "7a67a0000a1a167c155286834bc9ccb489f8bcdb394e006daba270189c272afa",
    ),
)


def main() -> int:
    """Do what the options say; the exit status says whether all is as pinned."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[2].partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail on drift")
    parser.add_argument("--fetch", action="store_true", help="get the .proto files again first")
    options = parser.parse_args()
    if options.fetch:
        for pin in PINS:
            fetch(pin)
    wrong = [pin.name for pin in PINS if checksum(pin) != pin.sha256]
    if wrong:
        print(f"not as pinned: {', '.join(wrong)}; run `python tools/protos.py --fetch`, or change the pin")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        made = generate(Path(scratch))
        drifted = [path for path in made if not same(path, SRC / path.relative_to(scratch))]
        if options.check and drifted:
            print("\n".join(f"{path.name} is not what its .proto gives" for path in drifted))
            print("run `python tools/protos.py`")
            return 1
        for path in drifted:
            shutil.copyfile(path, SRC / path.relative_to(scratch))
    return 0


def fetch(pin: Pin) -> None:
    """Put the file of `pin` in its place, whatever its bytes: the checksum judges them afterwards."""
    command = ["go", "mod", "download", "-json", pin.module]
    with tempfile.TemporaryDirectory() as empty:
        got = subprocess.run(command, cwd=empty, capture_output=True, text=True, check=True)
    shutil.copyfile(Path(json.loads(got.stdout)["Dir"]) / pin.path, SRC / FOLDER / pin.name)
    (SRC / FOLDER / pin.name).chmod(0o644)


def checksum(pin: Pin) -> str:
    """Of the vendored file; empty where it is missing."""
    path = SRC / FOLDER / pin.name
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def generate(into: Path) -> list[Path]:
    """The modules and their type stubs, below `into`, named as below src."""
    # The root mirrors the package's path, or the modules would import each other as top-level names, and
    # two files of one name would collide in protobuf's pool, which is keyed by path.
    bundled = Path(protoc.__file__).parent / "_proto"
    arguments = ["", f"-I{SRC}", f"-I{bundled}", f"--python_out={into}", f"--pyi_out={into}"]
    if protoc.main([*arguments, *(f"{FOLDER}/{pin.name}" for pin in PINS)]) != 0:
        raise SystemExit("protoc failed")
    return sorted(path for path in into.rglob("*") if path.is_file())


def same(new: Path, old: Path) -> bool:
    """Whether `old` exists with the bytes of `new`."""
    return old.is_file() and old.read_bytes() == new.read_bytes()


if __name__ == "__main__":
    sys.exit(main())
