"""Models of statistics and robotics in float64, written as textbooks do, beside their peers.

A mixture model, bundle adjustment with its Jacobian and a two-layer LSTM, each without and with
derivatives, on one thread. The peers are jax.jit, torch.compile, and numba with derivatives that
are written by hand. ``python -m tests.bench.bench_models mixture`` measures one of them.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import torch

import kernelcore as kc
from tests.bench import model_kernels as kernels
from tests.bench import model_peers as peers
from tests.bench.results import Goal, show
from tests.bench.timing import Contender, Timing, timed_within

OURS, OURS_BY_AUTOGRAD = "kernelcore", "kernelcore, autograd"
POINTS, SIZE, PARTS = 1000, 64, 25
OBSERVATIONS = 31_843
STEPS = (1024, 4096)
SECONDS_PER_ROW = 2.0
# Our time over that of the best peer, and that with derivatives over that of the objective.
GOAL, DERIVATIVE_GOAL = 1.0, 5.0
TOLERANCE = 1e-9

Run = Callable[[], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Model:
    """By contender what computes the objective, and what computes derivatives, too."""

    name: str
    objective: Mapping[str, Run]
    derivatives: Mapping[str, Run]


def mixture() -> Model:
    rng = np.random.default_rng(0)
    shapes = ((PARTS,), (PARTS, SIZE), (PARTS, SIZE), (PARTS, SIZE, SIZE), (POINTS, SIZE))
    arrays = [0.1 * rng.standard_normal(shape) for shape in shapes]
    terms = kc.op(launch_dims=("x.shape[0]", "alpha.shape[0]"))(kernels.mixture_terms)
    rows = kc.op(launch_dims="x.shape[0]")(kernels.log_sum_exp)
    return _scalar_model(
        f"mixture of {POINTS} points",
        lambda *args: rows(terms(*args)).sum(),
        torch.compile(peers.mixture_in_torch),
        peers.mixture_in_jax,
        peers.mixture_in_numba,
        arrays,
        varied=4,
    )


def lstm(steps: int) -> Model:
    rng = np.random.default_rng(0)
    hidden = kernels.HIDDEN
    shapes = ((2, 4, hidden), (2, 4, hidden), (3, hidden), (2, 2, hidden), (steps, hidden))
    arrays = [0.5 * rng.standard_normal(shape) for shape in shapes]
    ours = kc.op(launch_dims=1, output_dims=1)(kernels.lstm)
    step = torch.compile(peers.step_in_torch)

    def by_torch(*args: Any) -> torch.Tensor:
        weight, bias, scale, first, sequence = args
        state, terms = (first[0, 0], first[0, 1], first[1, 0], first[1, 1]), []
        for given, wanted in itertools.pairwise(sequence):
            state, term = step(weight, bias, scale, state, given, wanted)
            terms.append(term)
        return torch.stack(terms).sum() / (hidden * (steps - 1))

    return _scalar_model(
        f"LSTM of {steps} steps",
        lambda *args: ours(*args).sum(),
        by_torch,
        peers.lstm_in_jax,
        peers.lstm_in_numba,
        arrays,
        varied=3,
    )


def _scalar_model(
    name: str,
    ours: Callable[..., torch.Tensor],
    by_torch: Callable[..., torch.Tensor],
    by_jax: Callable[..., Any],
    by_numba: Callable[..., float],
    arrays: Sequence[np.ndarray],
    varied: int,
) -> Model:
    """A model of one result, and its gradient for the first ``varied`` arrays."""

    def in_torch(function: Callable[..., torch.Tensor]) -> tuple[Run, Run]:
        fixed = [torch.from_numpy(a) for a in arrays]
        leaves = [t.clone().requires_grad_(k < varied) for k, t in enumerate(fixed)]

        def objective() -> Sequence[Any]:
            with torch.no_grad():
                return (function(*fixed),)

        def gradient() -> Sequence[Any]:
            found = function(*leaves)
            return found.detach(), *torch.autograd.grad(found, leaves[:varied])

        return objective, gradient

    in_jax = [jax.device_put(a) for a in arrays]
    objective = jax.jit(by_jax)
    gradient = jax.jit(jax.value_and_grad(by_jax, tuple(range(varied))))

    def gradient_in_jax() -> Sequence[Any]:
        found, gradients = jax.block_until_ready(gradient(*in_jax))
        return found, *gradients

    none = tuple(np.empty((0,) * a.ndim) for a in arrays[:varied])

    def gradient_in_numba() -> Sequence[Any]:
        gradients = tuple(np.zeros_like(a) for a in arrays[:varied])
        return by_numba(*arrays, gradients), *gradients

    pairs = {
        OURS: in_torch(ours),
        "torch.compile": in_torch(by_torch),
        "jax.jit": (lambda: (jax.block_until_ready(objective(*in_jax)),), gradient_in_jax),
        "numba": (lambda: (by_numba(*arrays, none),), gradient_in_numba),
    }
    return Model(
        name,
        {who: pair[0] for who, pair in pairs.items()},
        {who: pair[1] for who, pair in pairs.items()},
    )


def bundle_adjustment() -> Model:
    """Errors of observations, and their Jacobian: rows of 15 numbers.

    Ours is a kernel that computes gradients in registers and stores them as rows; beside it is
    autograd of the errors, once per row.
    """
    rng = np.random.default_rng(0)
    count = OBSERVATIONS
    camera, pixel = 0.3 * rng.standard_normal((count, 11)), rng.standard_normal((count, 2))
    point = rng.standard_normal((count, 3)) + np.array((0, 0, 8))
    weight = rng.uniform(0.5, 1, count)
    arrays = [camera, point, weight, pixel]
    extent = "camera.shape[0]"
    op = kc.op(launch_dims=extent, output_dims=extent)(kernels.projection)
    op_with_rows = kc.op(launch_dims=extent, output_dims={"y": extent, "rows": (extent, 2)})(
        kernels.projection_with_rows
    )
    fixed = [torch.from_numpy(a) for a in arrays]
    leaves = [t.clone().requires_grad_(k < 3) for k, t in enumerate(fixed)]
    units = [torch.eye(2, dtype=torch.float64)[k].expand(count, 2) for k in range(2)]

    def objective() -> Sequence[Any]:
        with torch.no_grad():
            return (op(*fixed),)

    def jacobian() -> Sequence[Any]:
        with torch.no_grad():
            return op_with_rows(*fixed)

    def jacobian_by_autograd() -> Sequence[Any]:
        found = op(*leaves)
        rows = [torch.autograd.grad(found, leaves[:3], u, retain_graph=True) for u in units]
        joined = [torch.cat((a, b, c[:, None]), 1) for a, b, c in rows]
        return found.detach(), torch.stack(joined, 1)

    by_torch = torch.compile(torch.vmap(peers.projection_in_torch))
    rows_in_torch = torch.compile(
        torch.vmap(torch.func.jacrev(peers.projection_in_torch, (0, 1, 2)))
    )
    in_jax = [jax.device_put(a) for a in arrays]
    by_jax = jax.jit(jax.vmap(peers.projection_in_jax))
    rows_in_jax = jax.jit(jax.vmap(jax.jacrev(peers.projection_in_jax, (0, 1, 2))))
    # The errors are a part of what others return.
    y, none, rows = np.empty((count, 2)), np.empty((0, 2, 15)), np.empty((count, 2, 15))

    def joined(found: Any, blocks: Sequence[Any], join: Callable[..., Any]) -> Sequence[Any]:
        a, b, c = blocks
        return found, join((a, b, c[..., None]), -1)

    def in_numba(wanted: np.ndarray) -> Sequence[Any]:
        peers.projection_in_numba(camera, point, weight, pixel, y, wanted)
        return (y, wanted) if wanted.size else (y,)

    def jacobian_in_jax() -> Sequence[Any]:
        found, blocks = jax.block_until_ready((by_jax(*in_jax), rows_in_jax(*in_jax)))
        return joined(found, blocks, jax.numpy.concatenate)

    return Model(
        f"bundle adjustment of {count} observations",
        {
            OURS: objective,
            "torch.compile": lambda: (by_torch(*fixed),),
            "jax.jit": lambda: (jax.block_until_ready(by_jax(*in_jax)),),
            "numba": lambda: in_numba(none),
        },
        {
            OURS: jacobian,
            OURS_BY_AUTOGRAD: jacobian_by_autograd,
            "torch.compile": lambda: joined(by_torch(*fixed), rows_in_torch(*fixed), torch.cat),
            "jax.jit": jacobian_in_jax,
            "numba": lambda: in_numba(rows),
        },
    )


def measured(model: Model, kind: str, runs: Mapping[str, Run]) -> dict[str, Timing]:
    """Times by contender, whose results are those of numba."""
    wanted = [np.asarray(a) for a in runs["numba"]()]
    for who, run in runs.items():
        for found, expected in zip(run(), wanted, strict=True):
            scale = np.abs(expected).max()
            np.testing.assert_allclose(
                np.asarray(found), expected, TOLERANCE, TOLERANCE * scale, err_msg=who
            )
    contenders = {who: Contender(run) for who, run in runs.items()}
    timings, behind = timed_within(contenders, SECONDS_PER_ROW, time.process_time, OURS)
    for who, us in behind.items():
        print(f"  {who} {us / 1e3:.3g} ms, far behind")
    others = [who for who in timings if who not in (OURS, OURS_BY_AUTOGRAD)]
    best = min(others, key=lambda who: timings[who].median)
    ratio = timings[OURS].median / timings[best].median
    title = f"{model.name}, {kind}"
    show(title, timings, OURS, [Goal(f"{title}: ours / best ({best})", ratio, "times", GOAL)])
    return timings


def main() -> None:
    # XLA reads it when the first array is made.
    os.environ["NPROC"] = "1"
    jax.config.update("jax_enable_x64", True)
    torch.set_num_threads(1)
    kc.set_num_threads(1)
    makers = {
        "mixture": mixture,
        "bundle adjustment": bundle_adjustment,
        **{f"LSTM {steps}": lambda steps=steps: lstm(steps) for steps in STEPS},
    }
    for name, make in makers.items():
        if not all(word in name for word in sys.argv[1:]):
            continue
        model = make()
        objective = measured(model, "objective", model.objective)
        derivatives = measured(model, "with derivatives", model.derivatives)
        for who in objective.keys() & derivatives.keys():
            ratio = derivatives[who].median / objective[who].median
            title = f"{model.name}: {who}, with derivatives / objective"
            print(f"  {Goal(title, ratio, 'times', DERIVATIVE_GOAL)}")


if __name__ == "__main__":
    main()
