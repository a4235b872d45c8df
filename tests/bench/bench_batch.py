"""Cost of batches: many tiny instances of a kernel under jax.vmap, against jax.numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import kernelcore as kc
from jax_ffi import jax_kernel
from tests.bench.timing import interleaved, report

SHAPES = ((100_000, 1), (1000, 64))


@kc.kernel
def scale(x: kc.array(dtype=float), s: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = s * x[i]


def main() -> None:
    kernel = jax_kernel(scale)
    factor = jnp.float32(0.5)
    batched = jax.jit(jax.vmap(lambda x: kernel(x, factor)[0]))
    flat = jax.jit(lambda x: kernel(x, factor)[0])
    plain = jax.jit(lambda x: x * factor)
    for shape in SHAPES:
        x = jnp.ones(shape, jnp.float32)
        row = x.reshape(-1)
        medians = interleaved(
            {
                "kernel under vmap": lambda x=x: jax.block_until_ready(batched(x)),
                "one launch over all elements": lambda r=row: jax.block_until_ready(flat(r)),
                "jax.numpy": lambda x=x: jax.block_until_ready(plain(x)),
            }
        )
        report(f"{shape[0]} instances of {shape[1]} elements", medians, "kernel under vmap")
        print(f"  {1e3 * medians['kernel under vmap'] / shape[0]:.2f} ns per instance")


if __name__ == "__main__":
    main()
