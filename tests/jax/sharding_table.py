"""The collectives of kernels over sharded arrays in plain jit; ``test_matrix`` runs it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding

import kernelcore as kc
from jax_ffi import jax_kernel
from tests.jax.kernels import F64, F64_2D, neighbour
from tests.jax.sharding_cases import (
    ADAM,
    Function,
    P,
    compiled,
    moved,
    numbered,
    scaled_sum,
    weighted,
)


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
def guarded(x: F64, o: F64):
    i = kc.tid()
    if i > 0 and i < x.shape[0] - 1:
        o[i] = x[i] * x[i - 1] + x[i + 1]
    else:
        o[i] = x[i]


@kc.kernel
def clamped(x: F64, o: F64):
    i = kc.tid()
    o[i] = x[kc.max(i - 1, 0)] * x[kc.min(i + 1, x.shape[0] - 1)] + x[i]


@kc.kernel
def periodic(x: F64, o: F64):
    i = kc.tid()
    n = x.shape[0]
    o[i] = x[(i + 2) % n] * x[(i - 1 + n) % n] + x[i]


@kc.kernel
def upwind(x: F64, o: F64):
    i = kc.tid()
    j = i
    if i > 0:
        j = i - 1
    o[i] = x[i] * x[j]


@kc.kernel
def wave(u: F64_2D, v: F64_2D, speed: F64_2D, p: F64_2D, q: F64_2D):
    i, j = kc.tid()
    n, m = u.shape[0], u.shape[1]
    around = kc.float64(0.0)
    if i > 0 and j > 0 and i < n - 1 and j < m - 1:
        around = u[i - 1, j - 1] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
    w = v[i, j] + 0.1 * speed[i, j] * around
    q[i, j] = w
    p[i, j] = u[i, j] + 0.1 * w


@kc.kernel
def scattered(x: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, i, x[i])
    if i > 0:
        kc.atomic_add(o, i - 1, x[i] * x[i])


@kc.kernel
def scattered_onto(x: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, i, x[i])
    if i < x.shape[0] - 1:
        kc.atomic_add(o, i + 1, x[i] * x[i])


@kc.kernel
def transposed(x: F64_2D, o: F64_2D):
    i, j = kc.tid()
    o[i, j] = x[j, i] * x[j, i]


@kc.kernel
def corners(x: F64_2D, o: F64_2D):
    i, j = kc.tid()
    n, m = x.shape[0], x.shape[1]
    turned = x[(i + 1) % n, (j - 1 + m) % m]
    o[i, j] = turned * x[kc.max(i - 1, 0), kc.min(j + 1, m - 1)] * kc.float64(i * m + j)


@kc.kernel
def totals(x: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, 0, x[i])
    kc.atomic_add(o, 1, x[i] * x[i])


@kc.kernel
def looked_up(table: F64, x: F64, o: F64):
    i = kc.tid()
    o[i] = table[kc.int32(x[i]) % table.shape[0]] * x[i]


@kc.kernel
def reversed_order(x: F64, o: F64):
    i = kc.tid()
    o[i] = x[x.shape[0] - 1 - i] * x[i]


TRANSPOSED = dict.fromkeys(("launch_dims", "output_dims"), ("x.shape[1]", "x.shape[0]"))
ROWS: dict[str, Any] = {"launch_dims": "x.shape[0]"}
PRODUCT: dict[str, Any] = dict.fromkeys(
    ("launch_dims", "output_dims"), ("a.shape[0]", "b.shape[1]")
)
Counts = dict[str, str]


def everywhere(text: str) -> Counts:
    return dict.fromkeys(("call", "gradient", "Hessian", "vmap"), text)


def border(*counts: int) -> Counts:
    """Permutes of borders in a call, its gradient and the product of its Hessian with a vector."""
    names = ("call", "gradient", "Hessian", "vmap")
    return {k: f"{n} collective-permute" for k, n in zip(names, (*counts, counts[0]), strict=True)}


OWN: Counts = {}
# Gradients of operands that all devices have are sums over the devices.
SHARED: Counts = dict.fromkeys(("gradient", "Hessian"), "1 all-reduce")
SUM = everywhere("1 all-reduce")
GATHERED = everywhere("1 all-gather")
# Per kernel: shapes of the operands, which of them are cut, and the collectives.
TABLE: dict[str, tuple[Function, str, str, Counts]] = {
    "scaled_sum": (jax_kernel(scaled_sum), "n n -", "x x -", SHARED),
    "moved": (jax_kernel(moved), "n3 3 n", "x - x", SHARED),
    "weighted": (jax_kernel(weighted), "n3 n", "x x", OWN),
    "adam": (ADAM, "nm nm nm nm -", "x x x x -", SHARED),
    "numbered": (jax_kernel(numbered), "n", "x", OWN),
    "row_norms": (jax_kernel(row_norms, **ROWS), "nm", "x", OWN),
    "biased": (jax_kernel(biased), "nm m", "x -", SHARED),
    "product": (jax_kernel(product, **PRODUCT), "nm mm", "x -", SHARED),
    "total_of_squares": (jax_kernel(total_of_squares, output_dims=1), "n", "x", SUM),
    "added_to": (jax_kernel(added_to, output_dims=4), "n", "x", SUM),
    "column_sums": (jax_kernel(column_sums, output_dims="x.shape[1]"), "nm", "x", SUM),
    "guarded": (jax_kernel(guarded), "n", "x", border(2, 5, 9)),
    "clamped": (jax_kernel(clamped), "n", "x", border(2, 6, 12)),
    "periodic": (jax_kernel(periodic), "n", "x", border(2, 6, 12)),
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
    "looked_up": (jax_kernel(looked_up), "n n", "- x", SHARED),
    "reversed_order": (jax_kernel(reversed_order), "n", "x", GATHERED),
    "neighbour": (jax_kernel(neighbour), "n", "x", border(1, 3, 6)),
}
# Meshes of two axes cut matrices along both; rows are gathered.
SQUARE: dict[str, Counts] = {
    "row_norms": GATHERED,
    "product": GATHERED | dict.fromkeys(("gradient", "Hessian"), "1 all-gather, 1 all-reduce"),
    "wave": border(4, 12, 24),
    "corners": border(4, 12, 24),
}
EXTENTS = {"n": 16, "m": 8, "3": 3}


def scalar(f: Function) -> Function:
    return lambda *a: sum(jnp.sum(jnp.sin(r) * r) for r in f(*a))


TABLE_TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "call": lambda f: f,
    "gradient": lambda f: lambda *a: jax.grad(scalar(f), range(len(a)))(*a),
    "Hessian": lambda f: lambda *a: jax.jvp(jax.grad(scalar(f), range(len(a))), a, a)[1],
    "vmap": lambda f: lambda *a: jax.vmap(f)(*(jnp.stack([x, 2.0 * x]) for x in a)),
}
MESHES = {
    "line": ((4,), P("x"), AxisType.Auto),
    "square": ((2, 2), P("x", "y"), AxisType.Auto),
    "explicit": ((4,), P("x"), AxisType.Explicit),
}


def collectives(text: str) -> str:
    """The collectives of a program: how many of each."""
    kinds = ("all-gather", "all-reduce", "collective-permute", "all-to-all", "reduce-scatter")
    counts = {kind: len(re.findall(rf" {kind}(?:-start)?\(", text)) for kind in kinds}
    return ", ".join(f"{n} {kind}" for kind, n in counts.items() if n)


def table_arguments(name: str) -> list[Any]:
    rng = np.random.default_rng(3)
    shapes = TABLE[name][1].split()
    return [
        jnp.array(rng.uniform(0.5, 1.5, size=tuple(EXTENTS[c] for c in s if c != "-")))
        for s in shapes
    ]


@cache
def on_one_device(name: str, transform: str) -> Any:
    return jax.jit(TABLE_TRANSFORMS[transform](TABLE[name][0]))(*table_arguments(name))


@pytest.mark.parametrize("where", MESHES)
@pytest.mark.parametrize("name", TABLE)
def test_collectives_of_plain_jit(name: str, where: str) -> None:
    function, shapes, cut_arguments, expected = TABLE[name]
    extents, spec, axis_type = MESHES[where]
    mesh = jax.make_mesh(extents, ("x", "y")[: len(extents)], (axis_type,) * len(extents))
    whole = table_arguments(name)
    specs = [
        P(*spec[: sum(c in "nm" for c in s)]) if is_cut == "x" else P()
        for s, is_cut in zip(shapes.split(), cut_arguments.split(), strict=True)
    ]
    found: dict[str, str] = {}
    for transform, change in TABLE_TRANSFORMS.items():
        reference = on_one_device(name, transform)
        with jax.set_mesh(mesh):
            parts = [
                jax.device_put(x, NamedSharding(mesh, s)) for x, s in zip(whole, specs, strict=True)
            ]
            text, made = compiled(change(function), *parts)
        for a, b in zip(jax.tree.leaves(made), jax.tree.leaves(reference), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        found[transform] = collectives(text)
    wanted = SQUARE.get(name, expected) if where == "square" else expected
    assert {t: c for t, c in found.items() if c} == wanted


def test_operands_that_are_gathered_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = jax.make_mesh((4,), ("x",), (AxisType.Auto,))
    x = jax.device_put(jnp.ones(8), NamedSharding(mesh, P("x")))
    monkeypatch.setattr(kc.config, "report_gathers", True)
    expected = r"reversed_order \(sharding_table.py:\d+\): operand 'x' is cut along axis 0"
    with pytest.warns(UserWarning, match=expected):
        compiled(lambda x: jax_kernel(reversed_order)(x)[0], x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(lambda x: jax_kernel(clamped)(x)[0], x)
