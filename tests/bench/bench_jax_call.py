"""Cost of a kernel call from JAX with eight elements: chained in one jit, jitted, eager.

Also beside a thread that keeps Python busy, and of a function with six launches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import warp as wp  # pyright: ignore[reportMissingImports]

import kernelcore as kc
from jax_ffi import jax_callable, jax_kernel
from tests.bench.timing import interleaved, report

SIZE = 8
# The cost of one chained call is the slope between these two lengths.
SHORT, LONG = 100, 1100
WARP_SHORT, WARP_LONG = 20, 120


@kc.kernel
def add_one(x: kc.array(dtype=float), o: kc.array(dtype=float)):
    i = kc.tid()
    o[i] = x[i] + 1.0


@wp.kernel
def add_one_warp(x: wp.array(dtype=float), o: wp.array(dtype=float)):
    i = wp.tid()
    o[i] = x[i] + 1.0


@kc.kernel
def step(x: kc.array(dtype=float), y: kc.array(dtype=float), s: float, o: kc.array(dtype=float)):
    i = kc.tid()
    o[i] = x[i] + s * y[i]


@wp.kernel
def step_warp(
    x: wp.array(dtype=float), y: wp.array(dtype=float), s: float, o: wp.array(dtype=float)
):
    i = wp.tid()
    o[i] = x[i] + s * y[i]


def six(x: kc.array(dtype=float), t: kc.array(dtype=float), o: kc.array(dtype=float)):
    kc.launch(step, x.shape, [x, x, 0.1], [t])
    for k in range(2):
        kc.launch(step, x.shape, [t, x, 0.1 * k], [o])
        kc.launch(step, x.shape, [o, x, 0.1 * k], [t])
    kc.launch(step, x.shape, [t, x, 2.0], [o])


def six_warp(x: wp.array(dtype=float), t: wp.array(dtype=float), o: wp.array(dtype=float)):
    wp.launch(step_warp, dim=x.shape, inputs=[x, x, 0.1], outputs=[t])
    for k in range(2):
        wp.launch(step_warp, dim=x.shape, inputs=[t, x, 0.1 * k], outputs=[o])
        wp.launch(step_warp, dim=x.shape, inputs=[o, x, 0.1 * k], outputs=[t])
    wp.launch(step_warp, dim=x.shape, inputs=[t, x, 2.0], outputs=[o])


@contextmanager
def busy_thread() -> Iterator[None]:
    """Another thread that runs Python all the time."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(100))

    thread = threading.Thread(target=spin)
    thread.start()
    yield
    stop.set()
    thread.join()


def chain(call: Callable[[Any], Any], length: int, x: Any) -> Callable[[], Any]:
    """Runs ``length`` calls, each on the result of the one before, as one jitted program."""

    def program(x: Any) -> Any:
        for _ in range(length):
            x = call(x)
        return x

    compiled = jax.jit(program).lower(x).compile()
    return lambda: compiled(x).block_until_ready()


def slope(medians: dict[str, float], name: str, short: int, long: int) -> float:
    return (medians[f"{name} x{long}"] - medians[f"{name} x{short}"]) / (long - short)


def chained(ours: Callable[[Any], Any], peer: Callable[[Any], Any], x: Any) -> dict[str, float]:
    lengths = {"kernelcore": (ours, SHORT, LONG), "warp": (peer, WARP_SHORT, WARP_LONG)}
    medians = interleaved(
        {
            f"{name} x{length}": chain(call, length, x)
            for name, (call, short, long) in lengths.items()
            for length in (short, long)
        }
    )
    return {name: slope(medians, name, short, long) for name, (_, short, long) in lengths.items()}


def main() -> None:
    wp.config.quiet = True  # pyright: ignore[reportAttributeAccessIssue]
    wp.init()
    ours_tuple, peer_tuple = jax_kernel(add_one), wp.jax_kernel(add_one_warp)
    x = jnp.zeros(SIZE, jnp.float32)

    def ours(x: Any) -> Any:
        return ours_tuple(x)[0]

    def peer(x: Any) -> Any:
        return peer_tuple(x)[0]

    medians = chained(ours, peer, x)
    report("call chained in one jit", medians, "kernelcore", goal_us=0.25)
    with busy_thread():
        medians = chained(ours, peer, x)
    report("the same beside a busy Python thread", medians, "kernelcore")
    six_ours, six_peer = jax_callable(six, 2), wp.jax_callable(six_warp, 2)
    medians = chained(lambda x: six_ours(x)[1], lambda x: six_peer(x)[1], x)
    report("six launches as one callable, chained in one jit", medians, "kernelcore", goal_us=1.0)
    calls = {"kernelcore": jax.jit(ours), "warp": jax.jit(peer), "x + 1": jax.jit(lambda x: x + 1)}
    jitted = {k: lambda f=f: f(x).block_until_ready() for k, f in calls.items()}
    report("one jitted call", interleaved(jitted), "kernelcore")
    eager = {"kernelcore": ours, "warp": peer, "x + 1": lambda x: x + 1}
    calls = {k: lambda f=f: f(x).block_until_ready() for k, f in eager.items()}
    report("eager call", interleaved(calls), "kernelcore", goal_us=40.0)


if __name__ == "__main__":
    main()
