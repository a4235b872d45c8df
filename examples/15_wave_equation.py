"""The wave equation over devices
==============================

The wave equation on a grid whose rows are cut over the devices of JAX.

A step is one kernel per device; ``ppermute`` brings the rows next to the cut. With processors only:
``XLA_FLAGS=--xla_force_host_platform_device_count=2 python examples/15_wave_equation.py``.
The gradient with respect to the speed shows which places a recording at one point depends on.
Source: leapfrog with five points, LeVeque, "Finite Difference Methods for Ordinary and Partial
Differential Equations", SIAM 2007, chapter 10.
"""

import argparse
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec

import kernelcore as kc

Field = kc.array2d[float]
P = PartitionSpec


@kc.op
@kc.kernel
def step(u: Field, before: Field, courant: Field, above: Field, below: Field, after: Field):
    i, j = kc.tid()
    n, m = u.shape
    up = u[i - 1, j] if i > 0 else above[0, j]
    down = u[i + 1, j] if i < n - 1 else below[0, j]
    left = u[i, j - 1] if j > 0 else 0.0
    right = u[i, j + 1] if j < m - 1 else 0.0
    c = courant[i, j]
    laplace = up + down + left + right - 4.0 * u[i, j]
    after[i, j] = 2.0 * u[i, j] - before[i, j] + c * c * laplace


def steps_of(devices: int, count: int, u: Any, courant: Any) -> Any:
    """The last two fields of ``count`` steps in a part of the grid.

    Beyond the first and the last row the field is zero, which is what ``ppermute`` brings there.
    """
    down = [(k, k + 1) for k in range(devices - 1)]
    up = [(k + 1, k) for k in range(devices - 1)]

    def body(state: Any, _: None) -> Any:
        now, before = state
        above = jax.lax.ppermute(now[-1:], "rows", down)
        below = jax.lax.ppermute(now[:1], "rows", up)
        return (step(now, before, courant, above, below), now), None

    return jax.lax.scan(body, (u, u), length=count)[0]


def simulate(mesh: Mesh, count: int, u: Any, courant: Any) -> Any:
    """The fields after ``count`` steps and one before, from ``u`` (n, n) at rest."""
    cut = P("rows")
    run = partial(steps_of, mesh.size, count)
    return jax.shard_map(run, mesh=mesh, in_specs=(cut, cut), out_specs=(cut, cut))(u, courant)


def energy(fields: Any, courant: Any) -> Any:
    """The energy of the leapfrog, which stays as it is where the speed is the same everywhere."""
    after, before = (jnp.pad(f, 1) for f in fields)
    kinetic = ((after - before)[1:-1, 1:-1] / courant) ** 2
    bent = sum((jnp.diff(after, axis=k) * jnp.diff(before, axis=k)).sum() for k in (0, 1))
    return 0.5 * (kinetic.sum() + bent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chart", nargs="?", default="wave_equation.png")
    parser.add_argument("--small", action="store_true", help="for a few seconds")
    options = parser.parse_args()
    n, count = (32, 20) if options.small else (256, 280)
    mesh = jax.make_mesh((jax.device_count(),), ("rows",), axis_types=(AxisType.Auto,))
    one = Mesh(mesh.devices[:1], ("rows",))
    y, x = np.mgrid[:n, :n] / n
    start = jnp.asarray(np.exp(-((x - 0.25) ** 2 + (y - 0.5) ** 2) / 0.001), jnp.float32)
    courant = jnp.full((n, n), 0.5, jnp.float32)
    place = (n // 2, 3 * n // 4)

    def heard(mesh: Mesh, courant: Any) -> Any:
        return simulate(mesh, count, start, courant)[0][place] ** 2

    run = jax.jit(partial(simulate, mesh, count))
    fields, alone = run(start, courant), jax.jit(partial(simulate, one, count))(start, courant)
    slope = jax.jit(jax.grad(partial(heard, mesh)))(courant)
    other = jax.jit(jax.grad(partial(heard, one)))(courant)
    change = abs(energy(fields, courant) / energy((start, start), courant) - 1.0)
    print(f"{mesh.size} devices, {count} steps: energy changes by {change:.1e}")
    for name, a, b in (("fields", fields[0], alone[0]), ("gradients", slope, other)):
        apart = np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(b).max()
        print(f"{name} of {mesh.size} devices and of one: relative difference {apart:.1e}")

    figure, axes = plt.subplots(1, 2, figsize=(12, 5.2), constrained_layout=True)
    pictures = ((fields[0], f"The wave after {count} steps"), (slope, "Gradient by the speed"))
    for axis, (image, title) in zip(axes, pictures, strict=True):
        scale = float(jnp.percentile(jnp.abs(image), 99.5))
        shown = axis.imshow(image, cmap="RdBu", vmin=-scale, vmax=scale)
        figure.colorbar(shown, ax=axis)
        for k in range(1, mesh.size):
            axis.axhline(k * n / mesh.size - 0.5, color="k", linestyle="--", label="cut" * (k == 1))
        axis.plot(0.25 * n, 0.5 * n, "k*", label="source")
        axis.plot(*reversed(place), "k^", label="recording")
        axis.set(title=title, xlabel="column", ylabel="row")
        axis.legend()
    figure.savefig(options.chart, dpi=80)


if __name__ == "__main__":
    main()
