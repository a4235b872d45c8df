"""Kernels as users write them, their operands, and the collectives of their programs on devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import kernelcore as kc
from jax_ffi import jax_callable, jax_kernel
from tests.jax.kernels import F64, F64_2D, I32, neighbour
from tests.jax.sharding_cases import (
    ADAM,
    VECTORS,
    Function,
    moved,
    numbered,
    scaled_sum,
    weighted,
)
from tests.jax.sharding_extents import (
    DIFFERENCE,
    ENERGY,
    INTERIOR,
    POOLED,
    STAGGERED,
    STRIDED,
    WRAPS,
)
from tests.jax.sharding_stencils import (
    clamped,
    corners,
    diffused,
    filtered,
    guarded,
    periodic,
    reaction,
    rolled,
    scattered,
    scattered_onto,
    smoothed,
    spread,
    springs,
    upwind,
    wave,
    wrapped_by_type,
)


@kc.kernel
def gelu(x: F64_2D, o: F64_2D):
    i, j = kc.tid()
    v = x[i, j]
    o[i, j] = 0.5 * v * (1.0 + kc.tanh(0.7978845608 * (v + 0.044715 * v * v * v)))


@kc.kernel
def relu_of_sum(x: F64_2D, bias: F64, o: F64_2D):
    i, j = kc.tid()
    o[i, j] = kc.max(x[i, j] + bias[j], kc.float64(0.0))


@kc.kernel
def softmax(x: F64_2D, o: F64_2D):
    i = kc.tid()
    top = x[i, 0]
    for k in range(1, x.shape[1]):
        top = kc.max(top, x[i, k])
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += kc.exp(x[i, k] - top)
    for k in range(x.shape[1]):
        o[i, k] = kc.exp(x[i, k] - top) / total


@kc.kernel
def layer_norm(x: F64_2D, gain: F64, bias: F64, o: F64_2D):
    i = kc.tid()
    n = x.shape[1]
    mean = kc.float64(0.0)
    for k in range(n):
        mean += x[i, k] / kc.float64(n)
    variance = kc.float64(0.0)
    for k in range(n):
        variance += (x[i, k] - mean) * (x[i, k] - mean) / kc.float64(n)
    for k in range(n):
        o[i, k] = (x[i, k] - mean) / kc.sqrt(variance + 1.0e-5) * gain[k] + bias[k]


@kc.kernel
def cross_entropy(x: F64_2D, label: I32, o: F64):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += kc.exp(x[i, k])
    kc.atomic_add(o, 0, kc.log(total) - x[i, label[i]])


@kc.kernel
def column_norms(x: F64_2D, o: F64):
    j = kc.tid()
    total = kc.float64(0.0)
    for i in range(x.shape[0]):
        total += x[i, j] * x[i, j]
    o[j] = total


@kc.kernel
def rotary(x: F64_2D, frequency: F64, o: F64_2D):
    i, j = kc.tid()
    o[i, j] = x[i, j] * kc.cos(kc.float64(i) * frequency[j])


@kc.kernel
def noisy(x: F64, seed: kc.int32, o: F64):
    i = kc.tid()
    state = kc.rand_init(seed, i)
    o[i] = x[i] * x[i] + kc.float64(kc.randf(state))


@kc.kernel
def histogram(x: F64, weight: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, kc.int32(x[i] * 3.0) % 4, weight[i] * weight[i])


@kc.kernel
def embedded(table: F64_2D, index: I32, o: F64_2D):
    i, j = kc.tid()
    o[i, j] = table[index[i], j] * 2.0


@kc.kernel
def attracted(x: VECTORS, o: VECTORS):
    i = kc.tid()
    force = kc.vec3d()
    for j in range(x.shape[0]):
        d = x[j] - x[i]
        force += d / (kc.dot(d, d) + 0.1)
    o[i] = force


@kc.kernel
def row_norms(x: F64_2D, o: F64):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += x[i, k] * x[i, k]
    o[i] = total


@kc.kernel
def biased(x: F64_2D, bias: F64, o: F64_2D):
    i, j = kc.tid()
    o[i, j] = kc.sin(x[i, j]) * bias[j]


@kc.kernel
def product(a: F64_2D, b: F64_2D, o: F64_2D):
    i, j = kc.tid()
    total = kc.float64(0.0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    o[i, j] = total


@kc.kernel
def total_of_squares(x: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, 0, x[i] * x[i])


@kc.kernel
def added_to(x: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, i % 4, x[i] * x[i])


@kc.kernel
def column_sums(x: F64_2D, o: F64):
    i, j = kc.tid()
    kc.atomic_add(o, j, x[i, j] * x[i, j])


@kc.kernel
def transposed(x: F64_2D, o: F64_2D):
    i, j = kc.tid()
    o[i, j] = x[j, i] * x[j, i]


@kc.kernel
def totals(x: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, 0, x[i])
    kc.atomic_add(o, 1, x[i] * x[i])


@kc.kernel
def extremes(x: kc.array2d(dtype=Any), largest: kc.array(dtype=Any), least: kc.array(dtype=Any)):
    i, j = kc.tid()
    kc.atomic_max(largest, j, x[i, j])
    kc.atomic_min(least, 0, x[i, j])


@kc.kernel
def looked_up(table: F64, x: F64, o: F64):
    i = kc.tid()
    o[i] = table[kc.int32(x[i]) % table.shape[0]] * x[i]


@kc.kernel
def reversed_order(x: F64, o: F64):
    i = kc.tid()
    o[i] = x[x.shape[0] - 1 - i] * x[i]


@kc.kernel
def ring_and_sum(x: F64, o: F64, r: F64):
    i = kc.tid()
    o[i] = x[(i + 1) % x.shape[0]] * kc.float64(i) + x[i]
    kc.atomic_add(r, 0, x[i] * kc.float64(i))


def numbered_twice(x: F64, o: F64):
    between = kc.zeros(x.shape[0], dtype=kc.float64)
    kc.launch(numbered, x.shape[0], [x], [between])
    kc.launch(numbered, x.shape[0], [between], [o])


def numbered_ring(x: F64, o: F64):
    between = kc.zeros(x.shape[0], dtype=kc.float64)
    kc.launch(numbered, x.shape[0], [x], [between])
    kc.launch(periodic, x.shape[0], [between], [o])


def total_of_numbered(x: F64, o: F64):
    between = kc.zeros(x.shape[0], dtype=kc.float64)
    kc.launch(numbered, x.shape[0], [x], [between])
    kc.launch(total_of_squares, x.shape[0], [between], [o])


@kc.kernel
def squared_beside(x: F64, never_read: F64, o: F64):
    i = kc.tid()
    o[i] = x[i] * x[i]


TRANSPOSED = dict.fromkeys(("launch_dims", "output_dims"), ("x.shape[1]", "x.shape[0]"))
EMBEDDED = dict.fromkeys(("launch_dims", "output_dims"), ("index.shape[0]", "table.shape[1]"))
COLUMNS = dict.fromkeys(("launch_dims", "output_dims"), "x.shape[1]")
ROWS: dict[str, Any] = {"launch_dims": "x.shape[0]"}
PRODUCT: dict[str, Any] = dict.fromkeys(
    ("launch_dims", "output_dims"), ("a.shape[0]", "b.shape[1]")
)
Counts = dict[str, str]
TRANSFORMS: Sequence[str] = ("call", "gradient", "Hessian", "vmap")


def everywhere(text: str) -> Counts:
    return dict.fromkeys(TRANSFORMS, text)


def border(*counts: int) -> Counts:
    """Permutes of borders in a call, its gradient and the product of its Hessian with a vector."""
    per_transform = zip(TRANSFORMS, (*counts, counts[0]), strict=True)
    return {k: f"{n} collective-permute" for k, n in per_transform}


def and_sums(counts: Counts) -> Counts:
    """``counts``, and the sum over the devices of the gradient of an operand that they share."""
    return {k: f"1 all-reduce, {n}" if k in SHARED else n for k, n in counts.items()}


OWN: Counts = {}
# Gradients of operands that all devices have are sums over the devices.
SHARED: Counts = dict.fromkeys(("gradient", "Hessian"), "1 all-reduce")
# One for the maxima, one for the minima, and one for each count of updates that tie.
EXTREMA: Counts = dict(zip(TRANSFORMS, (f"{n} all-reduce" for n in (2, 3, 4, 2)), strict=True))
EXTREMES = jax_kernel(extremes, num_outputs=2, in_out_argnames=["largest", "least"])
SUM = everywhere("1 all-reduce")
GATHERED = everywhere("1 all-gather")
UNEVEN: Counts = dict.fromkeys(("call", "vmap"), "1 all-gather, 1 collective-permute")
# Per kernel: shapes of the operands (i: of integers), which of them are cut (_x: along the second
# axis), and the collectives.
TABLE: dict[str, tuple[Function, str, str, Counts]] = {
    "scaled_sum": (jax_kernel(scaled_sum), "n n -", "x x -", SHARED),
    "moved": (jax_kernel(moved), "n3 3 n", "x - x", SHARED),
    "weighted": (jax_kernel(weighted), "n3 n", "x x", OWN),
    "adam": (ADAM, "nm nm nm nm -", "x x x x -", SHARED),
    "numbered": (jax_kernel(numbered), "n", "x", OWN),
    "row_norms": (jax_kernel(row_norms, **ROWS), "nm", "x", OWN),
    "biased": (jax_kernel(biased), "nm m", "x -", SHARED),
    "product": (jax_kernel(product, **PRODUCT), "nm mm", "x -", SHARED),
    "gelu": (jax_kernel(gelu), "nm", "x", OWN),
    "relu_of_sum": (jax_kernel(relu_of_sum), "nm m", "x -", SHARED),
    "softmax": (jax_kernel(softmax, **ROWS, output_dims="x"), "nm", "x", OWN),
    "layer_norm": (jax_kernel(layer_norm, **ROWS, output_dims="x"), "nm m m", "x - -", SHARED),
    "cross_entropy": (jax_kernel(cross_entropy, **ROWS, output_dims=1), "nm in", "x x", SUM),
    "column_norms": (jax_kernel(column_norms, **COLUMNS), "mn", "_x", OWN),
    "rotary": (jax_kernel(rotary), "nm m", "x -", SHARED),
    "noisy": (jax_kernel(noisy), "n i", "x -", OWN),
    "histogram": (jax_kernel(histogram, output_dims=4), "n n", "x x", SUM),
    "embedded": (jax_kernel(embedded, **EMBEDDED), "nm in", "- x", SHARED),
    "diffused": (jax_kernel(diffused), "nm3", "x", border(2, 6, 12)),
    "springs": (jax_kernel(springs, num_outputs=2), "n3 n3 -", "x x -", and_sums(border(2, 6, 12))),
    "attracted": (jax_kernel(attracted), "n3", "x", GATHERED),
    "total_of_squares": (jax_kernel(total_of_squares, output_dims=1), "n", "x", SUM),
    "added_to": (jax_kernel(added_to, output_dims=4), "n", "x", SUM),
    "column_sums": (jax_kernel(column_sums, output_dims="x.shape[1]"), "nm", "x", SUM),
    "guarded": (jax_kernel(guarded), "n", "x", border(2, 5, 9)),
    "clamped": (jax_kernel(clamped), "n", "x", border(2, 6, 12)),
    "periodic": (jax_kernel(periodic), "n", "x", border(2, 6, 12)),
    "wrapped_by_type": (jax_kernel(wrapped_by_type), "n", "x", GATHERED),
    "upwind": (jax_kernel(upwind), "n", "x", border(1, 3, 6)),
    "wave": (jax_kernel(wave, num_outputs=2), "nm nm nm", "x x x", border(2, 6, 12)),
    "scattered": (jax_kernel(scattered, output_dims="x"), "n", "x", border(1, 2, 4)),
    "scattered_onto": (
        jax_kernel(scattered_onto, in_out_argnames="o"),
        "n n",
        "x x",
        border(1, 2, 4),
    ),
    "transposed": (jax_kernel(transposed, **TRANSPOSED), "nm", "x", OWN),
    "corners": (jax_kernel(corners), "nm", "x", border(2, 6, 12)),
    "totals": (jax_kernel(totals, in_out_argnames="o"), "n 3", "x -", SUM),
    "extremes": (EXTREMES, "nm m 1", "x - -", EXTREMA),
    "looked_up": (jax_kernel(looked_up), "n n", "- x", SHARED),
    "reversed_order": (jax_kernel(reversed_order), "n", "x", GATHERED),
    "numbered_twice": (jax_callable(numbered_twice), "n", "x", OWN),
    "numbered_ring": (jax_callable(numbered_ring), "n", "x", border(2, 6, 12)),
    "total_of_numbered": (jax_callable(total_of_numbered, output_dims=1), "n", "x", SUM),
    "reaction": (jax_kernel(reaction, num_outputs=2), "nm nm", "x x", border(2, 4, 6)),
    "filtered": (jax_kernel(filtered), "nm 33", "x -", and_sums(border(2, 6, 12))),
    "smoothed": (jax_kernel(smoothed), "n 3", "x -", and_sums(border(2, 6, 12))),
    "spread": (jax_kernel(spread, output_dims="x"), "n", "x", border(2, 4, 8)),
    "rolled": (jax_kernel(rolled), "n i", "x -", GATHERED),
    "squared_beside": (jax_kernel(squared_beside), "n n", "x x", OWN),
    "neighbour": (jax_kernel(neighbour), "n", "x", border(1, 3, 6)),
    "pooled": (POOLED, "wm", "x", OWN),
    "strided": (STRIDED, "w", "x", border(2, 6, 12)),
    "interior": (INTERIOR, "w w", "x x", border(2, 6, 12)),
    # A result that the devices do not divide is whole on each of them.
    "difference": (DIFFERENCE, "w", "x", {k: UNEVEN.get(k, n) for k, n in border(1, 3, 6).items()}),
    "energy": (ENERGY, "w", "x", {k: f"1 all-reduce, {n}" for k, n in border(1, 3, 6).items()}),
    "staggered": (STAGGERED, "w", "x", border(3, 9, 20)),
    "wraps_at_extent": (WRAPS, "w wm", "x x", border(2, 6, 12)),
}
# Meshes of two axes cut matrices along both; rows are gathered.
SQUARE: dict[str, Counts] = {
    "row_norms": GATHERED,
    # The maxima of columns are cut along their axis.
    "extremes": dict(zip(TRANSFORMS, (f"{n} all-reduce" for n in (2, 4, 6, 2)), strict=True)),
    "softmax": GATHERED,
    "layer_norm": GATHERED | dict.fromkeys(("gradient", "Hessian"), "1 all-gather, 1 all-reduce"),
    "cross_entropy": everywhere("1 all-gather, 1 all-reduce"),
    "diffused": border(4, 12, 24),
    "product": GATHERED | dict.fromkeys(("gradient", "Hessian"), "1 all-gather, 1 all-reduce"),
    "reaction": border(4, 8, 12),
    "filtered": and_sums(border(4, 12, 24)),
    "wave": border(4, 12, 24),
    "corners": border(4, 12, 24),
}
# An array that the devices do not divide has no sharding in its type.
EXPLICIT: dict[str, Counts] = {
    "difference": {
        k: f"{2 if k == 'Hessian' else 1} all-gather, {n}" for k, n in border(1, 3, 6).items()
    },
    "staggered": {
        k: f"{2 if k == 'Hessian' else 1} all-gather, {n}" for k, n in border(3, 9, 20).items()
    },
}
EXTENTS = {"n": 16, "m": 8, "w": 64, "3": 3, "1": 1}
