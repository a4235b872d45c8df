"""Kernels over several host devices: parts that overlap, and a sharded update in plain jit.

A compute-bound kernel inside shard_map on two devices stands against one device with all of it. One
thread runs a part alone: what is measured is whether parts overlap. An update of Adam on eight
devices stands against jax.numpy.
"""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import warp as wp  # pyright: ignore[reportMissingImports]
from jax.sharding import AxisType, NamedSharding, PartitionSpec

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


MATRIX = kc.array2d(dtype=float)


@kc.kernel
def adam(p: MATRIX, m: MATRIX, v: MATRIX, g: MATRIX, rate: float):
    i, j = kc.tid()
    m[i, j] = 0.9 * m[i, j] + 0.1 * g[i, j]
    v[i, j] = 0.999 * v[i, j] + 0.001 * g[i, j] * g[i, j]
    p[i, j] = p[i, j] - rate * m[i, j] / (kc.sqrt(v[i, j]) + 1e-8)


def adam_of_jnp(p: Any, m: Any, v: Any, g: Any, rate: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - rate * m / (jnp.sqrt(v) + 1e-8), m, v


def bench_adam() -> None:
    """The update of a 1024 x 1024 matrix on eight devices, with the state donated."""
    mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
    sharding = NamedSharding(mesh, PartitionSpec("i"))
    ours = jax_kernel(adam, num_outputs=3, in_out_argnames=["p", "m", "v"])
    runs: dict[str, Contender] = {}
    memory: dict[str, int] = {}
    for name, update in {"kernelcore": ours, "jnp": adam_of_jnp}.items():
        state, g = (
            [jax.device_put(jnp.full((1024, 1024), 0.5, jnp.float32), sharding) for _ in range(n)]
            for n in (3, 1)
        )
        program = jax.jit(update, donate_argnums=(0, 1, 2)).lower(*state, *g, 0.001).compile()
        used: Any = program.memory_analysis()
        memory[name] = used.temp_size_in_bytes + used.output_size_in_bytes

        def run(program: Any = program, state: Any = state, g: Any = g) -> None:
            state[:] = program(*state, *g, 0.001)
            jax.block_until_ready(state)

        runs[name] = Contender(run, warm_seconds=0.1)
    found = timed(runs)
    part = found["kernelcore"].median / found["jnp"].median
    goals = [
        Goal("time by that of jnp", part, "", 1.1),
        Goal("memory by that of jnp", memory["kernelcore"] / memory["jnp"], "", 1.1),
    ]
    show("Adam on eight devices", found, "jnp", goals)


def main() -> None:
    if sys.argv[1:] == ["adam"]:
        jax.config.update("jax_num_cpu_devices", 8)
        bench_adam()
        return
    subprocess.run([sys.executable, "-m", __spec__.name, "adam"], check=True)
    jax.config.update("jax_num_cpu_devices", 2)
    kc.set_num_threads(1)
    wp.config.quiet = True  # pyright: ignore[reportAttributeAccessIssue]
    wp.init()
    mesh, cut = jax.make_mesh((2,), ("i",)), PartitionSpec("i")
    one = jnp.linspace(1.0, 2.0, SIZE, dtype=jnp.float32)
    two = jax.device_put(one, NamedSharding(mesh, cut))
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
