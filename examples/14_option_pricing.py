"""Option pricing
==============

The price of an Asian option and its slopes, by simulation of many paths for several seeds.

It pays what the geometric mean of a share's price, taken at several dates, exceeds the strike by.
``jax.vmap`` runs the seeds, whose spread is the error of the mean; ``jax.grad`` differentiates
along the paths. There is a closed form; with one date it is that of Black and Scholes.
Sources: Broadie, Glasserman, "Estimating Security Price Derivatives Using Simulation", Management
Science 1996; Kemna, Vorst, "A Pricing Method for Options Based on Average Asset Values", 1990.
"""

import sys

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.scipy.stats import norm

import kernelcore as kc

STRIKE, RATE, MATURITY = 100.0, 0.05, 1.0


@kc.op(launch_dims="paths")
@kc.kernel
def payoffs(
    spot: float,
    volatility: float,
    strike: float,
    rate: float,
    maturity: float,
    dates: int,
    seed: int,
    paths: int,
    payoff: kc.array[float],
):
    i = kc.tid()
    state = kc.philox_init(seed, i)
    dt = maturity / float(dates)
    log_price = kc.log(spot)
    total = 0.0
    for _ in range(dates):
        moved = (rate - 0.5 * volatility * volatility) * dt
        log_price += moved + volatility * kc.sqrt(dt) * kc.randn(state)
        total += log_price
    mean = kc.exp(total / float(dates))
    payoff[i] = kc.exp(-rate * maturity) * kc.max(mean - strike, 0.0)


def simulated(spot: jax.Array, volatility: jax.Array, seed: jax.Array, dates: int, paths: int):
    """The mean payoff of ``paths`` paths."""
    return payoffs(spot, volatility, STRIKE, RATE, MATURITY, dates, seed, paths).mean()


def exact(spot: jax.Array, volatility: jax.Array, dates: int) -> jax.Array:
    """The closed form."""
    n = float(dates)
    mean = (RATE - 0.5 * volatility**2) * MATURITY * (n + 1.0) / (2.0 * n)
    deviation = volatility * jnp.sqrt(MATURITY * (n + 1.0) * (2.0 * n + 1.0) / 6.0) / n
    d = (jnp.log(spot / STRIKE) + mean) / deviation
    grown = spot * jnp.exp(mean + 0.5 * deviation**2) * norm.cdf(d + deviation)
    return jnp.exp(-RATE * MATURITY) * (grown - STRIKE * norm.cdf(d))


def main(small: bool) -> None:
    paths, dates, count = (4096, 8, 5) if small else (65536, 52, 21)
    seeds, volatility = jnp.arange(16), jnp.float32(0.2)
    spots = jnp.linspace(70.0, 130.0, count)

    def slopes(spot: jax.Array, seed: jax.Array):
        of = jax.value_and_grad(simulated, argnums=(0, 1))
        price, (delta, vega) = of(spot, volatility, seed, dates, paths)
        return price, delta, vega

    every_seed = jax.vmap(slopes, in_axes=(None, 0))
    found = jax.jit(jax.vmap(every_seed, in_axes=(0, None)))(spots, seeds)
    closed = jax.vmap(jax.value_and_grad(exact, argnums=(0, 1)), in_axes=(0, None, None))
    price, (delta, vega) = closed(spots, volatility, dates)

    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), constrained_layout=True)
    names = ("price", "delta", "vega")
    for axis, name, samples, wanted in zip(axes, names, found, (price, delta, vega), strict=True):
        mean = samples.mean(1)
        error = samples.std(1, ddof=1) / np.sqrt(len(seeds))
        at, away = count // 2, jnp.abs(mean - wanted).max() / error.mean()
        text = f"{mean[at]:.5f} +- {error[at]:.5f}, exactly {wanted[at]:.5f}"
        print(f"{name:5s} {text}; largest of {count} errors {away:.1f} standard errors")
        axis.plot(spots, wanted, color="0.6", label="closed form")
        axis.errorbar(spots, mean, 2.0 * error, fmt=".", label="paths, two standard errors")
        axis.set(title=name.capitalize(), xlabel="price of the share", ylabel=name)
        axis.legend()
    figure.savefig("option_pricing.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
