"""Kernels and transformations that are to agree with pure JAX, each with each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec

import kernelcore as kc
from jax_ffi import jax_callable, jax_kernel
from tests.helpers.composites import Particle, pull
from tests.jax.kernels import (
    F64,
    F64_2D,
    I32,
    lookup,
    matmul,
    mixed,
    neighbour,
    neighbour_reference,
    row_sums,
    row_sums_reference,
)

Function = Callable[..., Any]
B, N = 4, 3
INDICES = np.array([2, 0, 2, 1], np.int32)


@kc.kernel
def wave(x: F64, y: F64, o: F64):
    i = kc.tid()
    o[i] = kc.sin(x[i]) * y[i] * y[i]


@kc.kernel
def total(x: F64, y: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, 0, kc.exp(x[i]) * y[i] * y[i])


@kc.func
def cube(x: kc.float64):
    return x * x * x


@kc.func_grad(cube)
def adj_cube(x: kc.float64, adj_ret: kc.float64):
    kc.adjoint[x] += kc.float64(3.0) * x * x * adj_ret


@kc.kernel
def cubes(x: F64, o: F64):
    i = kc.tid()
    o[i] = cube(x[i])


def launch_wave(x: F64, y: F64, o: F64):
    kc.launch(wave, x.shape, [x, y], [o])


def launch_matmul(a: F64_2D, b: F64_2D, c: F64_2D):
    kc.launch(matmul, a.shape, [a, b], [c])


def launch_neighbour(x: F64, o: F64):
    kc.launch(neighbour, x.shape, [x], [o])


def launch_lookup(table: F64, indices: I32, output: F64):
    kc.launch(lookup, indices.shape, [table, indices], [output])


def launch_total(x: F64, y: F64, o: F64):
    kc.launch(total, x.shape, [x, y], [o])


def launch_row_sums(matrix: F64_2D, sums: F64):
    kc.launch(row_sums, matrix.shape, [matrix], [sums])


def launch_mixed(x: F64, y: F64, s: kc.float64, o: F64, r: F64):
    kc.launch(mixed, x.shape, [x, y, s], [o, r])


def launch_pull(p: Particle, others: kc.array(dtype=Particle), p_mass: kc.float64, force: VECTORS):
    kc.launch(pull, others.shape, [p, others, p_mass], [force])


def launch_cubes(x: F64, o: F64):
    kc.launch(cubes, x.shape, [x], [o])


VECTORS = kc.array(dtype=kc.vec3d)


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel as both kinds of functions, the same in pure JAX, and shapes of its arguments."""

    kernel: Function
    function: Function
    reference: Function
    shapes: tuple[tuple[int, ...], ...]


def kernel_case(
    kernel: Any, function: Any, shapes: Any, reference: Function, options: Any, dims: Any = None
) -> Case:
    launched = jax_kernel(kernel, **options)
    if dims is not None:
        launched = jax_kernel(kernel, **options, launch_dims=dims)
    return Case(launched, jax_callable(function, **options), reference, shapes)


def through(case: Case, adapt: Callable[[Function], Function]) -> Case:
    """``case`` for arguments that ``adapt`` makes into those of the kernel."""
    return Case(adapt(case.kernel), adapt(case.function), case.reference, case.shapes)


def pull_reference(position: Any, mass: Any, others: Any, masses: Any) -> Any:
    return (3.0 * mass * masses)[:, None] * (others - position)


def mixed_reference(x: Any, y: Any, s: Any) -> tuple[Any, Any]:
    total = jnp.sum(jnp.exp(-x * s) * y, keepdims=True)
    return s * jnp.sin(x) * y + x**2 * y**3, total


CASES: dict[str, Case] = {
    "elementwise": kernel_case(
        wave, launch_wave, ((N,), (N,)), lambda x, y: jnp.sin(x) * y * y, {}
    ),
    "matmul": kernel_case(
        matmul, launch_matmul, ((N, N), (N, N)), jnp.matmul, {}, ("a.shape[0]", "b.shape[1]")
    ),
    "neighbour": kernel_case(neighbour, launch_neighbour, ((N,),), neighbour_reference, {}),
    "gather": through(
        kernel_case(
            lookup,
            launch_lookup,
            ((N,),),
            lambda t: t[INDICES] ** 2,
            {"output_dims": "indices"},
            "indices",
        ),
        lambda f: lambda table: f(table, INDICES),
    ),
    "atomic sum": kernel_case(
        total,
        launch_total,
        ((N,), (N,)),
        lambda x, y: jnp.sum(jnp.exp(x) * y * y, keepdims=True),
        {"output_dims": 1},
    ),
    "in-out": kernel_case(
        row_sums,
        launch_row_sums,
        ((N, 2), (N,)),
        row_sums_reference,
        {"in_out_argnames": "sums"},
    ),
    "multi-output": kernel_case(
        mixed,
        launch_mixed,
        ((N,), (N,), ()),
        mixed_reference,
        {"num_outputs": 2, "output_dims": {"r": 1}},
    ),
    "struct": through(
        kernel_case(pull, launch_pull, ((3,), (), (N, 3), (N,)), pull_reference, {}),
        lambda f: (
            lambda p, m, o, ms: f({"position": p, "mass": m}, {"position": o, "mass": ms}, 3.0)
        ),
    ),
    "custom rule": kernel_case(cubes, launch_cubes, ((N,),), lambda x: x**3, {}),
}


class Data:
    """Arguments of a case, tangents, and batches of them."""

    def __init__(self, case: Case) -> None:
        rng = np.random.default_rng(0)

        def draw(*lead: int) -> tuple[Any, ...]:
            return tuple(jnp.array(rng.uniform(0.3, 1.2, (*lead, *s))) for s in case.shapes)

        self.args, self.tangents, self.batch = draw(), draw(), draw(B)
        self.nested = draw(2, B)
        self.all = tuple(range(len(self.args)))
        self.first_only = (0, *(None,) * (len(self.args) - 1))
        self.scales = jnp.array([0.5, 1.0, 1.5])
        self.cts = jax.tree.map(jnp.cos, case.reference(*self.args))


def outputs(f: Function) -> Function:
    """``f`` with its results as the reference has them: one array, or a tuple."""

    def of(*args: Any) -> Any:
        found = f(*args)
        return found[0] if isinstance(found, tuple) and len(found) == 1 else found

    return of


def loss(f: Function) -> Function:
    def of(*args: Any) -> Any:
        return sum(jnp.sum(jnp.sin(r) * r) for r in jax.tree.leaves(f(*args)))

    return of


def scaled(f: Function, d: Data) -> Function:
    """The loss as a function of a number that scales the first argument."""
    return lambda s: loss(f)(d.args[0] * s, *d.args[1:])


def stepped(f: Function, d: Data) -> Function:
    def step(carry: Any, s: Any) -> tuple[Any, Any]:
        value = scaled(f, d)(s + 0.1 * carry)
        return jnp.tanh(value), value

    return step


def linearized(f: Function, d: Data) -> Any:
    results, linear = jax.linearize(f, *d.args)
    return results, linear(*d.tangents)


def transposed(f: Function, d: Data) -> Any:
    tangent = lambda *t: jax.jvp(f, d.args, t)[1]  # noqa: E731
    return jax.linear_transpose(tangent, *d.args)(d.cts)


def scanned(f: Function, d: Data) -> Any:
    def of(start: Any) -> Any:
        carry, values = lax.scan(stepped(f, d), start, d.scales)
        return carry + jnp.sum(values)

    return jax.value_and_grad(of)(jnp.array(0.2))


def looped(f: Function, d: Data) -> Any:
    def of(start: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, c: stepped(f, d)(c, 0.5)[0], start)

    return jax.jvp(of, (jnp.array(0.2),), (jnp.array(1.0),))


def branched(f: Function, d: Data) -> Any:
    def of(*args: Any) -> Any:
        return lax.cond(jnp.sum(args[0]) > 0, loss(f), lambda *a: -loss(f)(*a), *args)

    return jax.grad(of, d.all)(*d.args)


def nested(f: Function, d: Data) -> Any:
    inner = jax.vmap(f, d.first_only)
    return jax.vmap(inner, (0, *(None,) * (len(d.args) - 1)), 1)(d.nested[0], *d.args[1:])


def sharded(f: Function, d: Data, check_vma: bool) -> Function:
    """The batch of ``f`` over its first argument, cut over two devices."""
    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec("i")
    rest = (PartitionSpec(),) * (len(d.args) - 1)
    body = jax.vmap(f, d.first_only)
    return jax.shard_map(
        body, mesh=mesh, in_specs=(spec, *rest), out_specs=spec, check_vma=check_vma
    )


def over_last(f: Function, d: Data, check_vma: bool) -> Any:
    """A batch over the last argument of the function over two devices."""
    many = jnp.stack([d.args[-1], 2 * d.args[-1]])
    first = d.batch[:1]
    if len(d.args) == 1:
        return jax.vmap(sharded(f, d, check_vma))(jnp.stack([first[0], 2 * first[0]]))
    axes = (*(None,) * (len(d.args) - 1), 0)
    return jax.vmap(sharded(f, d, check_vma), axes)(*first, *d.args[1:-1], many)


TRANSFORMS: dict[str, Callable[[Function, Data], Any]] = {
    "grad": lambda f, d: jax.grad(loss(f), d.all)(*d.args),
    "value_and_grad": lambda f, d: jax.value_and_grad(loss(f), d.all)(*d.args),
    "jvp": lambda f, d: jax.jvp(f, d.args, d.tangents),
    "vjp": lambda f, d: jax.vjp(f, *d.args)[1](d.cts),
    "linearize": linearized,
    "linear_transpose": transposed,
    "jacfwd": lambda f, d: jax.jacfwd(f, d.all)(*d.args),
    "jacrev": lambda f, d: jax.jacrev(f, d.all)(*d.args),
    "hessian fwd-rev": lambda f, d: jax.jacfwd(jax.jacrev(loss(f), d.all), d.all)(*d.args),
    "hessian rev-rev": lambda f, d: jax.jacrev(jax.jacrev(loss(f), d.all), d.all)(*d.args),
    "hessian rev-fwd": lambda f, d: jax.jacrev(jax.jacfwd(loss(f), d.all), d.all)(*d.args),
    "third order": lambda f, d: jax.grad(jax.grad(jax.grad(scaled(f, d))))(0.9),
    "checkpoint": lambda f, d: jax.grad(jax.checkpoint(loss(f)), d.all)(*d.args),
    "scan": scanned,
    "fori_loop": looped,
    "cond": branched,
    "vmap": lambda f, d: jax.vmap(f)(*d.batch),
    "vmap of the first": lambda f, d: jax.vmap(f, d.first_only)(d.batch[0], *d.args[1:]),
    "vmap of the last": lambda f, d: jax.vmap(f, (*(None,) * (len(d.args) - 1), 0))(
        *d.args[:-1], d.batch[-1]
    ),
    "vmap of the last axis": lambda f, d: jax.vmap(f, (-1, *d.first_only[1:]))(
        jnp.moveaxis(d.batch[0], 0, -1), *d.args[1:]
    ),
    "nested vmap to axis 1": nested,
    "vmap of grad": lambda f, d: jax.vmap(jax.grad(loss(f), d.all), d.first_only)(
        d.batch[0], *d.args[1:]
    ),
    "grad of vmap": lambda f, d: jax.grad(loss(jax.vmap(f, d.first_only)), d.all)(
        d.batch[0], *d.args[1:]
    ),
    "vmap of hessian": lambda f, d: jax.vmap(jax.hessian(loss(f)), d.first_only)(
        d.batch[0], *d.args[1:]
    ),
    "shard_map of grad": lambda f, d: sharded(jax.grad(loss(f)), d, True)(d.batch[0], *d.args[1:]),
    "shard_map of grad, unchecked": lambda f, d: sharded(jax.grad(loss(f)), d, False)(
        d.batch[0], *d.args[1:]
    ),
    "grad of shard_map": lambda f, d: jax.grad(loss(sharded(f, d, True)), d.all)(
        d.batch[0], *d.args[1:]
    ),
    "grad of shard_map, unchecked": lambda f, d: jax.grad(loss(sharded(f, d, False)), d.all)(
        d.batch[0], *d.args[1:]
    ),
    "vmap of shard_map": lambda f, d: over_last(f, d, True),
}
