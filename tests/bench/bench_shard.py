"""A compute-bound kernel inside shard_map on two host devices, against one device with all of it.

The launch is so small that one thread runs a part alone: what is measured is whether parts overlap.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import warp as wp  # pyright: ignore[reportMissingImports]
from jax.sharding import PartitionSpec

import kernelcore as kc
from jax_ffi import jax_kernel
from tests.bench.results import Goal, show
from tests.bench.timing import Contender, timed

SIZE = 256


def newton(m: ModuleType) -> Any:
    @m.kernel
    def newton(x: m.array(dtype=float), o: m.array(dtype=float)):
        i = m.tid()
        r = x[i]
        for k in range(1_000_000):
            r = 0.5 * (r + (x[i] + 1.0e-6 * float(k)) / r)
        o[i] = r

    return newton


def main() -> None:
    jax.config.update("jax_num_cpu_devices", 2)
    wp.config.quiet = True  # pyright: ignore[reportAttributeAccessIssue]
    wp.init()
    mesh, cut = jax.make_mesh((2,), ("i",)), PartitionSpec("i")
    one = jnp.linspace(1.0, 2.0, SIZE, dtype=jnp.float32)
    two = jax.device_put(one, jax.sharding.NamedSharding(mesh, cut))
    for name, call in {
        "kernelcore": jax_kernel(newton(kc)),
        "warp": wp.jax_kernel(newton(wp)),
    }.items():
        whole = jax.jit(lambda x, f=call: f(x)[0])
        parts = jax.jit(
            jax.shard_map(whole, mesh=mesh, in_specs=cut, out_specs=cut, check_vma=False)
        )
        np.testing.assert_allclose(whole(one), parts(two))
        runs = {
            "one device": lambda f=whole: f(one).block_until_ready(),
            "two devices": lambda f=parts: f(two).block_until_ready(),
        }
        # A new thread shares its maker's processor for a while.
        found = timed({k: Contender(run, warm_seconds=0.1) for k, run in runs.items()})
        part = found["two devices"].median / found["one device"].median
        goals = [Goal("wall of two devices by that of one", part, "", 0.6)]
        show(f"{name}: a launch on", found, "one device", goals if name == "kernelcore" else [])


if __name__ == "__main__":
    main()
