"""Weak and strong scaling of a stencil: processes of mpirun times CPU devices.

The heat equation of ``examples/distributed`` on a ring that is cut over all devices. Weak: every
device has as many elements; ideal is the time of one device times devices a core. Strong: the ring
is as long in all rows. The cores of the machine limit both, so rows say how many devices share one.
Without arguments this starts every row in processes of its own; with them it is one of those.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from jax_ffi import initialize_distributed
from tests.bench.results import record

LAYOUTS = ((1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (4, 2))
STEPS = 10
WEAK, STRONG = 1 << 18, 1 << 20
ROUNDS = 15
FOLDER = Path(__file__).parents[2] / "examples" / "distributed"


def local_ring(u: Any, rate: Any) -> Any:
    """The steps in jax.numpy, from which XLA makes the communication.

    They are a loop: XLA would compute neighbours anew in every step of an unrolled program.
    """

    def step(_: Any, u: Any) -> Any:
        return u + rate * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))

    return jax.lax.fori_loop(0, STEPS, step, u)


def measure(processes: int) -> None:
    """Print, in process 0, microseconds a step by the name of the program and its size."""
    sys.path.insert(0, str(FOLDER))
    programs: Any = __import__("programs")
    jax.config.update("jax_enable_x64", True)
    rank = initialize_distributed()[0] if processes > 1 else 0
    mesh, count = programs.all_devices(), jax.device_count()
    contenders = {
        "kernelcore": programs.sharded_heat(mesh, STEPS),
        "no exchange": programs.sharded_heat(mesh, STEPS, exchanges=False),
        "jnp": local_ring,
    }
    found: dict[str, float] = {}
    for kind, size in {"weak": WEAK * count, "strong": STRONG}.items():
        cut = NamedSharding(mesh, PartitionSpec("x"))
        u = jax.jit(lambda n=size: jnp.sin(jnp.arange(n) * 1e-3), out_shardings=cut)()
        runs = {name: jax.jit(f).lower(u, 0.2).compile() for name, f in contenders.items()}
        # Every process makes the same calls in the same order, so rounds are not cut short.
        samples: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(ROUNDS):
            for name, run in runs.items():
                start = time.perf_counter()
                run(u, 0.2).block_until_ready()
                samples[name].append(time.perf_counter() - start)
        found |= {f"{kind} {n}": median(s) * 1e6 / STEPS for n, s in samples.items()}
    if rank == 0:
        print("RESULT", json.dumps(found), flush=True)


def row(processes: int, devices: int) -> dict[str, float]:
    """What processes with so many devices each measure."""
    program = [sys.executable, "-m", "tests.bench.bench_scale", str(processes)]
    ranks = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(processes)]
    flags = f"--xla_force_host_platform_device_count={devices}"
    ran = subprocess.run(
        [*ranks * (processes > 1), *program],
        env={**os.environ, "XLA_FLAGS": flags},
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    (line,) = (s for s in ran.stdout.splitlines() if s.startswith("RESULT"))
    return json.loads(line.removeprefix("RESULT"))


def main() -> None:
    if sys.argv[1:]:
        measure(int(sys.argv[1]))
        return
    rows = {layout: row(*layout) for layout in LAYOUTS}
    for kind in ("weak", "strong"):
        print(f"\n{kind} scaling of the stencil, us a step ({os.cpu_count()} processors)")
        for (processes, devices), found in rows.items():
            times = {
                n: t for name, t in found.items() if (n := name.removeprefix(kind + " ")) != name
            }
            text = "   ".join(f"{name} {t:8.1f}" for name, t in times.items())
            print(f"  {processes} processes x {devices} devices   {text}")
        record(f"{kind} scaling", {f"{p} x {d}": found for (p, d), found in rows.items()})


if __name__ == "__main__":
    main()
