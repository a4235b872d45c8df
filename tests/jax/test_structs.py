"""Structs, arrays of structs and generic kernels as operands and results."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import kernelcore as kc
from jax_ffi import jax_kernel, register_struct
from tests.helpers import composites
from tests.jax.kernels import F64, assert_close
from tests.jax.refusal import Golden, check_refusal


@kc.struct
class Body:
    """A struct of a composite, a scalar and an integer."""

    position: kc.vec3d
    mass: kc.float64
    steps: kc.int32


@kc.kernel
def drift(bodies: kc.array(dtype=Body), by: Body, moved: kc.array(dtype=Body)):
    i = kc.tid()
    b = bodies[i]
    b.position = b.position + by.position * b.mass
    b.mass = b.mass * by.mass
    b.steps = b.steps + by.steps
    moved[i] = b


@kc.kernel
def push(bodies: kc.array(dtype=Body), f: F64):
    i = kc.tid()
    bodies[i].mass = bodies[i].mass * f[i]


@kc.kernel
def picked(x: kc.indexedarray(dtype=kc.float64), o: F64):
    i = kc.tid()
    o[i] = x[i] * x[i]


def bodies(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    return {
        "position": jnp.array(rng.normal(size=(n, 3))),
        "mass": jnp.array(rng.uniform(1.0, 2.0, n)),
        "steps": jnp.arange(n, dtype=jnp.int32),
    }


def one(n: int = 1) -> dict[str, Any]:
    return jax.tree.map(lambda a: a[0], bodies(n))


def drift_jax(b: dict[str, Any], by: dict[str, Any]) -> dict[str, Any]:
    return {
        "position": b["position"] + by["position"] * b["mass"][:, None],
        "mass": b["mass"] * by["mass"],
        "steps": b["steps"] + by["steps"],
    }


def pull_jax(p: Any, others: Any, p_mass: Any) -> Any:
    weight = (p_mass * p["mass"] * others["mass"])[:, None]
    return weight * (others["position"] - p["position"])


def test_a_struct_is_one_argument() -> None:
    call = jax_kernel(composites.pull)
    rng = np.random.default_rng(0)
    p = {"position": jnp.array(rng.normal(size=3)), "mass": jnp.array(2.0)}
    others = {"position": jnp.array(rng.normal(size=(4, 3))), "mass": jnp.array(rng.normal(size=4))}
    for run in (lambda f: f, jax.jit):
        assert_close(run(call)(p, others, 3.0)[0], pull_jax(p, others, 3.0))
    assert_close(call(p_mass=3.0, others=others, p=p)[0], pull_jax(p, others, 3.0))
    check_grads(call, (p, others, 3.0), order=2)
    value = composites.Particle(position=(1, 2, 3), mass=2.0)
    table: Any = np.zeros(4, composites.Particle.numpy_dtype())
    table["position"], table["mass"] = others["position"], others["mass"]
    expected = pull_jax({"position": jnp.array([1.0, 2.0, 3.0]), "mass": 2.0}, others, 3.0)
    assert_close(call(value, table, 3.0)[0], expected)


def test_arrays_of_structs_are_results() -> None:
    call = jax_kernel(drift)
    b, by = bodies(5), one()
    (moved,) = jax.jit(call)(b, by)
    assert_close(moved, drift_jax(b, by))
    (longer,) = call(b, by, output_dims={"moved": 7})
    assert_close(jax.tree.map(lambda a: a[:5], longer), moved)
    assert not longer["mass"][5:].any()
    stacked = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), b)
    found = jax.vmap(call, (0, None))(stacked, by)[0]
    assert_close(found, jax.vmap(drift_jax, (0, None))(stacked, by))

    def loss(f: Any) -> Any:
        def of(m: Any, x: Any) -> Any:
            out = f({**b, "mass": m}, {**by, "position": x})
            return jnp.sum(jnp.sin(out["position"])) * jnp.sum(out["mass"])

        return of

    ours = loss(lambda *a: call(*a)[0])
    for transform in (jax.grad, jax.hessian):
        found = transform(ours, (0, 1))(b["mass"], by["position"])
        assert_close(found, transform(loss(drift_jax), (0, 1))(b["mass"], by["position"]))


def test_fields_of_an_updated_struct_that_stay_are_results_too() -> None:
    b, f = bodies(4), jnp.arange(4.0)
    (after,) = jax_kernel(push, in_out_argnames="bodies")(b, f)
    assert_close(after, {**b, "mass": b["mass"] * f})


def test_registered_structs_are_trees() -> None:
    @kc.struct
    class Mine:
        position: kc.vec3d
        mass: kc.float64

    register_struct(Mine)
    register_struct(Mine)  # again, as a notebook does
    value = Mine(position=(1, 2, 3), mass=2.0)

    def loss(p: Any) -> Any:
        return jnp.sum(jnp.asarray(p.position) ** 2) * p.mass

    gradient = jax.jit(jax.grad(loss))(value)
    assert isinstance(gradient, Mine)
    assert_close(jnp.asarray(gradient.position), 4.0 * jnp.array([1.0, 2.0, 3.0]))
    assert_close(jnp.asarray(gradient.mass), jnp.array(14.0))


@register_struct
@kc.struct
class Scales:
    factor: kc.float64
    center: kc.vec3d


@register_struct
@kc.struct
class Nested:
    scales: Scales
    offsets: kc.array(dtype=kc.float64)


@kc.kernel
def scaled_by(x: F64, by: Nested, o: F64):
    i = kc.tid()
    o[i] = by.scales.factor * x[i] * by.scales.center[1] + by.offsets[i]


def test_fields_are_traced_values() -> None:
    x, call = jnp.array([1.0, 2.0]), jax_kernel(scaled_by)

    def run(factor: Any, center: Any, offsets: Any) -> Any:
        scales = Scales(center=center)
        scales.factor = factor
        return call(x, Nested(scales=scales, offsets=offsets))[0]

    def wanted(factor: Any, center: Any, offsets: Any) -> Any:
        return factor * x * center[1] + offsets

    given = 3.0, jnp.array([1.0, 2.0, 4.0]), jnp.array([5.0, 6.0])
    for transform in (lambda f: f, jax.jit, jax.jacrev, jax.jacfwd):
        assert_close(transform(run)(*given), transform(wanted)(*given))
    inner = Scales.of_fields({"factor": 0, "center": None})
    axes = Nested.of_fields({"scales": inner, "offsets": None})
    inner = Scales.of_fields({"factor": x, "center": given[1]})
    batch = Nested.of_fields({"scales": inner, "offsets": given[2]})
    found = jax.vmap(lambda by: call(x, by)[0], in_axes=(axes,))(batch)
    assert_close(found, jnp.stack([wanted(f, *given[1:]) for f in x]))


def test_indexed_arrays_are_arguments() -> None:
    data, indices = jnp.arange(5.0), jnp.array([3, 3, 0], jnp.int32)
    call = jax_kernel(picked, launch_dims=3)

    def run(data: Any) -> Any:
        return call({"data": data, "indices": [indices]})[0]

    assert_close(jax.jit(run)(data), data[indices] ** 2)
    assert_close(jax.jacrev(run)(data), jax.jacrev(lambda d: d[indices] ** 2)(data))
    given = kc.indexedarray(np.arange(5.0), [np.array([3, 3, 0], np.int32)])
    assert_close(call(given)[0], data[indices] ** 2)


BAD_STRUCTS: dict[str, Any] = {
    "struct_missing_field": {"position": [0.0, 0.0, 0.0]},
    "struct_unknown_field": {"position": [0.0] * 3, "mass": 1.0, "q": 1},
    "struct_components": {"position": [0.0] * 2, "mass": 1.0},
    "struct_number": 3.0,
}


@pytest.mark.parametrize("case", BAD_STRUCTS)
def test_other_structs_are_refused(case: str, golden_error: Golden) -> None:
    others = {"position": jnp.zeros((2, 3)), "mass": jnp.zeros(2)}
    call = jax_kernel(composites.pull)
    check_refusal(lambda: call(BAD_STRUCTS[case], others, 3.0), case, golden_error)


@kc.kernel
def scaled(x: kc.array(dtype=Any), s: Any, o: kc.array(dtype=Any)):
    i = kc.tid()
    o[i] = x[i] * s


@kc.kernel
def converted(x: kc.array(dtype=kc.float64), o: kc.array(dtype=Any)):
    i = kc.tid()
    o[i] = o.dtype(x[i])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_generic_kernels_take_the_types_of_their_arguments(dtype: str) -> None:
    call = jax_kernel(scaled)
    x, s = jnp.arange(4).astype(dtype), jnp.asarray(3, dtype)
    for run in (lambda f: f, jax.jit):
        assert_close(run(call)(x, s)[0], x * s)
    assert_close(jax.vmap(call, (0, None))(jnp.stack([x, x]), s)[0], jnp.stack([x, x]) * s)


def test_a_generic_result_that_no_argument_tells_is_refused(golden_error: Golden) -> None:
    check_refusal(lambda: jax_kernel(converted)(jnp.ones(3)), "generic_result", golden_error)
