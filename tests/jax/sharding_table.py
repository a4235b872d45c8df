"""The collectives of kernels over sharded arrays in plain jit; ``test_matrix`` runs it."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding

import kernelcore as kc
from jax_ffi import jax_kernel
from tests.jax.kernels import F64
from tests.jax.sharding_cases import Function, P, compiled
from tests.jax.sharding_extents import UPSAMPLED
from tests.jax.sharding_kernels import (
    EXPLICIT,
    EXTENTS,
    EXTREMES,
    SQUARE,
    TABLE,
    gelu,
    reversed_order,
    ring_and_sum,
)
from tests.jax.sharding_stencils import clamped


def floats(args: Sequence[Any]) -> list[int]:
    return [k for k, a in enumerate(args) if jnp.issubdtype(a.dtype, jnp.floating)]


def gradient(f: Function) -> Function:
    return lambda *a: jax.grad(scalar(f), floats(a))(*a)


def hessian_product(f: Function) -> Function:
    """The product of the Hessian with the arguments themselves."""

    def of(*args: Any) -> Any:
        chosen = floats(args)

        def of_floats(*values: Any) -> Any:
            given = dict(zip(chosen, values, strict=True))
            return gradient(f)(*(given.get(k, a) for k, a in enumerate(args)))

        values = [args[k] for k in chosen]
        return jax.jvp(of_floats, values, values)[1]

    return of


def scalar(f: Function) -> Function:
    return lambda *a: sum(jnp.sum(jnp.sin(r) * r) for r in f(*a))


TABLE_TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "call": lambda f: f,
    "gradient": gradient,
    "Hessian": hessian_product,
    "vmap": lambda f: lambda *a: jax.vmap(f)(*(jnp.stack([x, 2 * x]) for x in a)),
}
MESHES = {
    "line": ((8,), P("x"), AxisType.Auto),
    "square": ((4, 2), P("x", "y"), AxisType.Auto),
    "explicit": ((8,), P("x"), AxisType.Explicit),
}
CELLS = list(product(TABLE, MESHES))
# Prime to the number of meshes, so that the slice has cells of every mesh.
SLICE = 1 if os.environ.get("KC_JAX_SHARDING") == "whole" else 7


def collectives(text: str) -> str:
    """The collectives of a program: how many of each."""
    kinds = ("all-gather", "all-reduce", "collective-permute", "all-to-all", "reduce-scatter")
    counts = {kind: len(re.findall(rf" {kind}(?:-start)?\(", text)) for kind in kinds}
    return ", ".join(f"{n} {kind}" for kind, n in counts.items() if n)


def table_arguments(name: str) -> list[Any]:
    rng = np.random.default_rng(3)
    made: list[Any] = []
    for shape in TABLE[name][1].split():
        size = tuple(EXTENTS[c] for c in shape if c in EXTENTS)
        integers = rng.integers(0, 4, size=size, dtype=np.int32)
        made.append(integers if "i" in shape else rng.uniform(0.5, 1.5, size=size))
    return [jnp.array(x) for x in made]


def spec_of(shape: str, cut: str, axes: Any) -> Any:
    """How an operand lies on a mesh, of the letters that the table has for it."""
    if cut == "_x":
        return P(None, axes[0])
    return P(*axes[: sum(c in "nmw" for c in shape)]) if cut == "x" else P()


@cache
def on_one_device(name: str, transform: str) -> Any:
    return jax.jit(TABLE_TRANSFORMS[transform](TABLE[name][0]))(*table_arguments(name))


@pytest.mark.parametrize(("name", "where"), CELLS[::SLICE])
def test_collectives_of_plain_jit(name: str, where: str) -> None:
    function, shapes, cut_arguments, expected = TABLE[name]
    extents, spec, axis_type = MESHES[where]
    mesh = jax.make_mesh(extents, ("x", "y")[: len(extents)], (axis_type,) * len(extents))
    whole = table_arguments(name)
    cuts = zip(shapes.split(), cut_arguments.split(), strict=True)
    specs = [spec_of(shape, cut, spec) for shape, cut in cuts]
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
    wanted = {"square": SQUARE, "explicit": EXPLICIT}.get(where, {}).get(name, expected)
    assert {t: c for t, c in found.items() if c} == wanted


def batch(f: Function) -> Function:
    return lambda *a: jax.vmap(f)(*a)


BATCHES = (
    "softmax",
    "cross_entropy",
    "attracted",
    "periodic",
    "transposed",
    "reversed_order",
    "wave",
)


@pytest.mark.parametrize("name", BATCHES)
def test_batches_stay_sharded(name: str) -> None:
    mesh = jax.make_mesh((8,), ("x",), (AxisType.Auto,))
    whole = [jnp.stack([x] * 8) for x in table_arguments(name)]
    parts = [jax.device_put(x, NamedSharding(mesh, P("x"))) for x in whole]
    for transform in ("call", "gradient", "Hessian"):
        function = TABLE_TRANSFORMS[transform](batch(TABLE[name][0]))
        text, made = compiled(function, *parts)
        assert collectives(text) == ""
        expected = jax.jit(function)(*whole)
        for a, b in zip(jax.tree.leaves(made), jax.tree.leaves(expected), strict=True):
            assert a.sharding.spec == P("x")
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_results_larger_than_the_launch_stay_sharded() -> None:
    mesh = jax.make_mesh((8,), ("x",), (AxisType.Auto,))
    x = jnp.linspace(0.5, 1.5, 64)
    for function in (lambda x: UPSAMPLED(x), gradient(UPSAMPLED)):
        text, (made,) = compiled(function, jax.device_put(x, NamedSharding(mesh, P("x"))))
        assert collectives(text) == ""
        np.testing.assert_allclose(made, jax.jit(function)(x)[0], rtol=1e-12)


@pytest.mark.parametrize("dtype", [kc.float16, kc.bfloat16, kc.float32, kc.float64])
def test_extrema_over_devices_keep_nans(dtype: Any) -> None:
    mesh = jax.make_mesh((8,), ("x",), (AxisType.Auto,))
    x = jnp.arange(-24.0, 40.0).reshape(16, 4).at[3, 0].set(jnp.nan).at[9, 1].set(-jnp.inf)
    for whole in (x, x[:, 1:], -x[:, 1:]):
        start = [jnp.full(n, 1.0, dtype.numpy) for n in (whole.shape[1], 1)]
        args = [whole.astype(dtype.numpy), *start]
        cut = jax.device_put(args[0], NamedSharding(mesh, P("x")))
        text, found = compiled(EXTREMES, cut, *start)
        assert collectives(text) == "2 all-reduce"
        for made, expected in zip(found, EXTREMES(*args), strict=True):
            np.testing.assert_array_equal(made.astype(float), expected.astype(float))


# Meshes by name of axis, and the axes that are manual.
PARTLY_MANUAL = [
    ({"x": 2, "y": 4}, "x"),
    ({"y": 4, "x": 2}, "x"),
    ({"x": 2, "y": 2, "z": 2}, "xz"),
]


@pytest.mark.parametrize(("axes", "manual"), PARTLY_MANUAL)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_axes_beside_manual_ones(axes: dict[str, int], manual: str, is_reversed: bool) -> None:
    devices = np.array(jax.devices())[:: -1 if is_reversed else 1].reshape(*axes.values())
    mesh = jax.sharding.Mesh(devices, tuple(axes))
    function = jax_kernel(ring_and_sum, num_outputs=2, output_dims={"r": 1})
    local, whole = P(tuple(manual)), P((*manual, *sorted(set(axes) - set(manual))))
    x = jnp.linspace(0.5, 1.5, 32)
    mapped = jax.shard_map(
        lambda x: function(x), mesh=mesh, in_specs=local, out_specs=local, axis_names=set(manual)
    )
    text, found = compiled(mapped, jax.device_put(x, NamedSharding(mesh, whole)))
    groups = jnp.split(x, int(np.prod([axes[a] for a in manual])))
    for made, parts in zip(found, zip(*map(function, groups), strict=True), strict=True):
        np.testing.assert_allclose(made, jnp.concatenate(parts), rtol=1e-12)
    assert collectives(text) == "1 all-reduce, 1 collective-permute"


def test_launches_apart_need_no_numbers_of_devices() -> None:
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), (AxisType.Auto,) * 3)
    x = jax.random.normal(jax.random.key(0), (8, 8))
    mapped = jax.shard_map(
        lambda x: jax_kernel(gelu)(x)[0],
        mesh=mesh,
        in_specs=P("x"),
        out_specs=P("x"),
        axis_names={"x"},
    )
    spec = P(("x", "z"), "y")
    text, found = compiled(mapped, jax.device_put(x, NamedSharding(mesh, spec)))
    assert collectives(text) == ""
    assert found.sharding.spec == spec
    np.testing.assert_array_equal(found, jax_kernel(gelu)(x)[0])


@kc.kernel
def residual(u: F64, b: F64, o: F64):
    i = kc.tid()
    left = kc.float64(0.0)
    right = kc.float64(0.0)
    if i > 0:
        left = u[i - 1]
    if i < u.shape[0] - 1:
        right = u[i + 1]
    o[i] = u[i] + 0.1 * (2.0 * u[i] - left - right) + 0.1 * u[i] * u[i] * u[i] - b[i]


def test_implicit_solve_on_two_devices() -> None:
    apply = jax_kernel(residual)

    def newton_step(u: Any, b: Any) -> Any:
        at = jax.lax.stop_gradient(u)
        jacobian = lambda t: jax.jvp(lambda u: apply(u, b)[0], (at,), (t,))[1]  # noqa: E731
        return u - jax.scipy.sparse.linalg.cg(jacobian, apply(u, b)[0], maxiter=20, tol=1e-14)[0]

    def loss(b: Any) -> Any:
        u = jax.lax.fori_loop(0, 6, lambda _, u: newton_step(u, b), b)
        # The derivative of one more step from the solution is that of the solution.
        return jnp.sum(jnp.sin(newton_step(jax.lax.stop_gradient(u), b)))

    b = jnp.linspace(0.5, 2.0, 64)
    mesh = jax.make_mesh((2,), ("x",), (AxisType.Auto,), devices=jax.devices()[:2])
    program = jax.value_and_grad(loss)
    text, found = compiled(program, jax.device_put(b, NamedSharding(mesh, P("x"))))
    for made, expected in zip(found, jax.jit(program)(b), strict=True):
        np.testing.assert_allclose(made, expected, rtol=1e-12)
    assert "all-gather" not in text
    slope = (loss(b + 1e-6) - loss(b - 1e-6)) / 2e-6
    np.testing.assert_allclose(found[1].sum(), slope, rtol=1e-7)


def test_operands_that_are_gathered_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = jax.make_mesh((4,), ("x",), (AxisType.Auto,))
    x = jax.device_put(jnp.ones(8), NamedSharding(mesh, P("x")))
    monkeypatch.setattr(kc.config, "report_gathers", True)
    expected = r"reversed_order \(sharding_kernels.py:\d+\): operand 'x' is cut along axis 0"
    with pytest.warns(UserWarning, match=expected):
        compiled(lambda x: jax_kernel(reversed_order)(x)[0], x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(lambda x: jax_kernel(clamped)(x)[0], x)
