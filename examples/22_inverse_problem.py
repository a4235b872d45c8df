"""An inverse problem with second derivatives
==========================================

Which conductivity explains the temperatures that sensors saw? Newton's method on 60 unknowns.

A step of heat conduction is one kernel. JAX scans over it, and takes Hessian-vector products by
forward mode over reverse mode; conjugate gradients solve for the Newton step.
Source: Nocedal, Wright, "Numerical Optimization", chapter 7 (Newton-CG).
"""

import sys

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import kernelcore as kc

N = 60
Line = kc.array[kc.float64]


@kc.op(outputs="new", launch_dims="u", output_dims="u")
@kc.kernel
def conduct(u: Line, log_k: Line, dt: kc.float64, new: Line):
    i = kc.tid()
    n = u.shape[0]
    left, right = kc.max(i - 1, 0), kc.min(i + 1, n - 1)
    here = kc.exp(log_k[i])
    inflow = 0.5 * (kc.exp(log_k[left]) + here) * (u[left] - u[i])
    inflow += 0.5 * (kc.exp(log_k[right]) + here) * (u[right] - u[i])
    new[i] = u[i] + dt * inflow


def observed(log_k: jax.Array, sources: jax.Array, steps: int) -> jax.Array:
    """Temperatures at every place, every ten steps, for each start in ``sources``."""

    def run(u: jax.Array) -> jax.Array:
        def ten(u: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            u = jax.lax.fori_loop(0, 10, lambda _, u: conduct(u, log_k, 0.2), u)
            return u, u

        return jax.lax.scan(ten, u, None, length=steps // 10)[1]

    return jax.vmap(run)(sources)


def main(small: bool) -> None:
    jax.config.update("jax_enable_x64", True)
    steps, iterations = (100, 4) if small else (400, 12)
    place = np.arange(N)
    truth = 0.8 * np.sin(place / 6.0) * np.exp(-(((place - 30) / 25.0) ** 2)) - 0.5
    sources = jnp.array([np.exp(-(((place - c) / 3.0) ** 2)) for c in (8, 22, 38, 52)])
    rng = np.random.default_rng(0)
    data = observed(jnp.array(truth), sources, steps)
    data += 1e-4 * rng.normal(size=data.shape)

    def loss(log_k: jax.Array) -> jax.Array:
        misfit = jnp.sum((observed(log_k, sources, steps) - data) ** 2)
        return misfit + 1e-3 * jnp.sum(jnp.diff(log_k) ** 2)

    slope = jax.grad(loss)

    @jax.jit
    def newton(log_k: jax.Array) -> jax.Array:
        def hessian(v: jax.Array) -> jax.Array:
            return jax.jvp(slope, (log_k,), (v,))[1] + 0.01 * v

        step, _ = jax.scipy.sparse.linalg.cg(hessian, slope(log_k), maxiter=60)
        step = jnp.clip(step, -0.5, 0.5)
        tried = log_k - 0.5 ** jnp.arange(6)[:, None] * step
        return tried[jnp.nanargmin(jax.vmap(loss)(tried))]

    found, losses = jnp.full(N, -0.5), []
    for _ in range(iterations):
        losses.append(float(loss(found)))
        found = newton(found)
    losses.append(float(loss(found)))
    print(f"{iterations} steps of Newton: {losses[0]:.3e} -> {losses[-1]:.3e}")

    figure, axes = plt.subplots(1, 3, figsize=(15, 4), constrained_layout=True)
    axes[0].plot(data[1].T[:, ::4], linewidth=0.8)
    axes[0].set(title="Measured temperatures", xlabel="place")
    axes[1].plot(np.exp(truth), "0.6", linewidth=4, label="truth")
    axes[1].plot(np.exp(found), label="found")
    axes[1].set(title="Conductivity", xlabel="place")
    axes[1].legend()
    axes[2].semilogy(losses, "o-")
    axes[2].set(title="Misfit", xlabel="step of Newton")
    figure.savefig("inverse_problem.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
