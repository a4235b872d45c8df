"""Elementwise updates of 16 MB in JAX: results of their own and in-out arrays, donated or not."""

# pyright: basic

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import kernelcore as kc
from jax_ffi import jax_kernel
from tests.bench.results import show
from tests.bench.timing import Contender, timed

VECTOR = kc.array1d[float]


@kc.kernel
def damped(x: VECTOR, o: VECTOR):
    i = kc.tid()
    o[i] = x[i] * 0.99 + 0.1


@kc.kernel
def damp(x: VECTOR):
    i = kc.tid()
    x[i] = x[i] * 0.99 + 0.1


def main() -> None:
    updates = {
        "result": lambda x: jax_kernel(damped)(x)[0],
        "in-out": lambda x: jax_kernel(damp, in_out_argnames="x")(x)[0],
        "jnp": lambda x: x * 0.99 + 0.1,
    }
    for title, donated in {"the array is kept": (), "the array is donated": (0,)}.items():
        runs: dict[str, Contender] = {}
        for name, update in updates.items():
            program = jax.jit(update, donate_argnums=donated)
            state = [jnp.ones(1 << 22, jnp.float32)]

            def run(
                program: Any = program, state: Any = state, is_kept: bool = not donated
            ) -> None:
                made = jax.block_until_ready(program(state[0]))
                if not is_kept:
                    state[0] = made

            runs[name] = Contender(run, warm_seconds=0.1)
        show(title, timed(runs), "jnp")


if __name__ == "__main__":
    main()
