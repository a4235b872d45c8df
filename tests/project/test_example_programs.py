"""The operators of the examples against NumPy in float64, on the arrays of several frameworks.

Values are those of an oracle, and gradients its central differences.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.sharding import Mesh

import kernelcore as kc
from tests.helpers.environment import ROOT
from tests.operators.contract.libraries import LIBRARIES

Array = np.ndarray[Any, Any]


@cache
def example(name: str) -> Any:
    """The module of the example ``name``."""
    (path,) = (ROOT / "examples").glob(f"*_{name}.py")
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Program:
    """A call of operators of an example.

    Attributes:
        name: Of the example, and what it computes.
        call: Of arrays of a framework.
        oracle: The same in NumPy and float64.
        args: What both get: float32 arrays, which gradients are taken of, and others.
        frameworks: Whose arrays it takes.
        error: The largest difference relative to the largest element.
    """

    name: str
    call: Callable[..., Any]
    oracle: Callable[..., Any]
    args: tuple[Any, ...]
    frameworks: tuple[str, ...] = ("torch", "jax", "paddle")
    error: float = 2e-6


def uniform(low: float, high: float, *shape: int, seed: int = 0) -> Array:
    return np.asarray(np.random.default_rng(seed).uniform(low, high, shape), np.float32)


def number(value: float) -> Array:
    return np.array(value, np.float32)


def rendered(centre: Any, spread: Any, colour: Any, opacity: Any) -> Any:
    fields = {"centre": centre, "spread": spread, "colour": colour, "opacity": opacity}
    return example("splats").render(fields, 5, 6)


def rendered_in_numpy(centre: Array, spread: Array, colour: Array, opacity: Array) -> Array:
    height, width = 5, 6
    y, x = (np.mgrid[:height, :width] + 0.5) / np.array([height, width])[:, None, None]
    image, left = np.zeros((height, width, 3)), np.ones((height, width))
    for k in range(len(centre)):
        d = np.einsum("ab,bij->aij", spread[k], np.stack([x, y]) - centre[k][:, None, None])
        alpha = np.exp(-0.5 * (d * d).sum(0)) / (1.0 + np.exp(-opacity[k]))
        alpha[left < 1e-3] = 0.0
        image += (left * alpha)[..., None] * colour[k]
        left = left * (1.0 - alpha)
    assert 0 < (left < 1e-3).sum() < left.size  # Some pixels stop early, and others do not.
    return image


def stepped(x: Any, v: Any, stiffness: Any, drag: Any) -> Any:
    return example("cloth").step(x, v, stiffness, drag, 1e-3)


def stepped_in_numpy(x: Array, v: Array, stiffness: float, drag: float) -> Any:
    n, dt = len(x), 1e-3
    pull = np.zeros(x.shape)
    for i, j in np.ndindex(n, n):
        for k, m in np.ndindex(n, n):
            apart = np.hypot(i - k, j - m)
            if 0.0 < apart < 2.0:
                d = x[k, m] - x[i, j]
                pull[i, j] += (1.0 - apart / (n - 1) / np.linalg.norm(d)) * d
    after = v + dt * (stiffness * n * n * pull - drag * v + np.array([0.0, 0.0, -9.81]))
    after[0, [0, -1]] = 0.0
    return x + dt * after, after


def thrown_in_numpy(throw: Array) -> Array:
    cloth = example("cloth")
    x = np.asarray(cloth.at_rest(4), np.float64)
    v = np.broadcast_to(throw, x.shape)
    for _ in range(20):
        x, v = stepped_in_numpy(x, v, *cloth.STEP[:2])
    return x


# Nodes with 0, 1, 2, 3 and 5 edges.
ROWS = np.array([0, 0, 1, 3, 6, 11], np.int32)
COLUMNS = np.array([4, 0, 3, 0, 1, 2, 0, 1, 2, 3, 4], np.int32)


def attended(rows: Any, columns: Any, centre: Any, neighbour: Any, z: Any) -> Any:
    attention = example("graph_attention")
    weights = attention.attention(rows, columns, centre, neighbour)
    return weights, attention.gather(rows, columns, weights, z)


def attended_in_numpy(
    rows: Array, columns: Array, centre: Array, neighbour: Array, z: Array
) -> Any:
    edges = np.zeros((5, 5), bool)
    edges[np.repeat(np.arange(5), np.diff(rows)), columns] = True
    e = centre[:, None] + neighbour
    scores = np.where(edges, np.exp(np.where(e > 0.0, e, 0.2 * e)), 0.0)
    weights = scores / np.maximum(scores.sum(1, keepdims=True), 1e-30)
    return weights[edges], weights @ z


def paid(spot: Any, volatility: Any, strike: Any, rate: Any, maturity: Any) -> Any:
    option = example("option_pricing")
    return option.payoffs(spot, volatility, strike, rate, maturity, 3, 7, 40)


@kc.kernel
def draws(seed: int, normal: kc.array2d[float]):
    i = kc.tid()
    state = kc.philox_init(seed, i)
    for k in range(normal.shape[1]):
        normal[i, k] = kc.randn(state)


def paid_in_numpy(
    spot: float, volatility: float, strike: float, rate: float, maturity: float
) -> Array:
    normal = np.zeros((40, 3), np.float32)
    kc.launch(draws, 40, [7], [normal])
    dt = maturity / 3
    moved = (rate - 0.5 * volatility**2) * dt + volatility * np.sqrt(dt) * normal.astype(float)
    mean = np.exp((np.log(spot) + moved.cumsum(1)).mean(1))
    return np.exp(-rate * maturity) * np.maximum(mean - strike, 0.0)


def waved(u: Any, before: Any, courant: Any, above: Any, below: Any) -> Any:
    return example("wave_equation").step(u, before, courant, above, below)


def waved_in_numpy(u: Array, before: Array, courant: Array, above: Array, below: Array) -> Array:
    rows, columns = np.concatenate([above, u, below]), np.pad(u, ((0, 0), (1, 1)))
    laplace = rows[2:] + rows[:-2] + columns[:, 2:] + columns[:, :-2] - 4.0 * u
    return 2.0 * u - before + courant**2 * laplace


def simulated(u: Any, courant: Any) -> Any:
    # A compiled program: rows of an array that is cut have no gradients step by step in JAX.
    run = example("wave_equation").simulate
    mesh = Mesh(jax.devices(), ("rows",))
    return jax.jit(run, static_argnums=(0, 1))(mesh, 6, u, courant)


def simulated_in_numpy(u: Array, courant: Array) -> Any:
    now, before = u, u
    edge = np.zeros((1, u.shape[1]))
    for _ in range(6):
        now, before = waved_in_numpy(now, before, courant, edge, edge), now
    return now, before


def near(points: Any, order: Any, first: Any) -> Any:
    return example("nearest_neighbours").nearest(points, order, first, 3).distance


def near_in_numpy(points: Array, *_: Array) -> Array:
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    return np.sort(apart, 1)[:, 1 : 1 + example("nearest_neighbours").K]


def filtered(x: Any, sigma_space: Any, sigma_value: Any) -> Any:
    return example("bilateral_filter").bilateral(x, sigma_space, sigma_value, 2)


def filtered_in_numpy(x: Array, sigma_space: float, sigma_value: float) -> Array:
    found = np.zeros(x.shape)
    places = np.moveaxis(np.mgrid[: x.shape[0], : x.shape[1]], 0, -1)
    for i, j in np.ndindex(*x.shape):
        far = places - (i, j)
        weight = np.exp(
            -0.5 * ((far**2).sum(-1) / sigma_space**2 + ((x - x[i, j]) / sigma_value) ** 2)
        )
        weight[np.abs(far).max(-1) > 2] = 0.0
        found[i, j] = (weight * x).sum() / weight.sum()
    return found


CLOTH = np.asarray(example("cloth").at_rest(4) + uniform(-0.05, 0.05, 4, 4, 3))
POINTS = uniform(0.0, 1.0, 20, 2)
CELL = example("nearest_neighbours").cells_of(POINTS, 3)
ORDER = np.argsort(CELL).astype(np.int32)
FIRST = np.searchsorted(np.sort(CELL), np.arange(10)).astype(np.int32)
PROGRAMS = [
    Program(
        "learned_activation",
        lambda x, a: example("learned_activation").snake(x, a),
        lambda x, a: x + np.sin(a * x) ** 2 / a,
        (uniform(-2.0, 2.0, 4, 3), uniform(0.5, 2.0, 3)),
    ),
    Program(
        "splats",
        rendered,
        rendered_in_numpy,
        (
            uniform(0.2, 0.6, 7, 2),
            2.0 * np.eye(2, dtype=np.float32) + uniform(-0.5, 0.5, 7, 2, 2, seed=1),
            uniform(0.0, 1.0, 7, 3, seed=2),
            uniform(2.0, 4.0, 7, seed=3),
        ),
    ),
    Program(
        "cloth",
        stepped,
        stepped_in_numpy,
        (CLOTH, uniform(-1.0, 1.0, 4, 4, 3), number(100.0), number(1.0)),
    ),
    Program(
        "cloth: a throw in torch",
        lambda throw: example("cloth").in_torch(
            torch.from_numpy(example("cloth").at_rest(4)), throw, 20
        ),
        thrown_in_numpy,
        (uniform(-3.0, 3.0, 3),),
        ("torch",),
    ),
    Program(
        "cloth: a throw in JAX",
        lambda throw: example("cloth").in_jax(jnp.asarray(example("cloth").at_rest(4)), throw, 20),
        thrown_in_numpy,
        (uniform(-3.0, 3.0, 3),),
        ("jax",),
    ),
    Program(
        "graph_attention",
        attended,
        attended_in_numpy,
        (ROWS, COLUMNS, uniform(-1.0, 1.0, 5), uniform(-1.0, 1.0, 5, seed=1), uniform(0, 1, 5, 3)),
    ),
    Program(
        "option_pricing",
        paid,
        paid_in_numpy,
        (number(98.0), number(0.25), number(95.0), number(0.05), number(1.5)),
    ),
    Program(
        "wave_equation",
        waved,
        waved_in_numpy,
        (
            *(uniform(-1.0, 1.0, 3, 4, seed=k) for k in range(2)),
            uniform(0.1, 0.7, 3, 4, seed=2),
            *(uniform(-1.0, 1.0, 1, 4, seed=k) for k in (3, 4)),
        ),
    ),
    Program(
        "wave_equation: on all devices",
        simulated,
        simulated_in_numpy,
        (uniform(-1.0, 1.0, 4, 5), uniform(0.1, 0.7, 4, 5, seed=1)),
        ("jax",),
    ),
    Program("nearest_neighbours", near, near_in_numpy, (POINTS, ORDER, FIRST)),
    Program(
        "bilateral_filter",
        filtered,
        filtered_in_numpy,
        (uniform(0.0, 1.0, 4, 5), number(1.5), number(0.3)),
    ),
]
RUNS = [
    pytest.param(program, library, id=f"{program.name}-{library}")
    for program in PROGRAMS
    for library in program.frameworks
]


def wide(arg: Any) -> Any:
    return arg.astype(np.float64) if arg.dtype == np.float32 else arg


def as_tuple(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def assert_close(found: Array, wanted: Array, error: float) -> None:
    scale = np.abs(wanted).max()
    assert scale > 0.0
    np.testing.assert_allclose(found / scale, wanted / scale, rtol=0.0, atol=error)


@pytest.mark.parametrize(("program", "library"), RUNS)
def test_values_are_those_of_the_oracle(program: Program, library: str) -> None:
    given = [LIBRARIES[library].array(a, None) for a in program.args]
    wanted = as_tuple(program.oracle(*map(wide, program.args)))
    for one, want in zip(as_tuple(program.call(*given)), wanted, strict=True):
        assert isinstance(one, LIBRARIES[library].kind)
        assert_close(LIBRARIES[library].numbers(one), want, program.error)


@pytest.mark.parametrize(("program", "library"), RUNS)
def test_gradients_are_central_differences_of_the_oracle(program: Program, library: str) -> None:
    args = [wide(a) for a in program.args]
    wrt = [k for k, a in enumerate(args) if a.dtype == np.float64]
    weights = [
        uniform(-1.0, 1.0, *r.shape, seed=9)
        for r in map(np.asarray, as_tuple(program.oracle(*args)))
    ]
    given = [LIBRARIES[library].array(a, None) for a in program.args]
    gradients = LIBRARIES[library].gradients
    assert gradients is not None
    found = gradients(lambda *a: tuple(as_tuple(program.call(*a))), given, wrt, weights)
    for k, one in zip(wrt, found, strict=True):
        want = np.zeros(args[k].shape)
        step = 1e-6 * max(1.0, np.abs(args[k]).max())
        for index in np.ndindex(*want.shape):
            moved: list[float] = []
            for by in (step, -step):
                other = [a.copy() for a in args]
                other[k][index] += by
                results = as_tuple(program.oracle(*other))
                moved.append(sum((w * r).sum() for w, r in zip(weights, results, strict=True)))
            want[index] = (moved[0] - moved[1]) / (2.0 * step)
        assert_close(LIBRARIES[library].numbers(one), want, 10.0 * program.error)
