"""Gradients of recurrences, a thread for each, beside jax.jit of a scan; one thread.

``python -m tests.bench.bench_recurrences gate`` measures those whose names hold the word.
"""

# The types of parameters belong to a module that is known when a kernel is made.
# pyright: basic, reportInvalidTypeForm=false

import os
import sys
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import jax.numpy as jnp
import numpy as np

import kernelcore as kc
from tests.bench.results import Goal, record
from tests.bench.timing import Contender, timed

# Threads and steps.
SHAPES = ((1, 2000), (1, 200_000), (1024, 100), (1024, 4000))
STEP = 0.01
ROUNDS = 9
GOAL = 1.0


def steps_of(real: Any) -> dict[str, tuple[Any, Callable[..., Any]]]:
    """By name of a recurrence: its step in kernels of type ``real``, and in JAX."""

    @kc.func
    def relaxation(v: real, q: real):
        return v + real(STEP) * kc.exp(-v * q)

    @kc.func
    def gate(v: real, q: real):
        opened = real(1.0) / (real(1.0) + kc.exp(-v))
        return v + real(STEP) * (q - opened * opened * v * kc.exp(real(-0.1) * v))

    @kc.func
    def neuron(v: real, q: real):
        return kc.tanh(q * v + kc.tanh(v - q))

    @kc.func
    def root(v: real, q: real):
        return real(0.5) * (v + (real(1.0) + q) / v)

    @kc.func
    def growth(v: real, q: real):
        return v + real(STEP) * v * kc.cos(q * v) * kc.exp(-v)

    @kc.func
    def population(v: real, q: real):
        return (real(3.0) + q) * v * (real(1.0) - v)

    def gate_in_jax(v: Any, q: Any) -> Any:
        opened = 1.0 / (1.0 + jnp.exp(-v))
        return v + STEP * (q - opened * opened * v * jnp.exp(-0.1 * v))

    return {
        "relaxation": (relaxation, lambda v, q: v + STEP * jnp.exp(-v * q)),
        "gate": (gate, gate_in_jax),
        "neuron": (neuron, lambda v, q: jnp.tanh(q * v + jnp.tanh(v - q))),
        "root": (root, lambda v, q: 0.5 * (v + (1.0 + q) / v)),
        "growth": (growth, lambda v, q: v + STEP * v * jnp.cos(q * v) * jnp.exp(-v)),
        "population": (population, lambda v, q: (3.0 + q) * v * (1.0 - v)),
    }


def in_kernel(step: Any, real: Any, x: np.ndarray, q: np.ndarray, steps: int) -> Callable[[], Any]:
    """The gradient of the sum of results, by a kernel with a thread for each."""
    values = kc.array(dtype=real)

    @kc.kernel
    def recurrence(x: values, q: values, n: int, y: values):
        i = kc.tid()
        v = x[i]
        for _ in range(n):
            v = step(v, q[i])
        y[i] = v

    y, seed = np.zeros_like(x), np.ones_like(x)

    def run() -> tuple[np.ndarray, np.ndarray]:
        of_x, of_q = np.zeros_like(x), np.zeros_like(q)
        given, gradients = [x, q, steps], [of_x, of_q, None]
        kc.launch(recurrence, len(x), given, [y], gradients, [seed], adjoint=True)
        return of_x, of_q

    return run


def in_jax(step: Callable[..., Any], x: np.ndarray, q: np.ndarray, steps: int) -> Callable[[], Any]:
    """The same by jax.jit."""

    def total(x: Any, q: Any) -> Any:
        return jax.lax.scan(lambda v, _: (step(v, q), None), x, length=steps)[0].sum()

    gradient = jax.jit(jax.grad(total, (0, 1)))
    given = jnp.asarray(x), jnp.asarray(q)
    return lambda: jax.block_until_ready(gradient(*given))


def main() -> None:
    kc.set_num_threads(1)
    ratios = list[float]()
    for real, dtype in ((kc.float32, np.float32), (kc.float64, np.float64)):
        for name, (step, step_in_jax) in steps_of(real).items():
            for threads, steps in SHAPES:
                title = f"{name} {dtype.__name__} {threads} x {steps}"
                if not all(word in title for word in sys.argv[1:]):
                    continue
                rng = np.random.default_rng(0)
                x, q = (rng.uniform(0.1, 0.5, threads).astype(dtype) for _ in "xq")
                ours, theirs = in_kernel(step, real, x, q, steps), in_jax(step_in_jax, x, q, steps)
                if name != "population":  # It is chaotic.
                    for one, other in zip(ours(), theirs(), strict=True):
                        np.testing.assert_allclose(one, other, 1e-2, 1e-4)
                contenders = {"kernelcore": Contender(ours), "jax.jit": Contender(theirs)}
                us = {who: t.median for who, t in timed(contenders, ROUNDS).items()}
                ratios.append(us["kernelcore"] / us["jax.jit"])
                times = ", ".join(f"{who} {value:.0f}" for who, value in us.items())
                print(f"{ratios[-1]:6.2f}  {title:34s} us: {times}", flush=True)
                record(title, us)
    if sys.argv[1:]:
        return
    goal = Goal("gradients of recurrences / jax.jit", geometric_mean(ratios), "times", GOAL)
    print(goal)
    record("gradients of recurrences", ratios, [goal])


if __name__ == "__main__":
    main()
