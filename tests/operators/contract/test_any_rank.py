"""Operators and launches of arrays of any rank, which kernels see as one dimension."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportGeneralTypeIssues=false, reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import kernelcore as kc
from tests.operators.contract.cases import AnyRank, cubed, product, swish
from tests.operators.contract.libraries import LIBRARIES, converted


@pytest.mark.parametrize("library", LIBRARIES)
def test_arrays_of_any_rank_have_one_shape(library: str) -> None:
    x = converted(library, np.ones((2, 3), np.float32))
    y = converted(library, np.ones((3, 2), np.float32))
    with pytest.raises(kc.KernelError, match=r"'y': expected the shape of 'x', \(2, 3\), found"):
        product(x, y)


@kc.kernel
def blended(x: AnyRank, state: AnyRank, y: AnyRank):
    i = kc.tid()
    state[i] = 2.0 * state[i] + 3.0 * x[i]
    y[i] = 2.0 * x[i]


@kc.kernel
def any_blended(
    x: kc.array(dtype=Any, ndim=...),
    state: kc.array(dtype=Any, ndim=...),
    y: kc.array(dtype=Any, ndim=...),
):
    i = kc.tid()
    state[i] = state[i] + state[i] + x[i] + x[i] + x[i]
    y[i] = x[i] + x[i]


SHARED: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda a: a,
    "torch": torch.from_numpy,
    "kernelcore": lambda a: kc.array(a, copy=False),
}
STRIDED: dict[str, Callable[[], np.ndarray]] = {
    "contiguous": lambda: np.ones((3, 4), np.float32),
    "transposed": lambda: np.ones((4, 3), np.float32).T,
    "with gaps": lambda: np.ones((3, 8), np.float32)[:, ::2],
    "without dimensions": lambda: np.ones((), np.float32),
    "one dimension": lambda: np.ones(10, np.float32)[::2],
    "empty": lambda: np.ones((0, 3), np.float32),
}


@pytest.mark.parametrize("kernel", [blended, any_blended], ids=lambda k: k.name)
@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED.keys())
@pytest.mark.parametrize("library", SHARED)
def test_arrays_of_any_rank_and_stride_are_updated(
    library: str, make: Callable[[], np.ndarray], kernel: kc.Kernel
) -> None:
    operator = kc.op(kernel, outputs="y", mutates="state")
    state = make()
    x = np.arange(state.size, dtype=np.float32).reshape(state.shape)
    found = operator(SHARED[library](x), state=SHARED[library](state))
    assert np.array_equal(found if library == "numpy" else found.numpy(), 2 * x)
    assert np.array_equal(state, 2 + 3 * x)


def test_a_read_only_array_of_any_rank_is_not_updated() -> None:
    operator = kc.op(blended, mutates="state")
    state = np.broadcast_to(np.ones(4, np.float32), (3, 4))
    with pytest.raises(kc.KernelError, match=r"'state': .*read-only"):
        operator(np.ones((3, 4), np.float32), state)


def test_updates_of_any_rank_are_recorded() -> None:
    x = kc.array(np.ones((3, 4), np.float32), requires_grad=True)
    state = kc.array(np.ones((4, 3), np.float32), requires_grad=True)
    with kc.Tape() as tape:
        kc.op(blended, mutates="state")(x, state.transpose())
    tape.backward(grads={state: kc.ones((4, 3))})
    assert x.grad.numpy().tolist() == [[3.0] * 4] * 3


def test_launches_take_arrays_of_any_rank() -> None:
    x, y = np.random.default_rng(0).random((2, 3, 4), np.float32), np.zeros((2, 3, 4), np.float32)
    kc.launch(swish.kernel, x.size, [x, 1.0, y])
    assert np.array_equal(y, swish(x, 1.0))
    given = torch.from_numpy(x).clone()
    made = torch.zeros_like(given)
    kc.launch(swish.kernel, x.size, [given, 1.0, made])
    assert np.array_equal(made.numpy(), y)
    with pytest.raises(kc.KernelError, match="expected a contiguous array"):
        kc.launch(swish.kernel, x.size, [x, 1.0, y.T])


def test_launches_over_any_rank_are_differentiated() -> None:
    x = kc.array(np.ones((2, 3), np.float32), dtype=float, requires_grad=True)
    y = kc.zeros((2, 3), dtype=float, requires_grad=True)
    with kc.Tape() as tape:
        kc.launch(cubed.kernel, 6, [x, y])
    tape.backward(grads={y: kc.array(np.full((2, 3), 2.0, np.float32), dtype=float)})
    assert x.grad.numpy().tolist() == [[6.0] * 3] * 2


def test_a_parameter_of_any_rank_has_one_index() -> None:
    @kc.op
    @kc.kernel
    def wrong(x: AnyRank, y: AnyRank):
        i, j = kc.tid()
        y[i, j] = x[i, j]  # pyright: ignore[reportCallIssue, reportArgumentType]

    with pytest.raises(kc.KernelError, match=r"1 dimension|index"):
        wrong(np.ones((2, 2), np.float32))
