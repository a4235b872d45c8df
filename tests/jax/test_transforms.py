"""Every transformation of JAX, alone and composed, agrees with the same on a pure JAX reference."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import jax_ffi
import kernelcore as kc
from jax_ffi import jax_kernel
from tests.jax.kernels import (
    F64,
    F64_2D,
    assert_close,
    axpy,
    decay_kernel,
    decay_reference,
    mixed_kernel,
    mixed_reference,
)

N, B = 5, 3
Function = Callable[..., Any]


class Data:
    """Operands of ``mixed``, batches of them, and tangents."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.x, self.y = (jnp.array(rng.normal(size=N)) for _ in range(2))
        self.s = jnp.array(0.7)
        self.tangents = tuple(jnp.array(rng.normal(size=shape)) for shape in (N, N, ()))
        self.xs, self.ys = (jnp.array(rng.normal(size=(B, N))) for _ in range(2))
        self.columns = jnp.array(rng.normal(size=(N, B)))
        self.scales = jnp.array(rng.uniform(0.3, 1.0, size=B))

    @property
    def primals(self) -> tuple[Any, Any, Any]:
        return self.x, self.y, self.s


def loss(g: Function) -> Function:
    def of(x: Any, y: Any, s: Any) -> Any:
        o, r = g(x, y, s)
        return jnp.sum(jnp.cos(o)) * r + r**2

    return of


def stepped(g: Function, y: Any) -> Function:
    """A carry and a scale to the next carry and an output, for ``lax.scan``."""

    def step(carry: Any, s: Any) -> tuple[Any, Any]:
        o, r = g(carry, y, s)
        return jnp.tanh(o), r

    return step


def scanned(g: Function, d: Data) -> Function:
    return lambda x: jnp.sum(lax.scan(stepped(g, d.y), x, d.scales)[1])


def linearized(g: Function, d: Data) -> Any:
    results, linear = jax.linearize(g, *d.primals)
    return results, linear(*d.tangents)


def partial_jvp(g: Function, d: Data) -> Function:
    return lambda t: jax.jvp(lambda x: g(x, d.y, d.s), (d.x,), (t,))[1]


def branched(g: Function, d: Data) -> Function:
    return lambda x: lax.cond(
        x[0] > 0, lambda x: loss(g)(x, d.y, d.s), lambda x: -loss(g)(x, d.y, d.s), x
    )


def nested(g: Function) -> Function:
    return jax.vmap(jax.vmap(g, (None, None, 0)), (0, None, None))


def saving_nothing(g: Function, d: Data) -> Function:
    policy = jax.checkpoint_policies.nothing_saveable
    return jax.checkpoint(lambda x: loss(g)(jnp.sin(x), d.y, d.s), policy=policy)


def iterated(g: Function, d: Data) -> Function:
    return lambda x: lax.fori_loop(0, 3, lambda _, c: jnp.tanh(g(c, d.y, d.s)[0]), x)


ALL = (0, 1, 2)
TRANSFORMS: dict[str, Callable[[Function, Data], Any]] = {
    "call": lambda g, d: g(*d.primals),
    "grad": lambda g, d: jax.grad(loss(g), ALL)(*d.primals),
    "grad of the scalar alone": lambda g, d: jax.grad(loss(g), 2)(*d.primals),
    "grad of one result": lambda g, d: jax.grad(lambda x: g(x, d.y, d.s)[1])(d.x),
    "value_and_grad": lambda g, d: jax.value_and_grad(loss(g), ALL)(*d.primals),
    "jvp": lambda g, d: jax.jvp(g, d.primals, d.tangents),
    "jvp of some": lambda g, d: jax.jvp(lambda x: g(x, d.y, d.s), (d.x,), d.tangents[:1]),
    "vjp": lambda g, d: jax.vjp(g, *d.primals)[1]((jnp.cos(d.x), jnp.array(2.0))),
    "linearize": linearized,
    "linear_transpose": lambda g, d: jax.linear_transpose(partial_jvp(g, d), d.x)((d.x, d.s)),
    "jacfwd": lambda g, d: jax.jacfwd(g, ALL)(*d.primals),
    "jacrev": lambda g, d: jax.jacrev(g, ALL)(*d.primals),
    "hessian": lambda g, d: jax.hessian(loss(g), ALL)(*d.primals),
    "jacrev of jacfwd": lambda g, d: jax.jacrev(jax.jacfwd(loss(g)))(*d.primals),
    "jacrev of jacrev": lambda g, d: jax.jacrev(jax.jacrev(loss(g), 2), 0)(*d.primals),
    "jacfwd of jacfwd": lambda g, d: jax.jacfwd(jax.jacfwd(loss(g), 1), 0)(*d.primals),
    "third derivative": lambda g, d: jax.grad(jax.grad(jax.grad(lambda s: loss(g)(d.x, d.y, s))))(
        d.s
    ),
    "jvp of grad": lambda g, d: jax.jvp(jax.grad(loss(g), ALL), d.primals, d.tangents),
    "grad of jvp": lambda g, d: jax.grad(lambda x: jax.jvp(loss(g), (x, d.y, d.s), d.tangents)[1])(
        d.x
    ),
    "checkpoint": lambda g, d: jax.grad(lambda x: jax.checkpoint(loss(g))(x, d.y, d.s))(d.x),
    "checkpoint that saves nothing": lambda g, d: jax.grad(saving_nothing(g, d))(d.x),
    "vmap": lambda g, d: jax.vmap(g, (0, None, None))(d.xs, d.y, d.s),
    "vmap of all": lambda g, d: jax.vmap(g)(d.xs, d.ys, d.scales),
    "vmap along axis 1": lambda g, d: jax.vmap(g, (1, None, None))(d.columns, d.y, d.s),
    "vmap along two axes": lambda g, d: jax.vmap(g, (1, 0, None))(d.columns, d.ys, d.s),
    "vmap of the scalar": lambda g, d: jax.vmap(g, (None, None, 0))(d.x, d.y, d.scales),
    "vmap to axis 1": lambda g, d: jax.vmap(lambda x: g(x, d.y, d.s)[0], out_axes=1)(d.xs),
    "nested vmap": lambda g, d: nested(g)(d.xs, d.y, d.scales),
    "triple vmap": lambda g, d: jax.vmap(nested(g), (None, 0, None))(d.xs, d.ys, d.scales),
    "vmap of grad": lambda g, d: jax.vmap(jax.grad(loss(g), ALL), (0, None, None))(d.xs, d.y, d.s),
    "grad of vmap": lambda g, d: jax.grad(
        lambda y, s: jnp.sum(jax.vmap(loss(g), (0, None, None))(d.xs, y, s)), (0, 1)
    )(d.y, d.s),
    "jvp of nested vmap": lambda g, d: jax.jvp(
        lambda y: nested(g)(d.xs, y, d.scales), (d.y,), d.tangents[:1]
    ),
    "vmap of hessian": lambda g, d: jax.vmap(jax.hessian(loss(g)), (0, None, 0))(
        d.xs, d.y, d.scales
    ),
    "hessian of vmap": lambda g, d: jax.hessian(
        lambda s: jnp.sum(jax.vmap(loss(g), (0, None, None))(d.xs, d.y, s))
    )(d.s),
    "scan": lambda g, d: lax.scan(stepped(g, d.y), d.x, d.scales),
    "grad of scan": lambda g, d: jax.grad(scanned(g, d))(d.x),
    "vmap of grad of scan": lambda g, d: jax.vmap(jax.grad(scanned(g, d)))(d.xs),
    "jvp of fori_loop": lambda g, d: jax.jvp(iterated(g, d), (d.x,), d.tangents[:1]),
    "cond": lambda g, d: jax.grad(branched(g, d))(d.x),
    "vmap of cond": lambda g, d: jax.vmap(branched(g, d))(d.xs),
}


@cache
def expected(name: str) -> Any:
    return jax.jit(partial(TRANSFORMS[name], mixed_reference, Data()))()


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transform_agrees_with_reference(name: str, jit: bool) -> None:
    transform, data = TRANSFORMS[name], Data()
    run = partial(transform, mixed_kernel, data)
    assert_close(jax.jit(run)() if jit else run(), expected(name))


LOOP_TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "call": lambda g: g,
    "grad": lambda g: jax.grad(lambda x, r, n: jnp.sum(g(x, r, n)[0] ** 2), (0, 1)),
    "jacfwd": lambda g: jax.jacfwd(lambda x, r, n: g(x, r, n)[0], (0, 1)),
    "hessian": lambda g: jax.hessian(lambda x, r, n: jnp.sum(g(x, r, n)[0] ** 2), (0, 1)),
    "vmap of grad": lambda g: jax.vmap(
        jax.grad(lambda x, r, n: jnp.sum(g(x, r, n)[0] ** 2)), (None, None, 0)
    ),
}


@pytest.mark.parametrize("name", LOOP_TRANSFORMS)
def test_integers_pass_through_derivatives_of_dynamic_loops(name: str) -> None:
    counts = jnp.array([0, 1, 3, 4], jnp.int32)
    operands = (jnp.array([0.2, 0.4, 0.6, 0.7]), jnp.array(2.7))
    counts = jnp.stack([counts, counts[::-1]]) if "vmap" in name else counts
    transform = LOOP_TRANSFORMS[name]
    found, expected = (jax.jit(transform(f)) for f in (decay_kernel, decay_reference))
    assert_close(found(*operands, counts), expected(*operands, counts))


def test_eval_shape_runs_nothing() -> None:
    data = Data()
    o, r = jax.eval_shape(mixed_kernel, *data.primals)
    assert (o.shape, o.dtype, r.shape) == ((N,), np.float64, ())


def test_derivatives_nest_to_any_order_without_new_primitives() -> None:
    data = Data()
    jaxpr = jax.make_jaxpr(jax.hessian(loss(mixed_kernel)))(*data.primals)
    assert "kernelcore_launch" in str(jaxpr)
    assert "callback" not in str(jaxpr)


@kc.kernel
def smoothed(x: F64_2D, o: F64_2D):
    i, j = kc.tid()
    if i > 0 and i < x.shape[0] - 1 and j > 0 and j < x.shape[1] - 1:
        o[i, j] = 0.5 * x[i, j] + 0.125 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])
    else:
        o[i, j] = x[i, j]


def smoothed_reference(x: Any) -> Any:
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return x.at[1:-1, 1:-1].set(0.5 * x[1:-1, 1:-1] + 0.125 * around)


@kc.kernel
def row_sums(x: F64_2D, o: F64):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += x[i, k]
    o[i] = total


@kc.kernel
def biased_sine(x: F64_2D, bias: F64, o: F64_2D):
    i, j = kc.tid()
    o[i, j] = kc.sin(x[i, j]) + bias[j]


@kc.kernel
def weighted(x: F64, weight: F64, shift: F64, o: F64):
    i = kc.tid()
    o[i] = x[i] * weight[i] + shift[i]


def residual_shapes(function: Function, *args: Any) -> list[tuple[int, ...]]:
    """The shapes of what a program keeps from its forward to its backward pass."""
    kept = jax.jit(lambda *a: jax.vjp(function, *a)[1])(*args)
    return sorted({np.shape(leaf) for leaf in jax.tree.leaves(kept)})


def test_residuals_are_what_the_adjoint_reads() -> None:
    x, p, row = jnp.ones((5, 7)), jnp.ones((5, 7)), jnp.ones(7)
    assert residual_shapes(jax_kernel(smoothed), x) == []
    assert residual_shapes(jax_kernel(row_sums, launch_dims="x.shape[0]"), x) == []
    # The bias is added, and the sine is of the array alone.
    assert residual_shapes(jax_kernel(biased_sine), x, row) == [(5, 7)]
    assert residual_shapes(lambda row: jax_kernel(biased_sine)(x, row), row) == []
    product = jax.vmap(lambda x, p: jax_kernel(weighted)(x, p, p), (0, None))
    assert residual_shapes(product, x, p[0]) == [(5, 7), (7,)]


def test_explain_names_the_residuals() -> None:
    x, row = jnp.ones((5, 7)), jnp.ones(7)
    for function, args in ((smoothed, (x,)), (biased_sine, (x, row)), (weighted, (row, row, row))):
        arrays = dict(zip([p.name for p in function.parameters], args, strict=False))
        kept = kc.explain(function, *map(np.asarray, (*args, args[0]))).adjoint.kept
        assert kept == {name: arrays[name].nbytes for name in kept}
        shapes = sorted({arrays[name].shape for name in kept})
        assert residual_shapes(jax_kernel(function), *args) == shapes


def test_scans_of_linear_kernels_keep_nothing() -> None:
    step = jax_kernel(smoothed)

    def loss(x: Any, length: int) -> Any:
        return jnp.sum(lax.scan(lambda x, _: (step(x)[0], None), x, None, length=length)[0] ** 2)

    def temporary_bytes(length: int) -> int:
        gradient = jax.jit(jax.grad(partial(loss, length=length)))
        used: Any = gradient.lower(jnp.ones((32, 32))).compile().memory_analysis()
        return used.temp_size_in_bytes

    assert temporary_bytes(100) == temporary_bytes(10)
    x = jnp.linspace(0.0, 1.0, 24).reshape(4, 6)
    matrix = jax.jacobian(lambda x: smoothed_reference(x).ravel())(x).reshape(24, 24)
    power = np.linalg.matrix_power(np.asarray(matrix), 3)
    expected = (2.0 * power.T @ power @ np.ravel(x)).reshape(4, 6)
    assert_close(jax.grad(partial(loss, length=3))(x), expected)


def test_programs_of_symbolic_size_have_gradients_of_linear_kernels() -> None:
    sums = jax_kernel(row_sums, launch_dims="x.shape[0]")
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(sums(x)[0] ** 2)))
    shape = export.symbolic_shape("n, m")
    wanted = jax.ShapeDtypeStruct(shape, jnp.float64)
    x = jnp.arange(6.0).reshape(2, 3)
    found = jax_ffi.export(gradient)(wanted).call(x)
    assert_close(found, jnp.broadcast_to(2.0 * x.sum(1, keepdims=True), (2, 3)))


def test_programs_and_traces_name_kernels_and_their_places(tmp_path: Path) -> None:
    call = jax_kernel(axpy)
    x = jnp.ones(3, jnp.float32)
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(call(x, 2.0, 1)[0] ** 2)))
    text = str(gradient.lower(x).compile().as_text())
    assert re.search(r'op_name="jit\(<lambda>\)/jvp\(.*\)/axpy \(kernels.py:\d+\)"', text)
    with jax.profiler.trace(str(tmp_path)):
        gradient(x).block_until_ready()
    (trace,) = tmp_path.rglob("*.trace.json.gz")
    events = gzip.decompress(trace.read_bytes()).decode()
    assert re.search(r'"name":"axpy__kernels_py_\d+_', events)
    assert "kernelcore_launch" not in events


@kc.kernel
def added(x: F64, y: F64, o: F64):
    i = kc.tid()
    o[i] = x[i] + y[i]


@kc.kernel
def damped(x: F64, y: F64, o: F64):
    i = kc.tid()
    o[i] = kc.sin(x[i]) + y[i]


@kc.kernel
def added_vectors(
    x: kc.array(dtype=kc.vec3d), y: kc.array(dtype=kc.vec3d), o: kc.array(dtype=kc.vec3d)
):
    i = kc.tid()
    o[i] = x[i] + y[i]


@kc.kernel
def added_reversed(x: F64, y: F64, o: F64):
    i = kc.tid()
    o[i] = x[x.shape[0] - 1 - i] + y[i]


@kc.kernel
def totals_of_rows(x: F64_2D, o: F64):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += x[i, k]
    o[i] = total


@kc.kernel
def column_sums(x: F64_2D, o: F64):
    i, j = kc.tid()
    kc.atomic_add(o, j, x[i, j])


@kc.kernel
def some_columns(x: F64_2D, o: F64):
    i = kc.tid()
    for k in range(3):
        o[i] += x[i, k]


def launches_of_gradient(function: Any, *args: Any) -> list[int]:
    """The number of results of every launch in the gradient of ``function``."""
    gradient = jax.grad(lambda *a: jnp.sum(jnp.sin(function(*a)[0])), range(len(args)))
    reference = jax.jacfwd(lambda *a: jnp.sum(jnp.sin(function(*a)[0])), range(len(args)))
    assert_close(gradient(*args), reference(*args))
    eqns = jax.make_jaxpr(gradient)(*args).eqns
    return [len(e.outvars) for e in eqns if e.primitive.name == "kernelcore_launch"]


def test_cotangents_that_are_passed_on_need_no_launch() -> None:
    x, y = jnp.linspace(0.5, 1.5, 8), jnp.linspace(1.0, 2.0, 8)
    vectors = jnp.stack([x] * 3, 1)
    assert launches_of_gradient(jax_kernel(added), x, y) == [1]
    assert launches_of_gradient(jax_kernel(added_vectors), vectors, 2.0 * vectors) == [1]
    assert launches_of_gradient(jax_kernel(damped), x, y) == [1, 1]
    assert launches_of_gradient(jax_kernel(added_reversed), x, y) == [1, 1]
    rows: dict[str, Any] = {"launch_dims": "x.shape[0]", "output_dims": "x.shape[0]"}
    columns: dict[str, Any] = {"launch_dims": "x", "output_dims": "x.shape[1]"}
    matrix = jnp.outer(x, y)
    assert launches_of_gradient(jax_kernel(totals_of_rows, **rows), matrix) == [1]
    assert launches_of_gradient(jax_kernel(column_sums, **columns), matrix) == [1]
    # Other columns have zeros.
    assert launches_of_gradient(jax_kernel(some_columns, **rows), matrix) == [1, 1]
    # A launch over a part of the arrays passes on that part.
    part = jax_kernel(added, launch_dims=4, output_dims=8)
    assert launches_of_gradient(part, x, y) == [1, 2]
