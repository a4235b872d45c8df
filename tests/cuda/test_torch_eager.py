"""Eager calls of torch operators on CUDA tensors, which native code takes without Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch as real_torch

import kernelcore as kc
from kernelcore import _native
from kernelcore.operators import derive, saving, vjp_of_saved
from kernelcore.operators.shape_rules import kernel_operation
from tests.cuda import fake
from tests.cuda.fake import FakeDriver
from tests.cuda.fake_tensor import FakeTensor, described, entry
from tests.cuda.fake_torch import FakeTorch
from torch_ext import native

VALUES = np.arange(300, dtype=np.float32)


@kc.kernel
def saxpy(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i]


@kc.kernel
def shifted(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = y[i] + x[i]


@kc.kernel
def checked(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    assert x[i] >= 0.0, "a negative number"
    y[i] = x[i]


@kc.kernel
def squares(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] * x[i]


@kc.kernel
def norms(x: kc.array2d(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k] * x[i, k]
    y[i] = kc.sqrt(total)


@pytest.fixture
def torch(driver: FakeDriver, library: Path) -> Iterator[FakeTorch]:
    """The fake torch in the place of the one that is installed."""
    made = FakeTorch(driver, library)
    FakeTensor.use_with(made)
    yield made
    _native.torch_bind(native.LIBRARY)
    native.use_tensors(real_torch.Tensor, real_torch.nn.Parameter)


def never(*args: Any) -> Any:
    raise AssertionError("the call was left to Python")


def test_a_call_is_one_launch_in_the_current_stream(driver: FakeDriver, torch: FakeTorch) -> None:
    op = entry(torch, kernel_operation(saxpy, None), never)
    stream = kc.Stream("cuda:1")
    torch.set_stream(1, stream.cuda_stream)
    x = FakeTensor.of(VALUES, ordinal=1)
    op(x, 2.0)
    driver.clear()
    y = op(x, 3.0)
    calls = [line.split()[0] for line in driver.calls()]
    assert [name for name in calls if "Ctx" not in name] == [
        *("aoti_torch_empty_strided", "cuMemAlloc"),
        *("aoti_torch_get_current_cuda_stream", "cuLaunchKernel"),
    ]
    (launch,) = driver.calls("cuLaunchKernel")
    assert launch.split()[4].startswith("own")
    assert isinstance(y, FakeTensor)
    np.testing.assert_array_equal(y.numpy(VALUES), 3.0 * VALUES)


def test_native_code_leaves_unusual_arguments_to_python(torch: FakeTorch) -> None:
    seen: list[tuple[Any, ...]] = []
    op = entry(
        torch, kernel_operation(shifted, None, in_out=["y"]), lambda *args: seen.append(args)
    )
    near = FakeTensor.of(VALUES, ordinal=None)
    far, other = FakeTensor.of(VALUES), FakeTensor.of(VALUES, ordinal=1)
    gaps = FakeTensor.of(VALUES, step=2)
    for args in ((near, far), (far, near), (far, other), (far, gaps)):
        op(*args)
        assert seen.pop() == args
    for args in ((far, far), (gaps, far)):
        np.testing.assert_array_equal(op(*args).numpy(VALUES), 2.0 * VALUES)
    np.testing.assert_array_equal(op(near, near).numpy(VALUES), 2.0 * VALUES)
    with pytest.raises(kc.KernelArgumentError, match="'x': expected array of float32"):
        op(FakeTensor.of([1, 2], np.int32), far)
    assert seen == []


def test_failures_are_raised_by_the_next_call(driver: FakeDriver, torch: FakeTorch) -> None:
    op = entry(torch, kernel_operation(checked, None), never)
    op(FakeTensor.of([1.0, -1.0]))
    with pytest.raises(kc.KernelAssertionError, match="a negative number"):
        op(FakeTensor.of([1.0]))
    before = driver.live_bytes()
    driver.fail("cuLaunchKernel", fake.OUT_OF_MEMORY)
    with pytest.raises(kc.KernelMemoryError, match="cuLaunchKernel: out of memory"):
        op(FakeTensor.of([1.0]))
    driver.fail("aoti_torch_empty_strided", fake.OUT_OF_MEMORY, after=1)
    with pytest.raises(MemoryError):
        op(FakeTensor.of([1.0]))
    assert driver.live_bytes() == before


class Node:
    """What torch's engine has of a call of an autograd function."""


def test_forward_and_backward_run_on_the_device(driver: FakeDriver, torch: FakeTorch) -> None:
    operation = kernel_operation(squares, None)
    derived = derive.vjp(operation, (0,), (0,))
    adjoint = native.TorchAdjoint(described(torch, derived.operation), derived.produced, [])
    plan = native.TorchGradPlan("all", [0], [], None, lambda given: adjoint, never, never)
    forward = native.forward(described(torch, operation), "squares", lambda needed: plan)
    node, x = Node(), FakeTensor.of(VALUES)
    node.needs_input_grad = (True,)  # pyright: ignore[reportAttributeAccessIssue]
    y = forward(node, x)
    np.testing.assert_array_equal(y.numpy(VALUES), VALUES**2)
    node.saved_tensors = (x,)  # pyright: ignore[reportAttributeAccessIssue]
    backward: Any = native.backward(Node)
    torch.set_gradients(False)
    (found,) = backward.__get__(node)(FakeTensor.of(np.ones(300)))
    torch.set_gradients(True)
    np.testing.assert_array_equal(found.numpy(VALUES), 2.0 * VALUES)
    assert len(driver.calls("cuLaunchKernel")) == 2
    wants_grad = entry(torch, operation, never, lambda *args: SimpleNamespace(args=args))
    assert wants_grad(FakeTensor(torch.tensor(VALUES), requires_grad=True)).args


def test_saved_results_of_loops_are_on_the_device(torch: FakeTorch) -> None:
    operation = kernel_operation(
        norms, ["y"], launch_dims=("x.shape[0]",), output_dims="x.shape[0]"
    )
    recorded = saving(operation, (0,))
    assert recorded is not None
    derived = vjp_of_saved(operation, (0,), (0,))
    adjoint = native.TorchAdjoint(described(torch, derived.operation), derived.produced, [])
    on_gpu = described(torch, recorded)
    plan = native.TorchGradPlan("all", [0], [], on_gpu, lambda given: adjoint, never, never)
    forward = native.forward(described(torch, operation), "norms", lambda needed: plan)
    rows = VALUES.reshape(5, 60) + 1.0
    node, x = Node(), FakeTensor.of(rows)
    node.needs_input_grad = (True,)  # pyright: ignore[reportAttributeAccessIssue]
    y = forward(node, x)
    wanted = np.sqrt((rows * rows).sum(1))
    np.testing.assert_allclose(y.numpy(wanted), wanted, rtol=1e-6)
    kept, root = node.to_save  # pyright: ignore[reportAttributeAccessIssue]
    assert kept is x
    np.testing.assert_allclose(root.numpy(wanted), wanted, rtol=1e-6)
    node.saved_tensors = (kept, root)  # pyright: ignore[reportAttributeAccessIssue]
    backward: Any = native.backward(Node)
    torch.set_gradients(False)
    (found,) = backward.__get__(node)(FakeTensor.of(np.ones(5)))
    torch.set_gradients(True)
    np.testing.assert_allclose(found.numpy(rows), rows / wanted[:, None], rtol=1e-6)
