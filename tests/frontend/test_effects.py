"""Atomics, print and assert as users write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jax.errors import JaxRuntimeError

import kernelcore as kc
from jax_ffi import jax_kernel
from kernelcore.base.errors import KernelAssertionError, KernelGradError
from tests.helpers import interpreter
from torch_ext import torch_op

F64 = kc.array(dtype=kc.float64)
F32 = kc.array(dtype=float)
I32 = kc.array(dtype=int)
COUNT = 50_000


@kc.kernel
def statistics(x: F64, counts: I32, extrema: F64):
    i = kc.tid()
    kc.atomic_add(counts, 0, 1)
    kc.atomic_sub(counts, 1, 2)
    kc.atomic_max(counts, 2, i)
    kc.atomic_or(counts, 3, i)
    kc.atomic_xor(counts, 4, i)
    kc.atomic_min(extrema, 0, x[i])
    kc.atomic_max(extrema, 1, x[i])


@kc.kernel
def first_come(x: F64, taken: I32, slot: I32):
    i = kc.tid()
    if x[i] > 0.0:
        slot[i] = kc.atomic_cas(taken, i, 0, 1) + kc.atomic_exch(taken, i, 5)


@kc.kernel
def checked_root(x: F32, y: F32):
    i = kc.tid()
    assert x[i] >= 0.0, "roots of negative numbers are not real"
    y[i] = kc.sqrt(x[i])


@kc.kernel
def told_square(x: F64, y: F64):
    i = kc.tid()
    square = x[i] * x[i]
    y[i] = square
    print("y[", i, "] =", square)


@kc.kernel
def counted_square(x: F64, counts: I32, y: F64):
    i = kc.tid()
    kc.atomic_add(counts, 0, 1)
    y[i] = x[i] * x[i]


@kc.kernel
def compacted(x: F64, counts: I32, y: F64):
    i = kc.tid()
    if x[i] > 0.0:
        y[kc.atomic_add(counts, 0, 1)] = x[i]


def test_statistics_of_many_threads() -> None:
    x = np.random.default_rng(0).standard_normal(COUNT)
    counts, extrema, every = np.zeros(5, np.int32), np.zeros(2), np.arange(COUNT)
    kc.launch(statistics, COUNT, [x], [counts, extrema])
    bits = [np.bitwise_or.reduce(every), np.bitwise_xor.reduce(every)]
    assert counts.tolist() == [COUNT, -2 * COUNT, COUNT - 1, *bits]
    assert extrema.tolist() == [x.min(), x.max()]


def test_swap_and_exchange_return_the_old_value() -> None:
    x, taken = np.array([1.0, 1.0, -1.0]), np.array([0, 7, 0], np.int32)
    interpreted: list[Any] = [x, taken.copy(), np.zeros(3, np.int32)]
    interpreter.run(first_come.func, interpreted, 3)
    compiled = [x, taken.copy(), np.zeros(3, np.int32)]
    kc.launch(first_come, 3, [x], compiled[1:])
    for found, expected in zip(compiled, interpreted, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert compiled[1].tolist() == [5, 5, 0]
    assert compiled[2].tolist() == [1, 14, 0]


def test_printed_lines(capfd: pytest.CaptureFixture[str]) -> None:
    x, y = np.array([0.5, -3.0]), np.zeros(2)
    kc.launch(told_square, 2, [x], [y])
    compiled = capfd.readouterr().out
    interpreter.run(told_square.func, [x, y], 2)
    assert capfd.readouterr().out == compiled
    assert [line.split("=")[1].strip() for line in compiled.splitlines()] == ["0.25", "9"]
    leaf = torch.tensor(x, requires_grad=True)
    torch_op(told_square)(leaf).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [1.0, -6.0]
    assert capfd.readouterr().out == compiled


def test_assertions_name_their_line_everywhere() -> None:
    x, y = np.array([4.0, -1.0], np.float32), np.zeros(2, np.float32)
    match = rf"(?s)roots of negative numbers.*{Path(__file__).name}.*assert x\[i\] >= 0.0.*\^"
    with pytest.raises(KernelAssertionError, match=match):
        kc.launch(checked_root, 2, [x], [y])
    with pytest.raises(KernelAssertionError, match=match):
        interpreter.run(checked_root.func, [x, y], 2)
    with pytest.raises(KernelAssertionError, match=match):
        torch_op(checked_root)(torch.tensor(x))
    with pytest.raises(JaxRuntimeError, match=match):
        jax_kernel(checked_root)(x)[0].block_until_ready()
    assert torch_op(checked_root)(torch.tensor([4.0])).tolist() == [2.0]


def test_counting_does_not_hinder_a_derivative_but_a_racing_index_does() -> None:
    x, grad = np.array([1.0, -2.0, 3.0]), np.zeros(3)
    args = [x, np.zeros(1, np.int32)]
    kc.launch(counted_square, 3, args, [np.zeros(3)], [grad, None], [np.ones(3)], adjoint=True)
    np.testing.assert_array_equal(grad, 2 * x)
    assert args[1].tolist() == [0]
    with pytest.raises(KernelGradError, match="the old value of an atomic on 'counts' is used"):
        kc.launch(compacted, 3, args, [np.zeros(3)], [grad, None], [np.ones(3)], adjoint=True)
