"""Loops of JAX: cotangents and states give up their memory, and keep their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import kernelcore as kc
from jax_ffi import jax_kernel

F1 = kc.array(kc.float64, 1)


@kc.kernel
def sine(u: F1, p: F1, o: F1):
    i = kc.tid()
    o[i] = kc.sin(u[i]) * p[i]


@kc.kernel
def wave(u: F1, v: F1, speed: F1, u_next: F1, v_next: F1):
    i = kc.tid()
    n = u.shape[0]
    w = v[i] + 0.1 * speed[i] * (u[(i + 1) % n] + u[(i + n - 1) % n] - 2.0 * u[i])
    v_next[i] = w
    u_next[i] = u[i] + 0.1 * w


@kc.kernel
def relaxed(u: F1, v: F1, k: F1, u_next: F1, v_next: F1):
    i = kc.tid()
    a, b = u[i], v[i]
    v_next[i] = b - k[i] * a
    u_next[i] = a + 0.1 * b


def relaxed_of_jnp(carry: Any, k: Any) -> Any:
    u, v = carry
    return u + 0.1 * v, v - k * u


def sine_of_jnp(u: Any, p: Any) -> Any:
    return jnp.sin(u) * p


def wave_of_jnp(carry: Any, speed: Any) -> Any:
    u, v = carry
    w = v + 0.1 * speed * (jnp.roll(u, -1) + jnp.roll(u, 1) - 2.0 * u)
    return u + 0.1 * w, w


Step = Callable[[Any, Any], Any]


def of_sine(u: Any, p: Any) -> Any:
    return jax_kernel(sine)(u, p)[0]


def step_of_system(kernel: kc.Kernel) -> Step:
    call = jax_kernel(kernel, num_outputs=2)
    return lambda c, p: call(*c, p)


def steps_of(call: Step) -> dict[str, Step]:
    """Bodies of loops, which use the cotangent of ``call``'s result in different ways."""
    return {
        "alone": call,
        "residual": lambda c, p: c + call(c, p),
        "twice": lambda c, p: call(call(c, p), p) + 0.5 * call(p, c),
        "shared": lambda c, p: (lambda o: o * jnp.cos(o) + c)(call(c, p)),
        "checkpoint": jax.checkpoint(lambda c, p: call(call(c, p), p)),
        "gradient": lambda c, p: c - 0.1 * jax.grad(lambda c: jnp.sum(call(c, p) ** 2))(c),
    }


def looped(step: Step, length: int = 5) -> Step:
    def loss(c: Any, p: Any) -> Any:
        end = lax.scan(lambda c, _: (step(c, p), None), c, None, length=length)[0]
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(end))

    return loss


X, P = np.linspace(0.1, 0.9, 24), np.linspace(0.5, 1.5, 24)


def assert_close(found: Any, expected: Any) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", steps_of(of_sine))
def test_gradients_of_loops(name: str) -> None:
    ours, theirs = looped(steps_of(of_sine)[name]), looped(steps_of(sine_of_jnp)[name])
    for change in (
        lambda f: jax.grad(f, (0, 1)),
        lambda f: jax.grad(lambda u, p: jnp.sum(jax.grad(f)(u, p) ** 2), (0, 1)),
        lambda f: lambda u, p: jax.jvp(lambda u: jax.grad(f, (0, 1))(u, p), (u,), (p,)),
    ):
        assert_close(jax.jit(change(ours))(X, P), jax.jit(change(theirs))(X, P))


def test_loops_of_batches() -> None:
    ours, theirs = (
        jax.vmap(jax.grad(looped(f), (0, 1)), (0, None)) for f in (of_sine, sine_of_jnp)
    )
    x = np.stack([X, 2.0 * X])
    assert_close(jax.jit(ours)(x, P), jax.jit(theirs)(x, P))


def programs() -> dict[str, tuple[Any, Step, Step]]:
    return {
        "sine": (X, of_sine, sine_of_jnp),
        "wave": ((X, P), step_of_system(wave), wave_of_jnp),
    }


@pytest.mark.parametrize("name", programs())
def test_the_cotangents_of_a_carry_give_up_their_memory(name: str) -> None:
    carry, ours, theirs = programs()[name]
    gradient = jax.jit(jax.grad(looped(ours), (0, 1)))
    text = gradient.lower(carry, P).as_text()
    adjoints = [line for line in text.splitlines() if f'name = "{name}_jvp_vjp"' in line]
    assert adjoints
    assert all("output_operand_aliases = []" not in line for line in adjoints)
    assert_close(gradient(carry, P), jax.grad(looped(theirs), (0, 1))(carry, P))


@pytest.mark.parametrize("count", [1, 4])
def test_a_cotangent_that_is_also_an_operand_keeps_its_elements(count: int) -> None:
    of_wave = jax_kernel(wave, num_outputs=2)

    def program(step: Callable[..., Any]) -> Callable[..., Any]:
        def body(c: Any, speed: Any) -> Any:
            u, v = c
            of_u, of_v, of_speed = jax.vjp(step, u, v, speed)[1]((v, u))
            return 0.1 * of_u + 0.2 * of_speed, 0.3 * of_v + u

        def run(c: Any, speed: Any) -> Any:
            return lax.scan(lambda c, _: (body(c, speed), None), c, None, length=count)[0]

        return jax.jit(run)

    ours = program(lambda *a: tuple(of_wave(*a)))
    theirs = program(lambda u, v, speed: wave_of_jnp((u, v), speed))
    assert_close(ours((X, P), X * P), theirs((X, P), X * P))


def steps_of_systems(call: Step) -> dict[str, Step]:
    """Bodies of loops, which use the state and the next one in different ways."""
    return {
        "alone": call,
        "swapped": lambda c, p: call(c, p)[::-1],
        "swapped first": lambda c, p: call(c[::-1], p),
        "one array": lambda c, p: call((c[1], c[1]), p),
        "parameter": lambda c, p: call((c[0], p), p),
        "state as parameter": lambda c, p: call(c, c[1]),
        "state later": lambda c, p: tuple(a + 0.1 * b for a, b in zip(call(c, p), c, strict=True)),
        "state before": lambda c, p: call(c, p + 0.1 * c[1] * c[0]),
        "twice": lambda c, p: call(call(c, p), p),
        "two of one state": lambda c, p: (call(c, p)[0], call(c, 0.5 * p)[1]),
        "one unused": lambda c, p: (c[0], call(c, p)[1]),
        "checkpoint": jax.checkpoint(call),
        "branch": lambda c, p: lax.cond(c[0][0] > 0.1, call, lambda c, p: c[::-1], c, p),
        "loop": lambda c, p: lax.scan(lambda c, _: (call(c, p), None), c, None, length=3)[0],
    }


SYSTEMS = {"wave": (wave, wave_of_jnp), "relaxed": (relaxed, relaxed_of_jnp)}


def of_batches(step: Step) -> Step:
    """Steps of two batches, with a parameter of each step."""

    def run(c: Any, p: Any) -> Any:
        return lax.scan(lambda c, p: (step(c, p), c[0]), c, jnp.stack([p, 0.5 * p]))

    return lambda c, p: jax.vmap(run, (None, 0))(c, jnp.stack([p, 0.3 * p]))


CHANGES: dict[str, Callable[[Step], Step]] = {
    "scan": lambda f: lambda c, p: lax.scan(lambda c, _: (f(c, p), c), c, None, length=5),
    "fori_loop": lambda f: lambda c, p: lax.fori_loop(0, 5, lambda _, c: f(c, p), c),
    "vmap": of_batches,
    "gradient": lambda f: jax.grad(looped(f), (0, 1)),
    "forward over reverse": lambda f: lambda c, p: jax.jvp(jax.grad(looped(f)), (c, p), (c, p)),
}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", steps_of_systems(wave_of_jnp))
def test_states_of_systems(system: str, name: str) -> None:
    kernel, of_jnp = SYSTEMS[system]
    ours, theirs = (steps_of_systems(f)[name] for f in (step_of_system(kernel), of_jnp))
    for change in CHANGES.values():
        assert_close(jax.jit(change(ours))((X, P), P), jax.jit(change(theirs))((X, P), P))


@pytest.mark.parametrize(("system", "count"), [("wave", 1), ("relaxed", 2)])
def test_an_array_of_the_state_gives_up_its_memory(system: str, count: int) -> None:
    kernel, _ = SYSTEMS[system]
    step = step_of_system(kernel)
    program = jax.jit(lambda c, p: lax.fori_loop(0, 5, lambda _, c: step(c, p), c))
    text = program.lower((X, P), P).as_text()
    assert text.count("stablehlo.output_operand_alias<") == count


def test_outside_of_loops_results_have_memory_of_their_own() -> None:
    gradient = jax.jit(jax.grad(lambda u, p: jnp.sum(of_sine(u, p) ** 2), (0, 1)))
    text = gradient.lower(X, P).as_text()
    assert 'name = "sine_jvp_vjp"' in text
    assert "stablehlo.output_operand_alias<" not in text
