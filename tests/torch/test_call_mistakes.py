"""Mistakes in calls of torch operators are named with what to do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import kernelcore as kc
from kernelcore.base.errors import KernelArgumentError
from torch_ext import torch_op


@kc.kernel
def plus(x: kc.array(dtype=float), z: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = z[i] + x[i]


@kc.kernel
def halved(x: kc.array(dtype=float), out: kc.array(dtype=float)):
    i = kc.tid()
    out[i] = 0.5 * (out[i] + x[i] * out[i])


def test_a_missing_result_that_is_read_names_outputs() -> None:
    with pytest.raises(KernelArgumentError, match=r"argument .out. is missing(.|\n)*outputs="):
        torch_op(halved)(torch.ones(3))
    assert torch_op(halved, outputs=["out"])(torch.ones(3)).tolist() == [0.0, 0.0, 0.0]


def test_a_misspelt_keyword_is_named() -> None:
    operator: Any = torch_op
    with pytest.raises(KernelArgumentError, match="mean 'outputs'"):
        operator(plus, output=["y"])


@pytest.mark.parametrize("first", ["meta", "cpu"])
def test_meta_and_cpu_tensors_are_refused_together(first: str) -> None:
    second = "cpu" if first == "meta" else "meta"
    with pytest.raises(KernelArgumentError, match="where another argument is"):
        torch_op(plus)(torch.zeros(3, device=first), torch.zeros(3, device=second))
