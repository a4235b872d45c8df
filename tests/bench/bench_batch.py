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


TABLE = kc.array2d(dtype=float)


@kc.kernel
def matmul(a: TABLE, b: TABLE, c: TABLE):
    i, j = kc.tid()
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


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
    products()


def products() -> None:
    """Products of many small matrices, which the compiled program has as one call."""
    a, b = jnp.ones((2, 1000, 3, 3), jnp.float32)
    functions = {
        "kernel under vmap": jax.vmap(lambda a, b: jax_kernel(matmul)(a, b)[0]),
        "jnp.einsum": lambda a, b: jnp.einsum("nij,njk->nik", a, b),
    }
    programs = {name: jax.jit(f).lower(a, b).compile() for name, f in functions.items()}
    text = programs["kernel under vmap"].as_text() or ""
    assert not any(f" {word}(" in text for word in ("broadcast", "while"))
    runs = {name: lambda p=p: p(a, b).block_until_ready() for name, p in programs.items()}
    medians = interleaved(runs)
    report("1000 products 3 x 3", medians, "kernel under vmap", goal_times=("jnp.einsum", 0.5))


if __name__ == "__main__":
    main()
