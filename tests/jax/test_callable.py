"""Functions that launch kernels: recorded once, replayed in one call, or called by the program."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportIndexIssue=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc
from jax_ffi import GraphMode, jax_callable
from jax_ffi.replay import layout
from kernelcore.base.errors import KernelArgumentError
from kernelcore.operators.traced.interface import interface
from kernelcore.operators.traced.trace import record
from tests.helpers import composites
from tests.jax.kernels import F64, assert_close, compiled_text
from tests.jax.refusal import Golden, check_refusal

N = 5


@kc.kernel
def step(x: F64, y: F64, s: kc.float64, o: F64):
    i = kc.tid()
    o[i] = x[i] + s * y[i]


@kc.kernel
def bend(x: F64, o: F64):
    i = kc.tid()
    o[i] = kc.sin(o[i]) * x[i]


@kc.kernel
def sums(x: F64, o: F64):
    kc.atomic_add(o, 0, x[kc.tid()])


def chain(x: F64, y: F64, s: kc.float64, o: F64, total: F64):
    t = kc.zeros(x.shape, dtype=kc.float64)
    u = kc.empty(x.shape, dtype=kc.float64)
    kc.launch(step, x.shape, [x, y, s], [t])
    kc.launch(step, x.shape, [t, y, 2.0], [u])
    kc.launch(bend, x.shape, [x], [u])
    kc.launch(step, x.shape, [u, t, s], [o])
    kc.launch(bend, x.shape, [x], [o])
    kc.launch(sums, x.shape, [o], [total])


def chain_jax(x: Any, y: Any, s: Any) -> tuple[Any, Any]:
    t = x + s * y
    u = jnp.sin(t + 2 * y) * x
    o = jnp.sin(u + s * t) * x
    return o, jnp.sum(o, keepdims=True)


def operands() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    return jnp.array(rng.normal(size=N)), jnp.array(rng.normal(size=N)), jnp.array(0.7)


DIMS = {"total": 1}


@pytest.mark.parametrize("mode", GraphMode)
def test_every_mode_runs_the_launches(mode: GraphMode) -> None:
    call = jax_callable(chain, 2, graph_mode=mode, output_dims=DIMS)
    x, y, s = operands()
    for run in (lambda f: f, jax.jit):
        assert_close(run(call)(x, y, s), chain_jax(x, y, s))
        assert_close(run(call)(s=s, y=y, x=x), chain_jax(x, y, s))
        assert_close(run(call)(x, y, 0.25), chain_jax(x, y, 0.25))
    batch = jnp.stack([x, y, x * y])
    found = jax.vmap(call, (0, None, None))(batch, y, s)
    assert_close(found, jax.vmap(chain_jax, (0, None, None))(batch, y, s))


def test_a_jitted_program_is_one_custom_call() -> None:
    call = jax_callable(chain, 2, output_dims=DIMS)
    text = compiled_text(call, *operands())
    assert text.count(" custom-call(") == 1
    assert "callback" not in text


def test_updates_are_in_place_and_temporaries_share_memory() -> None:
    def function(x: F64, y: F64, o: F64):
        for _ in range(4):
            a, b = kc.empty(x.shape, kc.float64), kc.empty(x.shape, kc.float64)
            kc.launch(step, x.shape, [x, y, 1.0], [a])
            kc.launch(step, x.shape, [a, y, 1.0], [b])
            kc.launch(bend, x.shape, [a], [b])
            kc.launch(step, x.shape, [b, x, 1.0], [o])

    x, y, _ = operands()
    found = layout(record(interface(function), [x, y]))
    assert len(found.hidden) == 2
    assert_close(jax.jit(jax_callable(function))(x, y)[0], jnp.sin(x + 2 * y) * (x + y) + x)


def test_in_out_arrays_are_preserved_and_donated() -> None:
    def function(x: F64, o: F64):
        kc.launch(bend, x.shape, [x], [o])
        kc.launch(bend, x.shape, [x], [o])

    call = jax_callable(function, in_out_argnames="o")
    x, o, _ = operands()
    expected = jnp.sin(jnp.sin(o) * x) * x
    for run in (lambda f: f, jax.jit, partial(jax.jit, keep_unused=True)):
        kept = np.array(o)
        assert_close(run(call)(x, o)[0], expected)
        np.testing.assert_array_equal(o, kept)
    donating = jax.jit(call, donate_argnums=1)
    given = o + 0.0
    address = given.unsafe_buffer_pointer()
    (made,) = donating(x, given)
    assert given.is_deleted()
    assert made.unsafe_buffer_pointer() == address
    assert_close(made, expected)


def test_an_operand_that_is_read_after_its_copy_was_updated_keeps_its_elements() -> None:
    def function(x: F64, o: F64, p: F64):
        kc.launch(bend, x.shape, [x], [o])
        kc.launch(step, x.shape, [o, x, 1.0], [p])

    def aliased(x: F64, o: F64, p: F64):
        old = kc.empty(x.shape, kc.float64)
        old.assign(o)
        kc.launch(bend, x.shape, [x], [o])
        kc.launch(step, x.shape, [o, old, 1.0], [p])

    x, o, _ = operands()
    bent = jnp.sin(o) * x
    assert_close(jax.jit(jax_callable(function, 2, in_out_argnames="o"))(x, o), (bent, bent + x))
    assert_close(jax.jit(jax_callable(aliased, 2, in_out_argnames="o"))(x, o), (bent, bent + o))


def test_numbers_that_the_function_reads_are_static(golden_error: Golden) -> None:
    runs: list[int] = []

    def function(x: F64, n: int, o: F64):
        runs.append(int(n))
        for _ in range(n):
            kc.launch(step, x.shape, [x, x, 1.0], [o])

    call = jax_callable(function)
    x, _, _ = operands()
    for _ in range(3):
        assert_close(call(x, 1)[0], 2 * x)
        assert_close(call(x, 2)[0], 2 * x)
    assert runs == [1, 2]
    check_refusal(lambda: jax.jit(call)(x, jnp.int32(2)), "callable_value_read", golden_error)


def test_structs_are_arguments() -> None:
    def function(p: composites.Particle, others: kc.array(dtype=composites.Particle), f: VECTORS):
        kc.launch(composites.pull, others.shape, [p, others, 3.0], [f])

    rng = np.random.default_rng(0)
    p = {"position": jnp.array(rng.normal(size=3)), "mass": jnp.array(2.0)}
    others = {"position": jnp.array(rng.normal(size=(4, 3))), "mass": jnp.array(rng.normal(size=4))}
    call = jax_callable(function)

    def reference(p: Any, others: Any) -> Any:
        weight = (3.0 * p["mass"] * others["mass"])[:, None]
        return weight * (others["position"] - p["position"])

    assert_close(call(p, others)[0], reference(p, others))
    assert_close(jax.jacrev(call)(p, others)[0], jax.jacrev(reference)(p, others))


VECTORS = kc.array(dtype=kc.vec3d)


def test_extents_may_be_symbolic() -> None:
    call = jax.jit(jax_callable(chain, 2, output_dims=DIMS))
    (n,) = jax.export.symbolic_shape("n")
    x = jax.ShapeDtypeStruct((n,), jnp.float64)
    allowed = [jax.export.DisabledSafetyCheck.custom_call("kernelcore_launch")]
    scalar = jax.ShapeDtypeStruct((), jnp.float64)
    stored = jax.export.export(call, disabled_checks=allowed)(x, x, scalar)
    x, y, s = operands()
    assert_close(stored.call(x, y, s), chain_jax(x, y, s))
    assert_close(stored.call(x[:3], y[:3], s), chain_jax(x[:3], y[:3], s))


def test_a_function_without_recording_reads_elements() -> None:
    def function(x: F64, p: composites.Particle, count: int, o: F64):
        o.assign(np.sort(x.numpy())[::-1] * float(p["mass"]) + count)

    call = jax_callable(function, graph_mode=GraphMode.NONE)
    x, _, s = operands()
    for run in (lambda f: f, jax.jit):
        (found,) = run(call)(x, {"position": jnp.zeros(3), "mass": s}, np.int32(2))
        assert_close(found, jnp.sort(x)[::-1] * s + 2)


def test_arrays_kept_beyond_the_call_refuse_every_use() -> None:
    kept: list[kc.Array] = []

    def function(x: F64, o: F64):
        kept.extend((x, x[1:], o))
        kc.launch(bend, x.shape, [x], [o])

    jax.block_until_ready(jax_callable(function, graph_mode=GraphMode.NONE)(jnp.ones(3)))
    for array in kept:
        for use in (array.numpy, array.clone, lambda a=array: a[0], array.list):
            with pytest.raises(KernelArgumentError, match="kept beyond the call"):
                use()
        with pytest.raises(KernelArgumentError, match="kept beyond the call"):
            kc.launch(bend, 2, [array], [kc.zeros(2, kc.float64, device=array.device)])


def reads(x: F64, o: F64):
    if x.numpy()[0] > 0:
        kc.launch(bend, x.shape, [x], [o])


def writes_input(x: F64, o: F64):
    kc.launch(step, x.shape, [x, x, 1.0], [o])
    kc.launch(bend, x.shape, [o], [x])


def leaves_output(x: F64, o: F64):
    kc.launch(bend, x.shape, [x], [kc.zeros(x.shape, kc.float64)])


def launches_too_far(x: F64, o: F64):
    kc.launch(step, 9, [x, x, 1.0], [o])


def fails(x: F64, o: F64):
    raise ValueError("no such thing")


# Of a type that the annotation excludes.
NUMBER: Any = 7
hosted = jax_callable(reads, graph_mode=GraphMode.NONE)
REFUSED: dict[str, Callable[[], Any]] = {
    "elements_read": lambda: jax_callable(reads)(jnp.ones(3)),
    "input_written": lambda: jax_callable(writes_input)(jnp.ones(3)),
    "output_left": lambda: jax_callable(leaves_output)(jnp.ones(3)),
    "launch": lambda: jax_callable(launches_too_far)(jnp.ones(3)),
    "dtype": lambda: jax_callable(reads)(jnp.ones(3, jnp.int32)),
    "missing": lambda: jax_callable(reads)(),
    "mode": lambda: jax_callable(reads, graph_mode=NUMBER),
    "outputs": lambda: jax_callable(reads, 3),
    "option": lambda: cast("Any", jax_callable)(reads, outputs=1),
    "in_out": lambda: jax_callable(reads, in_out_argnames="q"),
    "dims": lambda: jax_callable(reads)(jnp.ones(3), output_dims={"q": 3}),
    "output_rank": lambda: jax_callable(reads)(jnp.ones(3), output_dims=(3, 3)),
    "vmap": lambda: jax_callable(reads, vmap_method="fast"),
    "derivative": lambda: jax.grad(lambda x: jnp.sum(hosted(x)[0]))(jnp.ones(3)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_operations_without_a_record_are_refused(case: str, golden_error: Golden) -> None:
    check_refusal(REFUSED[case], f"callable_{case}", golden_error)


def test_errors_of_the_function_end_the_program() -> None:
    call = jax_callable(fails, graph_mode=GraphMode.NONE)
    with pytest.raises(jax.errors.JaxRuntimeError, match="no such thing"):
        jax.block_until_ready(call(jnp.ones(3)))
