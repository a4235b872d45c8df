"""Programs of JAX and torch whose inner parts are kernels, beside the same without kernels.

Periodic stencils, ordinary differential equations, many small kernels, an MLP, scans with
gradients, graph attention, and chains of launches on one thread and on two.
``python -m tests.bench.bench_programs wave`` measures the programs whose names hold the word.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numba  # pyright: ignore[reportMissingImports]
import numpy as np
import torch
from jax import numpy as jnp

import kernelcore as kc
from tests.bench import program_kernels as kernels
from tests.bench.results import Goal, show
from tests.bench.timing import Contender, timed_within
from tests.helpers.environment import ROOT

OURS = "kernelcore"
# Set for the process of its own that runs chains of launches on two threads.
THREADS = int(os.environ.get("KC_BENCH_THREADS", "1"))
SECONDS_PER_ROW = 1.0
GOAL, GOAL_OF_CHAIN, GOAL_OF_BACKWARD, GOAL_OF_THREADS = 1.1, 1.3, 1.2, 1.05
SIDES, STEPS_OF_CHAIN = (64, 256, 724, 2048), 20
TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Program:
    """Something to run with kernels and without, and how many times as long it may take."""

    name: str
    ours: Callable[[], Any]
    peers: dict[str, Callable[[], Any]]
    goal: float = GOAL


def in_jax(
    name: str, ours: Any, peer: Any, args: Any, goal: float = GOAL, *, by: int = 0
) -> Iterator[Program]:
    """``ours`` and ``peer`` of ``args`` under ``jax.jit``; and the gradients of their sums."""
    for kind in ("forward", "gradient"):
        runs: list[Callable[[], Any]] = []
        for function in (ours, peer):
            if kind == "gradient":
                function = jax.value_and_grad(lambda *a, f=function: f(*a).sum(), by)
            compiled = jax.jit(function)
            runs.append(lambda f=compiled: jax.block_until_ready(f(*args)))
        yield Program(f"{name}, {kind}", runs[0], {"jax.jit": runs[1]}, goal)


def wave() -> Iterator[Program]:
    """A step of the wave equation on a periodic grid."""
    rng = np.random.default_rng(0)
    u, v = (jnp.asarray(rng.standard_normal((1024, 1024), np.float32)) for _ in range(2))

    def peer(u: Any, v: Any) -> Any:
        around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
        return 2.0 * u - v + 0.1 * (around - 4.0 * u)

    for name, kernel in (("%", kernels.wave), ("where", kernels.wave_where)):
        yield from in_jax(f"periodic wave step with {name}", kc.op(kernel), peer, (u, v))


def equation() -> Iterator[Program]:
    """Runge-Kutta steps in ``lax.scan`` under ``vmap``; the kernel is the right-hand side."""
    start = jnp.asarray(np.random.default_rng(0).uniform(0.5, 1.5, (1000, 3)).astype(np.float32))
    rate = jnp.asarray(1.0, jnp.float32)
    op = kc.op(launch_dims=1, output_dims="s")(kernels.lorenz)

    def peer(s: Any, rate: Any) -> Any:
        x, y, z = s
        return jnp.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.6666667 * z]) * rate

    def solve(right: Any) -> Any:
        def step(s: Any, _: Any) -> Any:
            h = 0.01
            a = right(s, rate)
            b = right(s + 0.5 * h * a, rate)
            c = right(s + 0.5 * h * b, rate)
            d = right(s + h * c, rate)
            return s + h / 6.0 * (a + 2.0 * b + 2.0 * c + d), None

        return jax.vmap(lambda s: jax.lax.scan(step, s, None, 100)[0])

    yield from in_jax("ODE, kernel of the right-hand side", solve(op), solve(peer), (start,))

    def adjoint(right: Any) -> Any:
        """The adjoint equation, solved backwards beside the state, as diffrax's backsolve does."""

        def back(s: Any, ct: Any) -> Any:
            def step(state: Any, _: Any) -> Any:
                s, ct, ct_rate = state
                found, pull = jax.vjp(right, s, rate)
                ct_s, ct_r = pull(ct)
                return (s - 0.01 * found, ct + 0.01 * ct_s, ct_rate + 0.01 * ct_r), None

            return jax.lax.scan(step, (s, ct, jnp.zeros(())), None, 100)[0][1]

        return jax.vmap(back)

    forward = next(in_jax("ODE, backsolve adjoint", adjoint(op), adjoint(peer), (start, start)))
    yield forward


def chain() -> Iterator[Program]:
    """100 kernels one after the other, each of little work."""
    x = jnp.linspace(0.1, 1.0, 16)
    for name, fuse in (("", None), (", fused", True)):
        op = kc.op(fuse=fuse)(kernels.little) if fuse else kc.op(kernels.little)

        def repeated(function: Any) -> Any:
            def run(x: Any) -> Any:
                for _ in range(100):
                    x = function(x)
                return x

            return run

        yield from in_jax(
            f"100 kernels of 16 elements{name}",
            repeated(op),
            repeated(lambda x: x * 0.99 + 0.01 * x * x),
            (x,),
            GOAL_OF_CHAIN,
        )


def network() -> Iterator[Program]:
    """An MLP of three layers, a kernel of matrix times vector each, under ``vmap``."""
    rng = np.random.default_rng(0)
    weights = [jnp.asarray(rng.standard_normal((64, 64), np.float32) / 8) for _ in range(3)]
    x = jnp.asarray(rng.standard_normal((256, 64), np.float32))
    op = kc.op(launch_dims="w.shape[0]", output_dims="w.shape[0]")(kernels.layer)

    def of_layers(layer: Any) -> Any:
        def run(weights: Any, x: Any) -> Any:
            for w in weights:
                x = layer(w, x)
            return x

        return jax.vmap(run, (None, 0))

    yield from in_jax(
        "MLP of matrix-vector kernels",
        of_layers(op),
        of_layers(lambda w, x: jnp.tanh(w @ x)),
        (weights, x),
    )


def scalar() -> Iterator[Program]:
    """A kernel of one point, a scalar an instance under ``vmap``; the peer has it as an array."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.uniform(0.5, 1.5, (20_000, 4)).astype(np.float32))
    a = jnp.asarray(rng.uniform(0.5, 1.5, 20_000).astype(np.float32))
    op = kc.op(launch_dims=1, output_dims=1)(kernels.one_point)

    def peer(x: Any, a: Any) -> Any:
        return jnp.exp(-a * (x * x).sum())[None]

    yield from in_jax("one point, a scalar an instance", jax.vmap(op), jax.vmap(peer), (x, a), by=1)


def scanned() -> Iterator[Program]:
    """100 steps of a cheap stencil in ``lax.scan``."""
    u = jnp.asarray(np.random.default_rng(0).standard_normal((256, 256), np.float32))
    op = kc.op(kernels.heat)

    def peer(u: Any) -> Any:
        middle, p = u, jnp.pad(u, 1, mode="edge")
        around = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]
        return middle + 0.1 * (around - 4.0 * middle)

    def steps(function: Any) -> Any:
        return lambda u: jax.lax.scan(lambda u, _: (function(u), None), u, None, 100)[0]

    yield from in_jax("scan of 100 stencil steps", steps(op), steps(peer), (u,), 1.0)


def attention() -> Iterator[Program]:
    """Graph attention over CSR rows, against torch.compile."""
    nodes, degree, width = 5000, 16, 32
    generator = torch.Generator().manual_seed(0)
    start = torch.arange(0, nodes * degree + 1, degree, dtype=torch.int32)
    column = torch.randint(nodes, (nodes * degree,), generator=generator, dtype=torch.int32)
    x = torch.randn(nodes, width, generator=generator)
    left, right = (torch.randn(nodes, generator=generator) for _ in range(2))
    row = torch.repeat_interleave(torch.arange(nodes), degree)
    op = kc.op(launch_dims="x.shape[0]", output_dims="x")(kernels.graph_attention)

    def ours(left: Any, right: Any, x: Any) -> torch.Tensor:
        return op(start, column, left, right, x)

    @torch.compile
    def peer(left: Any, right: Any, x: Any) -> torch.Tensor:
        score = torch.nn.functional.leaky_relu(left[row] + right[column], 0.2)
        top = torch.full((nodes,), -torch.inf).scatter_reduce(0, row, score, "amax")
        weight = (score - top[row]).exp()
        total = torch.zeros(nodes).index_add(0, row, weight)
        share = weight / total[row]
        return torch.zeros(nodes, width).index_add(0, row, share[:, None] * x[column])

    def forward(function: Any) -> Callable[[], Any]:
        def run() -> Any:
            with torch.no_grad():
                return function(left, right, x)

        return run

    def backward(function: Any) -> Callable[[], Any]:
        leaves = [t.clone().requires_grad_() for t in (left, right, x)]
        ct = torch.randn(nodes, width, generator=torch.Generator().manual_seed(1))

        def run() -> Any:
            found = function(*leaves)
            return found.detach(), *torch.autograd.grad(found, leaves, ct)

        return run

    name = "graph attention over CSR rows"
    yield Program(f"{name}, forward", forward(ours), {"torch.compile": forward(peer)}, 1.0)
    runs = {"torch.compile": backward(peer)}
    yield Program(f"{name}, backward", backward(ours), runs, GOAL_OF_BACKWARD)


@numba.njit(parallel=True, fastmath=True)
def heat_in_numba(u: Any, y: Any) -> None:
    """A step of the heat equation."""
    n, m = u.shape
    for i in numba.prange(n):
        above, below = max(i - 1, 0), min(i + 1, n - 1)
        for j in range(m):
            around = u[above, j] + u[below, j] + u[i, max(j - 1, 0)] + u[i, min(j + 1, m - 1)]
            y[i, j] = u[i, j] + np.float32(0.1) * (around - np.float32(4.0) * u[i, j])


def launches() -> Iterator[Program]:
    """20 steps of the heat equation, back and forth between two arrays."""
    numba.set_num_threads(THREADS)
    for side in SIDES:
        u = np.random.default_rng(0).standard_normal((side, side), np.float32)

        def steps(step: Callable[[Any, Any], object], u: Any = u) -> Callable[[], Any]:
            first, second = u.copy(), np.zeros_like(u)

            def run() -> Any:
                for _ in range(STEPS_OF_CHAIN // 2):
                    step(first, second)
                    step(second, first)
                return first

            return run

        def launch(a: Any, b: Any, side: int = side) -> None:
            kc.launch(kernels.heat, (side, side), [a], [b])

        name = f"20 launches of {side} x {side}, {THREADS} threads"
        yield Program(name, steps(launch), {"numba": steps(heat_in_numba)})
        if THREADS > 1:
            again = steps(launch)

            def on_one(again: Callable[[], Any] = again) -> Any:
                kc.set_num_threads(1)
                found = again()
                kc.set_num_threads(THREADS)
                return found

            peers = {"kernelcore, 1 thread": on_one}
            yield Program(f"{name} beside 1", steps(launch), peers, GOAL_OF_THREADS)


PROGRAMS = {
    "wave": wave,
    "equation": equation,
    "chain": chain,
    "network": network,
    "scalar": scalar,
    "scan": scanned,
    "attention": attention,
    "launches": launches,
}


def measured(program: Program) -> None:
    """Compare the results of ``program``, time it, and show the ratio."""
    wanted = [np.asarray(a) for a in jax.tree.leaves(program.ours())]
    for who, run in program.peers.items():
        for found, expected in zip(jax.tree.leaves(run()), wanted, strict=True):
            scale = np.abs(expected).max()
            np.testing.assert_allclose(
                np.asarray(found), expected, TOLERANCE, TOLERANCE * scale, err_msg=who
            )
    contenders = {OURS: Contender(program.ours)}
    contenders |= {who: Contender(run) for who, run in program.peers.items()}
    clock = time.process_time if THREADS == 1 else time.perf_counter
    timings, _ = timed_within(contenders, SECONDS_PER_ROW, clock, OURS)
    best = min(t.median for who, t in timings.items() if who != OURS)
    ratio = timings[OURS].median / best
    title = program.name
    show(title, timings, OURS, [Goal(f"{title}: ours / best", ratio, "times", program.goal)])


def main() -> None:
    # XLA reads it when the first array is made.
    os.environ["NPROC"] = str(THREADS)
    torch.set_num_threads(THREADS)
    kc.set_num_threads(THREADS)
    words = sys.argv[1:]
    for name, make in PROGRAMS.items():
        if (words and name not in words) or (THREADS > 1 and name != "launches"):
            continue
        for program in make():
            measured(program)
    if THREADS == 1 and (not words or "launches" in words):
        command = [sys.executable, "-m", __spec__.name, "launches"]
        env = {**os.environ, "KC_BENCH_THREADS": "2"}
        subprocess.run(command, cwd=ROOT, env=env, check=True)


if __name__ == "__main__":
    main()
