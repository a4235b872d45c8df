"""The memory of gradients through scans of 500 steps, beside jax.numpy.

Every program runs in a process of its own: what XLA reserves for temporaries (``memory_analysis``),
and by how much the resident memory grows.
"""

# pyright: basic

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import kernelcore as kc
from jax_ffi import jax_kernel
from tests.bench.results import Goal, record

STEPS = 500
Matrix = kc.array2d[float]
Vector = kc.array1d[float]


@kc.func
def around(u: Matrix, i: int, j: int):
    total = 0.0
    if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
        total = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
    return total


def around_of_jnp(u: Any) -> Any:
    inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
    return jnp.pad(inner, 1)


@kc.kernel
def stencil(u: Matrix, o: Matrix):
    i, j = kc.tid()
    o[i, j] = u[i, j] + 0.1 * around(u, i, j)


@kc.kernel
def sine(u: Matrix, p: Matrix, o: Matrix):
    i, j = kc.tid()
    o[i, j] = kc.sin(u[i, j]) + p[i, j]


@kc.kernel
def wave(u: Matrix, v: Matrix, speed: Matrix, u_next: Matrix, v_next: Matrix):
    i, j = kc.tid()
    w = v[i, j] + 0.1 * speed[i, j] * around(u, i, j)
    v_next[i, j] = w
    u_next[i, j] = u[i, j] + 0.1 * w


@kc.kernel
def reaction(u: Matrix, rate: Matrix, o: Matrix):
    i, j = kc.tid()
    v = u[i, j]
    o[i, j] = v + 0.1 * around(u, i, j) + 0.01 * rate[i, j] * v * (1.0 - v)


@kc.kernel
def layer(x: Matrix, w: Matrix, bias: Vector, o: Matrix):
    i, j = kc.tid()
    total = bias[j]
    for k in range(x.shape[1]):
        total += x[i, k] * w[k, j]
    o[i, j] = kc.tanh(total)


@kc.kernel
def predators(y: Matrix, k: Vector, o: Matrix):
    i = kc.tid()
    a, b, h = y[i, 0], y[i, 1], 0.01
    da, db = k[0] * a - k[1] * a * b, k[2] * a * b - k[3] * b
    p, q = a + h * da, b + h * db
    o[i, 0] = a + 0.5 * h * (da + k[0] * p - k[1] * p * q)
    o[i, 1] = b + 0.5 * h * (db + k[2] * p * q - k[3] * q)


def predators_of_jnp(y: Any, k: Any) -> Any:
    def slope(a: Any, b: Any) -> Any:
        return k[0] * a - k[1] * a * b, k[2] * a * b - k[3] * b

    a, b, h = y[:, 0], y[:, 1], jnp.float32(0.01)
    da, db = slope(a, b)
    p, q = slope(a + h * da, b + h * db)
    return jnp.stack([a + 0.5 * h * (da + p), b + 0.5 * h * (db + q)], 1)


def wave_of_jnp(state: Any, speed: Any) -> Any:
    u, v = state
    w = v + 0.1 * speed * around_of_jnp(u)
    return u + 0.1 * w, w


def programs() -> dict[str, tuple[Any, Any, Any, Any]]:
    """By name: the carry, the parameters, a step of kernelcore and one of jax.numpy."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return jnp.array(0.3 * rng.normal(size=shape), jnp.float32)

    u = normal(256, 256)
    of_waves = jax_kernel(wave, num_outputs=2)
    of_layers = jax_kernel(layer, output_dims=("x.shape[0]", "w.shape[1]"))
    of_predators = jax_kernel(predators, launch_dims="y.shape[0]", output_dims="y")
    rates = jnp.array([1.0, 0.5, 0.5, 1.0], jnp.float32)
    return {
        "stencil": (
            u,
            u,
            lambda c, p: jax_kernel(stencil)(c)[0],
            lambda c, p: c + 0.1 * around_of_jnp(c),
        ),
        "sin(u) + p": (u, u, lambda c, p: jax_kernel(sine)(c, p)[0], lambda c, p: jnp.sin(c) + p),
        "wave": ((u, u), u, lambda c, p: of_waves(*c, p), wave_of_jnp),
        "reaction": (
            u,
            u,
            lambda c, p: jax_kernel(reaction)(c, p)[0],
            lambda c, p: c + 0.1 * around_of_jnp(c) + 0.01 * p * c * (1.0 - c),
        ),
        "layer": (
            normal(256, 64),
            (normal(64, 64), normal(64)),
            lambda c, p: of_layers(c, *p)[0],
            lambda c, p: jnp.tanh(c @ p[0] + p[1]),
        ),
        "ODE": (
            jnp.abs(normal(65536, 2)) + 0.5,
            rates,
            lambda c, p: of_predators(c, p)[0],
            predators_of_jnp,
        ),
    }


def measure(name: str, is_ours: bool) -> None:
    """Print the bytes of one program."""
    carry, parameters, *steps = programs()[name]
    step = steps[0 if is_ours else 1]

    def loss(carry: Any, parameters: Any) -> Any:
        found = jax.lax.scan(lambda c, _: (step(c, parameters), None), carry, None, length=STEPS)
        return jnp.sum(jax.tree.leaves(found[0])[0] ** 2)

    program = jax.jit(jax.grad(loss, (0, 1))).lower(carry, parameters).compile()
    analysis = program.memory_analysis()
    assert analysis is not None
    reserved = analysis.temp_size_in_bytes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    jax.block_until_ready(program(carry, parameters))
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    print(json.dumps([reserved, grown]))


def main() -> None:
    if len(sys.argv) == 3:
        measure(sys.argv[1], sys.argv[2] == "kernelcore")
        return
    print(f"\nGradients through {STEPS} steps: MB of temporaries, and of resident memory")
    rows: dict[str, dict[str, list[int]]] = {}
    goals: list[Goal] = []
    for name in programs():
        rows[name] = {}
        for peer in ("kernelcore", "jnp"):
            command = [sys.executable, "-m", __spec__.name, name, peer]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            rows[name][peer] = json.loads(done.stdout)
            reserved, grown = (n / 1e6 for n in rows[name][peer])
            print(f"  {name:12s} {peer:12s} {reserved:10.2f} {grown:10.2f}")
        ours, theirs = (rows[name][peer][0] for peer in ("kernelcore", "jnp"))
        goals.append(Goal(f"temporaries of {name} by those of jnp", ours / theirs, "", 1.0))
    for goal in goals:
        print(f"  {goal}")
    record("gradients through scans", rows, goals)


if __name__ == "__main__":
    main()
