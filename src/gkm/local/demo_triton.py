"""A dozen kernels in Triton's language, as they occur in a transformer: the workload of the demonstration.

Triton reads their source text from this file, so they are plain functions of a module. Importing it imports
Triton: only `gkm.local.demo_kernels` does, once it runs.
"""

# mypy: disable-error-code="untyped-decorator"
# Triton ships no types, and its decorator is the point of this file.

import triton
import triton.language as tl


@triton.jit
def add(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """Residual connection: out = x + y."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit
def scale(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """Weighted residual: out = x + y / sqrt(n)."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    weight = 1.0 / tl.sqrt(n.to(tl.float32))
    tl.store(out + at, tl.load(x + at, inside) + weight * tl.load(y + at, inside), inside)


@triton.jit
def relu_squared(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """Activation of Primer: out = max(x, 0)^2 * y."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    positive = tl.maximum(tl.load(x + at, inside), 0.0)
    tl.store(out + at, positive * positive * tl.load(y + at, inside), inside)


@triton.jit
def silu_gate(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """Gate of SwiGLU: out = x * sigmoid(x) * y."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    gate = tl.load(x + at, inside).to(tl.float32)
    tl.store(out + at, gate * tl.sigmoid(gate) * tl.load(y + at, inside), inside)


@triton.jit
def gelu(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """Gaussian error linear unit, exact form, with a bias: out = gelu(x + y)."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    value = (tl.load(x + at, inside) + tl.load(y + at, inside)).to(tl.float32)
    tl.store(out + at, 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476)), inside)


@triton.jit
def softmax(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """One row's softmax of x with the additive mask y."""
    at = tl.arange(0, block)
    inside = at < n
    row = tl.program_id(0) * n
    value = tl.load(x + row + at, inside, -float("inf")) + tl.load(y + at, inside, 0.0)
    raised = tl.exp(value.to(tl.float32) - tl.max(value.to(tl.float32), 0))
    tl.store(out + row + at, raised / tl.sum(raised, 0), inside)


@triton.jit
def rms_norm(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """One row divided by its root mean square, weighted by y."""
    at = tl.arange(0, block)
    inside = at < n
    row = tl.program_id(0) * n
    value = tl.load(x + row + at, inside, 0.0).to(tl.float32)
    root = tl.rsqrt(tl.sum(value * value, 0) / n + 1e-6)
    tl.store(out + row + at, value * root * tl.load(y + at, inside), inside)


@triton.jit
def layer_norm(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """One row with its mean taken away and its variance made one, weighted by y."""
    at = tl.arange(0, block)
    inside = at < n
    row = tl.program_id(0) * n
    value = tl.load(x + row + at, inside, 0.0).to(tl.float32)
    centred = tl.where(inside, value - tl.sum(value, 0) / n, 0.0)
    root = tl.rsqrt(tl.sum(centred * centred, 0) / n + 1e-5)
    tl.store(out + row + at, centred * root * tl.load(y + at, inside), inside)


@triton.jit
def rotate(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """Rotary position embedding of pairs (x[i], x[i + n]) by the angle y[i]."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    first = tl.load(x + at, inside).to(tl.float32)
    second = tl.load(x + n + at, inside).to(tl.float32)
    angle = tl.load(y + at, inside).to(tl.float32)
    tl.store(out + at, first * tl.cos(angle) - second * tl.sin(angle), inside)
    tl.store(out + n + at, second * tl.cos(angle) + first * tl.sin(angle), inside)


@triton.jit
def running_sum(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """One row's cumulative sum of x * y, as a state-space model's scan."""
    at = tl.arange(0, block)
    inside = at < n
    row = tl.program_id(0) * n
    product = tl.load(x + row + at, inside, 0.0) * tl.load(y + row + at, inside, 0.0)
    tl.store(out + row + at, tl.cumsum(product.to(tl.float32), 0), inside)


@triton.jit
def cross_entropy(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """One row's loss: log of the summed exponentials of x, less the logit that y points at."""
    at = tl.arange(0, block)
    inside = at < n
    row = tl.program_id(0)
    logits = tl.load(x + row * n + at, inside, -float("inf")).to(tl.float32)
    highest = tl.max(logits, 0)
    total = tl.log(tl.sum(tl.exp(logits - highest), 0)) + highest
    wanted = tl.load(y + row).to(tl.int32)
    tl.store(out + row, total - tl.load(x + row * n + wanted).to(tl.float32))


@triton.jit
def matmul(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """out = x @ y for square matrices, in half precision on the matrix units."""
    side: tl.constexpr = block // 16
    rows = tl.program_id(0) * side + tl.arange(0, side)
    columns = tl.program_id(1) * side + tl.arange(0, side)
    total = tl.zeros((side, side), dtype=tl.float32)
    for start in range(0, n, side):
        inner = start + tl.arange(0, side)
        left = tl.load(
            x + rows[:, None] * n + inner[None, :], (rows[:, None] < n) & (inner[None, :] < n), 0.0
        )
        right = tl.load(
            y + inner[:, None] * n + columns[None, :], (inner[:, None] < n) & (columns[None, :] < n), 0.0
        )
        total += tl.dot(left.to(tl.float16), right.to(tl.float16))
    tl.store(out + rows[:, None] * n + columns[None, :], total, (rows[:, None] < n) & (columns[None, :] < n))


@triton.jit
def dropout(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    """The kernel that no cache has yet: random zeros with the seed y[0]."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    kept = tl.rand(tl.load(y).to(tl.int32), at) > 0.1
    tl.store(out + at, tl.where(kept, tl.load(x + at, inside) / 0.9, 0.0), inside)


KERNELS = (
    add,
    scale,
    relu_squared,
    silu_gate,
    gelu,
    softmax,
    rms_norm,
    layer_norm,
    rotate,
    running_sum,
    cross_entropy,
    matmul,
)
"""All take three pointers, a length and a block size, so one signature fits them."""

EXTRA = dropout
