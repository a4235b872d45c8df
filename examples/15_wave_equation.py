"""The wave equation over devices
==============================

The wave equation on a grid whose rows are cut over the devices of JAX.

A step is one kernel per device; ``ppermute`` brings the rows next to the cut. With processors only:
``XLA_FLAGS=--xla_force_host_platform_device_count=2 python examples/15_wave_equation.py``.
The gradient with respect to the speed shows which places a recording at one point depends on.
Source: leapfrog with five points, LeVeque, "Finite Difference Methods for Ordinary and Partial
Differential Equations", SIAM 2007, chapter 10.
"""

import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec

import kernelcore as kc

Field = kc.array2d[float]


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
    """The last two fields of ``count`` steps in the part of the grid of one device."""
    down = [(k, k + 1) for k in range(devices - 1)]
    up = [(k + 1, k) for k in range(devices - 1)]

    def body(state: Any, _: None) -> Any:
        now, before = state
        # Beyond the first and the last device, ppermute brings zeros.
        above = jax.lax.ppermute(now[-1:], "rows", down)
        below = jax.lax.ppermute(now[:1], "rows", up)
        return (step(now, before, courant, above, below), now), None

    return jax.lax.scan(body, (u, u), length=count)[0]


def simulate(mesh: Mesh, count: int, u: Any, courant: Any) -> Any:
    """The fields after ``count`` steps and one before, from ``u`` (n, n) at rest."""
    cut = PartitionSpec("rows")
    run = partial(steps_of, mesh.size, count)
    return jax.shard_map(run, mesh=mesh, in_specs=(cut, cut), out_specs=(cut, cut))(u, courant)


def main(small: bool) -> None:
    n, count = (32, 20) if small else (256, 280)
    mesh = jax.make_mesh((jax.device_count(),), ("rows",), axis_types=(AxisType.Auto,))
    y, x = np.mgrid[:n, :n] / n
    start = jnp.asarray(np.exp(-((x - 0.25) ** 2 + (y - 0.5) ** 2) / 0.001), jnp.float32)
    courant = jnp.full((n, n), 0.5, jnp.float32)
    place = (n // 2, 3 * n // 4)

    def run(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
        def heard(courant: jax.Array) -> Any:
            field = simulate(mesh, count, start, courant)[0]
            return field[place] ** 2, field

        slope, field = jax.jit(jax.grad(heard, has_aux=True))(courant)
        return np.asarray(field), np.asarray(slope)

    found, one = run(mesh), run(Mesh(mesh.devices[:1], ("rows",)))
    for name, a, b in zip(("fields", "gradients"), found, one, strict=True):
        apart = np.abs(a - b).max() / np.abs(b).max()
        print(f"{name} of {mesh.size} devices and of one: relative difference {apart:.1e}")

    figure, axes = plt.subplots(1, 2, figsize=(12, 5.2), constrained_layout=True)
    titles = (f"The wave after {count} steps", "Gradient by the speed")
    for axis, image, title in zip(axes, found, titles, strict=True):
        scale = np.percentile(np.abs(image), 99.5)
        figure.colorbar(axis.imshow(image, cmap="RdBu", vmin=-scale, vmax=scale), ax=axis)
        for k in range(1, mesh.size):
            axis.axhline(k * n / mesh.size - 0.5, color="k", linestyle="--", label="cut" * (k == 1))
        axis.plot(0.25 * n, 0.5 * n, "k*", label="source")
        axis.plot(*reversed(place), "k^", label="recording")
        axis.set(title=title, xlabel="column", ylabel="row")
        axis.legend()
    figure.savefig("wave_equation.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
