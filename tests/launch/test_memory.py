"""launch on memory that is large, shared, too small, lazily negated, or watched by autograd."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch

import kernelcore as kc
from torch_ext import torch_op

F32 = kc.array(dtype=float)
COUNT = 200_000


def test_reused_large_memory_is_zero_and_aligned() -> None:
    for _ in range(3):
        made = kc.zeros(3 << 20, dtype=kc.float32)
        assert made.ptr % 64 == 0
        assert not made.numpy().any()
        made.fill_(1.0)
        assert made.numpy().all()
        del made


@kc.kernel
def accumulate(x: F32, y: F32):
    i = kc.tid()
    y[i] += x[i]


@kc.kernel
def accumulate_both_ways(x: F32, y: F32, w: F32):
    i = kc.tid()
    y[i] += x[i]
    w[x.shape[0] - 1 - i] += x[i]


@kc.kernel
def square(x: F32, y: F32):
    i = kc.tid()
    y[i] = x[i] * x[i]


@kc.kernel
def guarded(x: F32, y: F32):
    i = kc.tid()
    if i < x.shape[0]:
        y[i] = x[i]


def test_accumulation_into_one_element_by_all_threads_is_complete() -> None:
    y = np.zeros(1, np.float32)
    everywhere = np.lib.stride_tricks.as_strided(y, (COUNT,), (0,))
    kc.launch(accumulate, COUNT, [np.ones(COUNT, np.float32)], [everywhere])
    assert y[0] == COUNT


@kc.kernel
def shifted_by_the_sign_of_zero(x: F32, s: float, y: F32):
    i = kc.tid()
    if x[i] > 0.0:
        y[i + kc.int32(kc.clamp(s / 0.0, 0.0, 1.0))] += 1.0
    else:
        y[i + kc.int32(kc.clamp(s / -0.0, 0.0, 1.0))] += 1.0


def test_indices_that_differ_by_the_sign_of_a_literal_are_not_taken_for_equal() -> None:
    x = np.where(np.arange(COUNT) % 2, -1.0, 1.0).astype(np.float32)
    y = np.zeros(COUNT + 1, np.float32)
    kc.launch(shifted_by_the_sign_of_zero, COUNT, [x, 1.0], [y])
    want = np.zeros(COUNT + 1, np.float32)
    np.add.at(want, np.arange(COUNT) + (x > 0.0), 1.0)
    np.testing.assert_array_equal(y, want)


def test_accumulation_into_the_same_array_twice_is_complete() -> None:
    for _ in range(10):
        y = np.zeros(COUNT, np.float32)
        kc.launch(accumulate_both_ways, COUNT, [np.ones(COUNT, np.float32)], [y, y])
        np.testing.assert_array_equal(y, 2.0)


def shared(case: str) -> list[Any]:
    """Arguments of an adjoint launch of ``square``: inputs, outputs and their cotangents."""
    x, y, g, ct = (np.ones(8, np.float32) for _ in range(4))
    expanded = torch.zeros(1).expand(8)
    return {
        "overwritten_input": [[x], [x], [g], [ct]],
        "cotangent_is_the_input": [[x], [y], [x], [ct]],
        "cotangents_of_both": [[x], [y], [g], [g]],
        "expanded_cotangent": [[x], [y], [expanded], [ct]],
    }[case]


@pytest.mark.parametrize(
    "case",
    ["overwritten_input", "cotangent_is_the_input", "cotangents_of_both", "expanded_cotangent"],
)
def test_adjoints_over_shared_memory_are_refused(case: str) -> None:
    inputs, outputs, adj_inputs, adj_outputs = shared(case)
    with pytest.raises(kc.KernelArgumentError, match="share memory"):
        kc.launch(square, 8, inputs, outputs, adj_inputs, adj_outputs, adjoint=True)


def test_arrays_that_the_grid_leaves_are_refused() -> None:
    x, y = np.ones(8, np.float32), np.ones(7, np.float32)
    with pytest.raises(kc.KernelArgumentError, match="'y': expected at least 8 elements on axis 0"):
        kc.launch(square, 8, [x], [y])
    with pytest.raises(kc.KernelArgumentError, match="'x': expected at least 9 elements on axis 0"):
        kc.launch(square, 9, [x], [np.ones(9, np.float32)])
    kc.launch(square, 7, [x], [y])
    kc.launch(guarded, 20, [x], [np.ones(8, np.float32)])


def test_operators_refuse_outputs_that_the_grid_leaves() -> None:
    op = torch_op(square, output_dims=2)
    with pytest.raises(kc.KernelArgumentError, match="'y': expected at least 4 elements on axis 0"):
        op(torch.ones(4))


@pytest.mark.parametrize("size", [1, 4])
def test_negated_views_keep_their_sign_or_are_refused(size: int) -> None:
    x = torch.arange(1.0, size + 1)
    negated = torch._neg_view(x)  # pyright: ignore[reportPrivateImportUsage]
    y = torch.zeros(size)
    with pytest.raises(kc.KernelArgumentError, match="resolve_neg"):
        kc.launch(accumulate, size, [negated], [y])
    cubed = torch_op(square)(negated.requires_grad_())
    (gradient,) = torch.autograd.grad(cubed.sum(), negated)
    torch.testing.assert_close(gradient, -2.0 * x)


def test_arrays_of_ctypes_are_read() -> None:
    y = np.zeros(4, np.float32)
    kc.launch(square, 4, [(ctypes.c_float * 4)(0.0, 1.0, 2.0, 3.0)], [y])
    np.testing.assert_array_equal(y, [0.0, 1.0, 4.0, 9.0])


def test_autograd_notices_that_a_saved_tensor_was_written() -> None:
    w = torch.ones(4, requires_grad=True)
    y = w.exp()
    total = y.sum()
    kc.launch(accumulate, 4, [np.ones(4, np.float32)], [y.detach()])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


@kc.kernel
def fill(a: float, y: F32):
    i = kc.tid()
    y[i] = a


@kc.kernel
def fill_with_integer(a: int, y: F32):
    i = kc.tid()
    y[i] = float(a)


NO_NUMBERS = (
    np.complex128(1 + 2j),
    np.complex64(1 + 2j),
    np.clongdouble(1),
    np.ma.masked,
    np.ma.array(2, mask=True),
    np.array("2"),
    np.timedelta64(3, "s"),
)


@pytest.mark.parametrize("number", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("kernel", [fill, fill_with_integer])
def test_what_numpy_converts_by_changing_it_is_no_number(kernel: kc.Kernel, number: Any) -> None:
    with pytest.raises(kc.KernelArgumentError, match=r"argument 'a': expected an? .* value"):
        kc.launch(kernel, 1, [number], [np.zeros(1, np.float32)])


@pytest.mark.parametrize("number", [np.float32(2), np.array(2.0), np.array(2, object)], ids=repr)
def test_numbers_of_numpy_are_numbers(number: Any) -> None:
    kc.launch(fill, 1, [number], [y := np.zeros(1, np.float32)])
    assert y[0] == 2.0
