"""Gradients and batches of one operator are alike in every framework that has them, and nest."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest
import torch

import kernelcore as kc
from tests.helpers.environment import ROOT
from tests.operators.contract.cases import BODIES, Body, Case, floats, momentum
from tests.operators.contract.libraries import LIBRARIES, converted
from tests.operators.contract.runs import (
    BATCHED,
    DIFFERENTIATED,
    as_tuple,
    expected,
    given,
    wide,  # noqa: F401
    wide_args,
)


def test_a_tape_gives_gradients_of_arrays_of_structs() -> None:
    bodies = converted("kernelcore", BODIES, Body)
    bodies.requires_grad = True
    v = kc.array(floats(4, 3), dtype=kc.vec3)
    with kc.Tape() as tape:
        found = momentum(bodies, v)
    weights = floats(4, 3, seed=6)
    tape.backward(grads={found: kc.array(weights, dtype=kc.vec3)})
    slopes = bodies.grad.numpy()
    np.testing.assert_allclose(slopes["position"], BODIES["mass"][:, None] * weights, rtol=1e-6)
    moved = floats(4, 3) + BODIES["position"]
    np.testing.assert_allclose(slopes["mass"], (weights * moved).sum(1), rtol=1e-6)


@pytest.mark.parametrize(("case", "library"), DIFFERENTIATED)
def test_gradients_are_central_differences(case: Case, library: str) -> None:
    args = wide_args(case)
    results = expected(case, args)
    rng = np.random.default_rng(5)
    weights = [rng.uniform(-1, 1, r.shape).astype(np.float32) for r in results]
    gradients = LIBRARIES[library].gradients
    assert gradients is not None
    found = gradients(
        lambda *a: case.op(*a, **case.options), given(case, library), case.wrt, weights
    )
    for k, one in zip(case.wrt, found, strict=True):
        want = np.zeros(args[k].shape)
        for index in np.ndindex(*want.shape):
            moved = []
            for step in (1e-6, -1e-6):
                other = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
                other[k][index] += step
                values = expected(case, other)
                moved.append(sum((w * v).sum() for w, v in zip(weights, values, strict=True)))
            want[index] = (moved[0] - moved[1]) / 2e-6
        np.testing.assert_allclose(LIBRARIES[library].numbers(one), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("case", "library"), BATCHED)
def test_batches_are_calls_in_turn(case: Case, library: str) -> None:
    args = list(case.args)
    for k in case.batched:
        args[k] = np.stack([args[k], args[k] * 0.5, args[k] + 0.25])
    batch = LIBRARIES[library].batch
    assert batch is not None
    whole = [converted(library, a) for a in args]
    found = as_tuple(batch(lambda *a: case.op(*a, **case.options), whole, case.batched))
    for row in range(3):
        one = [
            converted(library, a[row] if k in case.batched else a, case.dtypes.get(k))
            for k, a in enumerate(args)
        ]
        alone = as_tuple(case.op(*one, **case.options))
        for batched, single in zip(found, alone, strict=True):
            numbers = LIBRARIES[library].numbers
            np.testing.assert_allclose(numbers(batched)[row], numbers(single), rtol=1e-6)


@pytest.mark.parametrize(("case", "library"), BATCHED)
def test_batches_of_nothing_have_the_shape_of_results(case: Case, library: str) -> None:
    args = list(case.args)
    for k in case.batched:
        args[k] = np.stack([args[k]])[:0]
    batch = LIBRARIES[library].batch
    assert batch is not None
    whole = [converted(library, a) for a in args]
    found = as_tuple(batch(lambda *a: case.op(*a, **case.options), whole, case.batched))
    alone = as_tuple(case.op(*given(case, library), **case.options))
    assert [tuple(f.shape) for f in found] == [(0, *a.shape) for a in alone]


def _is_both(case: Any) -> bool:
    """Whether an argument is differentiated with respect to, and has a batch."""
    return bool(set(case.batched) & set(case.wrt))


@pytest.mark.filterwarnings(r"ignore:.torch\.jit\.\w+. is deprecated")
@pytest.mark.parametrize(("case", "library"), [p for p in BATCHED if _is_both(p.values[0])])
def test_gradients_and_batches_nest(case: Case, library: str) -> None:
    k = min(set(case.batched) & set(case.wrt))
    transforms: Any = torch.func if library == "torch" else jax
    rows = np.stack([case.args[k], case.args[k] * 0.5, case.args[k] + 0.25])
    x = converted(library, np.asarray(rows, case.args[k].dtype))

    def loss(row: Any) -> Any:
        args = given(case, library)
        args[k] = row
        return sum((f * f).sum() for f in as_tuple(case.op(*args, **case.options)))

    slopes = [transforms.grad(loss)(row) for row in x]
    numbers = LIBRARIES[library].numbers
    wanted = np.stack([numbers(slope) for slope in slopes])
    inside = transforms.vmap(transforms.grad(loss))(x)
    around = transforms.grad(lambda x: transforms.vmap(loss)(x).sum())(x)
    forward = transforms.jvp(loss, (x[0],), (x[1],))[1]
    for found in (inside, around):
        np.testing.assert_allclose(numbers(found), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        numbers(forward), np.vdot(wanted[0], numbers(x[1])), rtol=1e-5, atol=1e-6
    )


# A process of its own, where the first trace imports what kernels need of JAX.
COUNT = """
import jax, jax.numpy as jnp, kernelcore as kc
traces = []

def counted(f):
    def traced(x):
        traces.append(f.__name__)
        return f(x)
    return jax.jit(traced)

@counted
def earlier(x):
    return 2.0 * x

square = kc.op(kc.kernel(source=\"\"\"
def square(x: kc.array[float], y: kc.array[float]):
    i = kc.tid()
    y[i] = x[i] * x[i]
\"\"\"))

@counted
def gradient(x):
    return jax.value_and_grad(lambda x: square(x).sum())(x)

@counted
def mapped(x):
    return jax.vmap(square)(x[None])

x = jnp.ones(3)
earlier(x)
for f in (gradient, mapped, earlier) * 3:
    f(x)
print(*sorted(traces))
"""


def test_the_first_use_of_an_operator_traces_functions_once() -> None:
    command = [sys.executable, "-c", COUNT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["earlier", "gradient", "mapped"], done.stderr
