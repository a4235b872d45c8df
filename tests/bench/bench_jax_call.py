"""Cost of a kernel call from JAX with eight elements: chained in one jit, jitted, eager.

Also beside a thread that keeps Python busy, and of a function with six launches.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import warp as wp  # pyright: ignore[reportMissingImports]

import kernelcore as kc
from jax_ffi import jax_callable, jax_kernel
from tests.bench.timing import interleaved, report

Function = Callable[[Any], Any]

SIZE = 8
# The cost of one chained call is the slope between these two lengths.
SHORT, LONG = 20, 120
# Beside a busy thread a program waits for Python, when it is done, for as long as tens of thousands
# of calls take, so there the calls are in a loop: so many in its body, and its lengths by name.
BODY = 20
LOOPS = {"kernelcore": (1_000, 101_000), "warp": (1, 401)}


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
    """Another thread that runs Python all the time, on a processor of its own."""
    stop = threading.Event()
    *others, last = sorted(os.sched_getaffinity(0))

    def spin() -> None:
        os.sched_setaffinity(threading.get_native_id(), {last})
        while not stop.is_set():
            sum(range(100))

    thread = threading.Thread(target=spin)
    # What is measured is the lock of the interpreter, and not which threads share a processor.
    run_on(others or {last})
    thread.start()
    yield
    stop.set()
    thread.join()
    run_on({*others, last})


def run_on(processors: Iterable[int]) -> None:
    """Restrict all threads of this process, those of XLA too."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), processors)


def chain(call: Function, length: int) -> Function:
    """``length`` calls, each on the result of the one before."""

    def program(x: Any) -> Any:
        for _ in range(length):
            x = call(x)
        return x

    return program


def slopes(
    programs: Mapping[str, tuple[Function, Function]], calls: Mapping[str, int], x: Any
) -> dict[str, float]:
    """Microseconds per call, by name, of two programs that differ by so many ``calls``."""
    runs: dict[str, Callable[[], Any]] = {}
    for name, pair in programs.items():
        for k, program in enumerate(pair):
            compiled = jax.jit(program).lower(x).compile()
            runs[f"{name} {k}"] = lambda f=compiled: f(x).block_until_ready()
    found = interleaved(runs)
    return {name: (found[f"{name} 1"] - found[f"{name} 0"]) / calls[name] for name in programs}


def chained(functions: Mapping[str, Function], x: Any) -> dict[str, float]:
    """Microseconds per call of each function, unrolled in one program."""
    programs = {name: (chain(f, SHORT), chain(f, LONG)) for name, f in functions.items()}
    return slopes(programs, dict.fromkeys(functions, LONG - SHORT), x)


def looped(functions: Mapping[str, Function], x: Any) -> dict[str, float]:
    """Microseconds per call of each function, in a loop of one program."""

    def loop(name: str, count: int) -> Function:
        body = chain(functions[name], BODY)
        return lambda x: jax.lax.fori_loop(0, count, lambda _, x: body(x), x)

    programs = {
        name: (loop(name, LOOPS[name][0]), loop(name, LOOPS[name][1])) for name in functions
    }
    return slopes(programs, {k: BODY * (long - short) for k, (short, long) in LOOPS.items()}, x)


def main() -> None:
    wp.config.quiet = True  # pyright: ignore[reportAttributeAccessIssue]
    wp.init()
    ours_tuple, peer_tuple = jax_kernel(add_one), wp.jax_kernel(add_one_warp)
    x = jnp.zeros(SIZE, jnp.float32)

    def ours(x: Any) -> Any:
        return ours_tuple(x)[0]

    def peer(x: Any) -> Any:
        return peer_tuple(x)[0]

    functions = {"kernelcore": ours, "warp": peer}
    medians = chained(functions, x)
    report("call chained in one jit", medians, "kernelcore", 0.25, ("warp", 100.0))
    report("call in a loop of one jit", looped(functions, x), "kernelcore")
    with busy_thread():
        medians = looped(functions, x)
    report(
        "the same beside a busy Python thread", medians, "kernelcore", goal_times=("warp", 300.0)
    )
    six_ours, six_peer = jax_callable(six, 2), wp.jax_callable(six_warp, 2)
    medians = chained({"kernelcore": lambda x: six_ours(x)[1], "warp": lambda x: six_peer(x)[1]}, x)
    report("six launches as one callable, chained in one jit", medians, "kernelcore", goal_us=1.0)
    calls = {"kernelcore": jax.jit(ours), "warp": jax.jit(peer), "x + 1": jax.jit(lambda x: x + 1)}
    jitted = {k: lambda f=f: f(x).block_until_ready() for k, f in calls.items()}
    report("one jitted call", interleaved(jitted), "kernelcore")
    eager = {"kernelcore": ours, "warp": peer, "x + 1": lambda x: x + 1}
    calls = {k: lambda f=f: f(x).block_until_ready() for k, f in eager.items()}
    report("eager call", interleaved(calls), "kernelcore", goal_us=40.0)


if __name__ == "__main__":
    main()
