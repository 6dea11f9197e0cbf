"""A program of real Triton kernels, run in a process of its own by `support.triton_cache`.

Arguments: a JSON object {"targets": [...], "kernels": [...]}. Prints one JSON object. Triton must find the
kernels' source in a file, and reads TRITON_CACHE_DIR when it is imported.
"""

import json
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def scale(x, out, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 3.0, mask=i < n)


@triton.jit
def total(x, out, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0))


KERNELS = {
    "add": (add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "block": "constexpr"}),
    "scale": (scale, {"x": "*fp32", "out": "*fp32", "n": "i32", "block": "constexpr"}),
    "total": (total, {"x": "*fp32", "out": "*fp32", "n": "i32", "block": "constexpr"}),
}


def gpu_target(text: str) -> GPUTarget:
    if text.startswith("sm_"):
        return GPUTarget("cuda", int(text.removeprefix("sm_")), 32)
    return GPUTarget("hip", text, 64 if len(text) == len("gfx942") else 32)


def main() -> None:
    wanted = json.loads(sys.argv[1])
    compiled, hits = [], []

    def listener(*, src, metadata, metadata_group, times, cache_hit):
        (hits if cache_hit else compiled).append(f"{src.name}@{metadata['target'].arch}")

    triton.knobs.compilation.listener = listener
    options = {"num_warps": wanted["num_warps"]} if wanted.get("num_warps") else {}
    for target in wanted["targets"]:
        for name in wanted["kernels"]:
            function, signature = KERNELS[name]
            source = ASTSource(function, signature, {"block": 128})
            triton.compile(source, target=gpu_target(target), options=options)
    print(json.dumps({"compiled": compiled, "hits": hits, "triton": triton.__version__}))


if __name__ == "__main__":
    main()
