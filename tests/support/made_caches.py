"""Cache directories in the formats' layouts, written by hand: small, for any target, and for bad content.

The bytes follow what Triton 3.9, torch 2.9 and vLLM wrote into real caches; tests against those themselves are
in `tests/integration/caches`.
"""

import base64
import json
import pprint
import struct
import zlib
from pathlib import Path

CODE_NAME = "c" + "d6" + "a" * 49
"""A name of generated Inductor code; it lies in the directory ``d6``."""
GRAPH_KEY = "f" + "kh" + "b" * 49
AUTOGRAD_KEY = "a" + "gy" + "c" * 49


def key(letter: str) -> str:
    """A directory name as Triton makes it, told apart by one letter."""
    return letter.upper() * 52


def elf(machine: int, flags: int = 0, abi_version: int = 0) -> bytes:
    """A file that starts with a 64-bit ELF header."""
    ident = b"\x7fELF\x02\x01\x01\x00" + bytes([abi_version]) + bytes(7)
    return ident + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, 0, flags, 64, 0, 0, 0, 0, 0) + b"code"


def write(path: Path, content: bytes | str) -> Path:
    """Write a file and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def triton_entry(
    directory: Path,
    *,
    name: str = "add",
    stood_at: str | None = None,
    backend: str = "cuda",
    arch: int | str = 80,
    warp_size: int = 32,
    triton: str | None = "3.9.0",
    **options: object,
) -> Path:
    """One kernel in `directory`, whose group names its children in the directory `stood_at` (default: here)."""
    old = stood_at or str(directory)
    binary = "cubin" if backend == "cuda" else "hsaco"
    metadata = {
        "hash": "0" * 64,
        "target": {"backend": backend, "arch": arch, "warp_size": warp_size},
        "num_warps": 4,
        "name": name,
        **options,
    }
    if triton:
        metadata["triton_version"] = triton
    write(directory / f"{name}.{binary}", f"code of {name} for {arch}")
    write(directory / f"{name}.ttir", "module {}")
    write(directory / f"{name}.json", json.dumps(metadata))
    children = {f"{name}.{end}": f"{old}/{name}.{end}" for end in (binary, "ttir", "json")}
    write(directory / f"__grp__{name}.json", json.dumps({"child_paths": children}))
    return directory


def inductor_cache(root: Path, *, stood_at: str = "/old/inductor") -> Path:
    """A cache with one graph, one autograd graph, one compiled library and one module of text."""
    graph = (
        b"\x80\x04\x8c\x04NONE"
        + f"os.environ['TORCHINDUCTOR_CACHE_DIR'] = '{stood_at}'\n# torch version: 2.13.0+cpu\n".encode()
    )
    write(root / "fxgraph" / "kh" / GRAPH_KEY / ("g" * 52), graph)
    write(root / "aotautograd" / AUTOGRAD_KEY / "entry", b"\x80\x04")
    write(root / "d6" / f"{CODE_NAME}.so", elf(62))
    write(root / "d6" / f"{CODE_NAME}.cpp", "int main;")
    write(root / "3g" / ("c3g" + "e" * 49 + ".py"), f"# kernel path: {stood_at}/d6/{CODE_NAME}.py\nx = 1\n")
    write(root / "locks" / f"{CODE_NAME}.lock", "")
    return root


def artifact(payload: bytes, torch_key: bytes = bytes(range(32))) -> bytes:
    """A vLLM binary artifact around `payload`."""

    def field(data: bytes) -> bytes:
        return struct.pack(">Q", len(data)) + data

    body = field(torch_key) + field(base64.b64encode(b"a" * 52)) + field(payload)
    return struct.pack(">I", zlib.crc32(body)) + body


METADATA_OF_SM75 = b'"target": {"backend": "cuda", "arch": 75, "warp_size": 32}, "triton_version": "3.5.1"'


def vllm_cache(root: Path, *, stood_at: str = "/home/u/.cache/vllm", subgraphs: int = 2) -> Path:
    """A cache of binary artifacts in the layout of vLLM 0.13."""
    inner = "torch_compile_cache/edf531ca35/rank_0_0/backbone"
    names = [f"artifact_compile_range_1_2048_subgraph_{i}" for i in range(subgraphs)]
    for i, name in enumerate(names):
        write(
            root / inner / name, artifact(b"%d" % i + METADATA_OF_SM75 + b" '/tmp/torchinductor_u/ab/x.py'")
        )
    index = {
        ((1, 2048), i, "inductor_standalone"): (n, f"{stood_at}/{inner}/{n}") for i, n in enumerate(names)
    }
    write(root / inner / "vllm_compile_cache.py", pprint.PrettyPrinter(indent=4).pformat(index))
    factors = {
        "code_hash": "c0de",
        "compiler_hash": "4fc2f2ae9e",
        "config_hash": "2a38",
        "env": {
            "VLLM_TARGET_DEVICE": "cuda",
            "VLLM_MAIN_CUDA_VERSION": "12.9",
            "VLLM_API_KEY": "a-secret",
        },
    }
    write(root / inner / "cache_key_factors.json", json.dumps(factors))
    write(root / "modelinfos" / "llama.json", "{}")
    return root
