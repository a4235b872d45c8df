"""Elementwise operators as code of XLA's own."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportGeneralTypeIssues=false, reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import kernelcore as kc
from jax_ffi import fusion
from kernelcore.builtins.spelling import LIBRARY_ULP
from tests.operators import test_fusion as kernels

AnyRank = kc.arraynd[float]
Floats = kc.array(dtype=float)
Ints = kc.array(dtype=int)


@kc.kernel
def leaky_kernel(x: AnyRank, a: float, b: float, y: AnyRank):
    i = kc.tid()
    v = a * x[i] + b
    y[i] = v if v > 0.0 else 0.1 * v


leaky = kc.op(leaky_kernel, fuse=True)
opaque, default = kc.op(leaky_kernel, fuse=False), kc.op(leaky_kernel)


@kc.op
@kc.kernel
def moved(x: Ints, y: Floats, n: Ints, z: Floats):
    i = kc.tid()
    n[i] = x[i] // 3 * i + (x[i] >> 2)
    z[i] = -y[i] if x[i] > 4 else kc.abs(y[i])


@kc.op(fuse=True)
@kc.kernel
def shifted(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = (x[i] + 12582912.0) - 12582912.0


@kc.op(launch_dims=1, output_dims="s")
@kc.kernel
def lorenz(s: Floats, rate: float, y: Floats):
    y[0] = 10.0 * (s[1] - s[0]) * rate
    y[1] = (s[0] * (28.0 - s[2]) - s[1]) * rate
    y[2] = (s[0] * s[1] - 2.6666667 * s[2]) * rate


def chain(x: Any, op: Any = leaky) -> Any:
    for k in range(5):
        x = op(x, 1.0 + 0.125 * k, 0.5 - 0.25 * k)
    return x


def numbers(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(2).standard_normal(shape).astype(np.float32))


def is_launched(f: Callable[..., Any], *args: Any) -> bool:
    """Whether the program of ``f`` launches a kernel."""
    return "custom_call" in jax.jit(f).lower(*args).as_text().replace("custom_call @Sharding", "")


def test_components_are_code_of_xla_in_steps_of_equations() -> None:
    def solved(s: Any, rate: Any) -> Any:
        def step(s: Any, _: Any) -> Any:
            return s + 0.01 * lorenz(s, rate), None

        return jax.lax.scan(step, s, None, 20)[0]

    def loss(s: Any, rate: Any) -> Any:
        return (jax.vmap(solved)(s, rate) ** 2).sum()

    def by_jnp(s: Any, rate: Any) -> Any:
        for _ in range(20):
            x, y, z = s.T
            found = jnp.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.6666667 * z], -1)
            s = s + 0.01 * found * rate[:, None]
        return (s**2).sum()

    s, rate = numbers(50, 3), jnp.abs(numbers(50))
    for number in (0, 1):
        found = jax.grad(loss, number)
        assert not is_launched(found, s, rate)
        want = jax.grad(by_jnp, number)(s, rate)
        np.testing.assert_allclose(jax.jit(found)(s, rate), want, 2e-4, 2e-4)
    assert not is_launched(solved, s[0], rate[0])


def test_a_chain_and_its_derivatives_are_code_of_xla() -> None:
    def first(x: Any) -> Any:
        return jax.grad(lambda x: (chain(x) ** 2).sum())(x)

    def second(x: Any) -> Any:
        return jax.grad(lambda x: first(x).sum())(x)

    x = numbers(37, 11)
    for f in (chain, first, second, lambda x: jax.jvp(chain, (x,), (x,))):
        assert not is_launched(f, x)
        np.testing.assert_allclose(jax.jit(f)(x), f(x), rtol=2e-5, atol=2e-5)


def test_calls_outside_of_programs_are_launches() -> None:
    x = numbers(100)
    assert np.array_equal(chain(x), chain(x, opaque))
    with jax.disable_jit():
        assert np.array_equal(chain(x), chain(x, opaque))


@kc.op
@kc.kernel
def gate(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = x[i] / (1.0 + kc.exp(-x[i]))


def test_operators_stay_where_they_are_quicker_and_where_nothing_is_fused() -> None:
    x = numbers(12)
    assert not is_launched(lambda x: chain(x, default), x)
    assert is_launched(gate, x)
    assert np.array_equal(jax.jit(gate)(x), gate(x))
    assert is_launched(lambda x: chain(x, opaque), x)
    args = jnp.arange(-6, 6, dtype=jnp.int32), x
    assert not is_launched(moved, *args)
    for one, want in zip(jax.jit(moved)(*args), moved(*args), strict=True):
        assert np.array_equal(one, want)


def test_elementary_functions_err_by_as_little_as_is_said() -> None:
    errors: dict[str, float] = {}
    for name, spelling, args, want in kernels.elementary():
        found = jax.jit(lambda *a, s=spelling: s(fusion._FUNCTIONS, kc.float32, *a))(*args)
        errors[name] = kernels.ulps(np.asarray(found), want)
    assert {name: e for name, e in errors.items() if e > LIBRARY_ULP} == {}
    assert len(errors) > 15


def test_constants_that_cancel_round_in_between() -> None:
    x = 10 * numbers(500)
    assert not is_launched(shifted, x)
    assert np.array_equal(jax.jit(shifted)(x), np.round(x))


def test_batches_exports_and_parts_of_arrays() -> None:
    x, a = numbers(6, 5), numbers(3)
    rows = jax.vmap(lambda x: leaky(x, 2.0, 1.0))
    scales = jax.vmap(lambda a: leaky(x, a, 1.0))
    mesh = Mesh(np.array(jax.devices()[:1]), "x")
    part = PartitionSpec("x")
    mapped = jax.shard_map(lambda x: leaky(x, 2.0, 1.0), mesh=mesh, in_specs=part, out_specs=part)
    for f, given in ((rows, x), (scales, a), (mapped, x)):
        assert not is_launched(f, given)
        np.testing.assert_allclose(jax.jit(f)(given), f(given), rtol=1e-6)
    stored = export.export(jax.jit(chain))(x).serialize()
    np.testing.assert_allclose(export.deserialize(stored).call(x), chain(x), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "x", [numbers(0, 4), numbers(), numbers(8, 6).T[::2]], ids=lambda x: x.shape
)
def test_shapes(x: Any) -> None:
    assert not is_launched(chain, x)
    found = jax.jit(chain)(x)
    assert found.shape == x.shape
    np.testing.assert_allclose(found, chain(x), rtol=1e-5, atol=1e-6)


def test_types_that_programs_lack_stay_launches() -> None:
    wide = kc.op(wide_kernel, fuse=True)
    x = numbers(5)
    with jax.enable_x64(False):
        assert is_launched(wide, x)
    with jax.enable_x64(True):
        assert not is_launched(wide, x)
        assert np.array_equal(jax.jit(wide)(x), wide(x))


@kc.kernel
def wide_kernel(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = float(kc.float64(x[i]) + kc.float64(1e-9))


def test_arrays_that_are_sharded_by_their_types() -> None:
    mesh = Mesh(np.array(jax.devices()[:1]), "x", axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(numbers(8), NamedSharding(mesh, PartitionSpec("x")))
        gradient = jax.jit(jax.grad(lambda x: chain(x).sum()))
        np.testing.assert_allclose(gradient(x), jax.grad(lambda x: chain(x).sum())(x), rtol=1e-5)
