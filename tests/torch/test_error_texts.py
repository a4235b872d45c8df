"""What users of torch_op read when a call cannot be right: golden texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import kernelcore as kc
from kernelcore.base.errors import KernelArgumentError
from torch_ext import torch_callable, torch_op


@kc.kernel
def scale(x: kc.array(dtype=float), factor: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = factor * x[i]


@kc.kernel
def advance(v: kc.array(dtype=float), x: kc.array(dtype=float), energy: kc.array(dtype=float)):
    i = kc.tid()
    x[i] = x[i] + v[i]
    energy[i] = energy[i] + 0.5 * v[i] * v[i]


@kc.kernel
def fill(value: float, y: kc.array(dtype=float)):
    y[kc.tid()] = value


@kc.kernel
def smoothed(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i]
    y[i] = y[i] + y[(i + 1) % y.shape[0]]


def in_place(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    kc.launch(smoothed, x.shape[0], [x], [x])


scaled = torch_op(scale)
advanced = torch_op(advance, mutates=["x", "energy"])
ONES = torch.ones(4)


def fake(device: str) -> torch.Tensor:
    with FakeTensorMode():
        return torch.empty(4, device=device)


def backward() -> None:
    torch_op(smoothed, outputs=["y"])(ONES.clone().requires_grad_()).sum().backward()


def read_only() -> Any:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    return array


def launch(output: Any) -> None:
    kc.launch(scale, 4, [ONES, 2.0], [output])


CASES: dict[str, Callable[[], object]] = {
    "dtype": lambda: scaled(ONES.double(), 2.0),
    "rank": lambda: scaled(ONES.reshape(2, 2), 2.0),
    "layout": lambda: scaled(ONES.to_sparse(), 2.0),
    "nested": lambda: scaled(torch.nested.nested_tensor([ONES, ONES], layout=torch.jagged), 2.0),
    "device": lambda: scaled(fake("xpu"), 2.0),
    "two_devices": lambda: advanced(fake("cuda:0"), fake("cuda:1"), fake("cuda:0")),
    "no_tensor": lambda: scaled([1.0], 2.0),
    "number": lambda: scaled(ONES, "2"),
    "too_small": lambda: advanced(torch.ones(9), ONES.clone(), ONES.clone()),
    "mutated_expanded": lambda: advanced(ONES, torch.zeros(1).expand(4), ONES.clone()),
    "mutated_twice": lambda: advanced(ONES, *[torch.zeros(4)] * 2),
    "mutates_unknown": lambda: torch_op(scale, mutates=["y"]),
    "launch_expanded": lambda: launch(torch.zeros(1).expand(4)),
    "launch_read_only": lambda: launch(read_only()),
    "no_output_rule": lambda: torch_op(fill),
    "unknown_output": lambda: torch_op(scale, outputs=["z"]),
    "unknown_rule": lambda: torch_op(scale, output_dims="z.shape[0]"),
    "callable_array_twice": lambda: torch_callable(in_place, outputs=["y"])(ONES),
    "no_derivative": backward,
}


@pytest.mark.parametrize("name", CASES)
def test_the_text_is(name: str, golden_error: Callable[[str, str], None]) -> None:
    with pytest.raises(kc.KernelError) as caught:
        CASES[name]()
    text = re.sub(r'File ".*/([^"/]+)", line \d+', r'File "\1"', str(caught.value))
    golden_error(name, f"{type(caught.value).__name__}: {text}")


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.float32])
def test_graphs_refuse_tensors_in_the_words_of_eager_calls(dtype: torch.dtype) -> None:
    wrong = torch.ones(2, 2, dtype=dtype)
    with pytest.raises(kc.KernelArgumentError) as eager:
        scaled(wrong, 2.0)
    with FakeTensorMode() as mode, pytest.raises(kc.KernelArgumentError) as traced:
        scaled(mode.from_tensor(wrong), 2.0)
    assert str(traced.value) == str(eager.value)


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
