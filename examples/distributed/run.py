"""Kernels over several processes: ``mpirun -np 2 python examples/distributed/run.py``.

Every program runs on all devices of all processes, with its gradient and the product of its
Hessian with a vector. Process 0 prints, and each process compares its parts with one device.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import programs
from jax.sharding import NamedSharding, PartitionSpec

from jax_ffi import initialize_distributed

P = PartitionSpec


def cut(mesh: Any, array: Any, spec: PartitionSpec) -> Any:
    """``array``, which every process has, cut over the mesh."""
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, spec), lambda i: array[i])


def compare(found: Any, expected: Any) -> None:
    """The parts of ``found`` on this process agree with ``expected``, which is whole."""
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        for shard in a.addressable_shards:
            np.testing.assert_allclose(shard.data, b[shard.index], rtol=1e-9, atol=1e-9)


def ring(u: Any, rate: Any) -> Any:
    """The heat equation on one device."""
    for _ in range(4):
        u = u + rate * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))
    return u


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    process, processes = initialize_distributed()
    mesh = programs.all_devices()
    n = 4 * jax.device_count()
    rng = np.random.default_rng(0)
    row, rows, table = rng.normal(size=n), rng.normal(size=(n, 3)), rng.normal(size=(3, 5))
    whole = {
        "scale": (programs.sharded_scale(mesh), lambda x, by: x * by, row, np.array(1.5)),
        "matmul": (programs.sharded_matmul(mesh), jnp.matmul, rows, table),
        "heat": (programs.sharded_heat(mesh), ring, row, np.array(0.2)),
    }
    for name, (run, reference, x, other) in whole.items():
        given = cut(mesh, x, P("x")), cut(mesh, other, P())
        found = jax.jit(run)(*given), jax.jit(partial(programs.derivatives, run))(*given)
        x, other = jnp.asarray(x), jnp.asarray(other)
        compare(found, (reference(x, other), programs.derivatives(reference, x, other)))
        if process == 0:
            print(f"{name}: {processes} processes, {jax.device_count()} devices: equal", flush=True)


if __name__ == "__main__":
    main()
