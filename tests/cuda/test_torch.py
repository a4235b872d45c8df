"""Torch operators on devices: streams, memory and launches, seen by a driver without a device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kernelcore as kc
from kernelcore import _native
from kernelcore.operators import derive
from kernelcore.operators.shape_rules import kernel_operation
from tests.cuda import fake
from tests.cuda.fake import FakeDriver
from tests.cuda.fake_torch import FakeOperator, FakeTorch
from torch_ext import native


@kc.kernel
def saxpy(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i]


@kc.kernel
def summed(x: kc.array2d(dtype=float), total: kc.array(dtype=float)):
    i, j = kc.tid()
    kc.atomic_add(total, i, x[i, j])


@kc.kernel
def shifted(offset: kc.vec3, points: kc.array(dtype=kc.vec3)):
    i = kc.tid()
    points[i] = points[i] + offset


@kc.kernel
def checked(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    assert x[i] >= 0.0, "a negative number"
    y[i] = x[i]


@kc.kernel
def counted(flag: bool, n: kc.int64, h: kc.float16, x: kc.array(dtype=kc.int64)):
    i = kc.tid()
    if flag:
        x[i] = n + kc.int64(h)


@pytest.fixture
def torch(driver: FakeDriver, library: Path) -> Iterator[FakeTorch]:
    """Tensors of the fake driver, in the place of those of the torch that is installed."""
    yield FakeTorch(driver, library)
    _native.torch_bind(native.LIBRARY)


def scaled(torch: FakeTorch, *, tensor_values: bool = False) -> FakeOperator:
    return FakeOperator(torch, kernel_operation(saxpy, None), tensor_values)


def test_a_call_is_one_launch_in_the_current_stream(driver: FakeDriver, torch: FakeTorch) -> None:
    op, values = scaled(torch), np.arange(300, dtype=np.float32)
    stream = kc.Stream("cuda:0")
    torch.set_stream(0, stream.cuda_stream)
    torch.delete(op(torch.tensor(values), 2.0)[0])
    given = torch.tensor(values)
    driver.clear()
    (made,) = op(given, 2.0)
    calls = [line.split()[0] for line in driver.calls()]
    assert [name for name in calls if "Ctx" not in name] == [
        "aoti_torch_get_current_cuda_stream",
        "aoti_torch_empty_strided",
        "cuMemAlloc",
        "cuLaunchKernel",
        "aoti_torch_delete_tensor_object",
        "cuMemFree",
    ]
    (line,) = driver.calls("cuLaunchKernel")
    _, _, blocks, threads, queue, dims, begin, end = line.split()
    assert (blocks, threads, dims, begin, end) == ("2", "256", "300x1x1x1x1x1x1x1", "0", "300")
    assert queue.startswith("own")
    np.testing.assert_array_equal(torch.read(made, values), 2.0 * values)


def test_a_call_runs_where_its_tensors_are(driver: FakeDriver, torch: FakeTorch) -> None:
    op, values = scaled(torch), np.arange(4, dtype=np.float32)
    for ordinal in (0, 1, 0, 1):
        (made,) = op(torch.tensor(values, ordinal=ordinal), 3.0)
        np.testing.assert_array_equal(torch.read(made, values), 3.0 * values)
    assert [line.split()[1] for line in driver.calls("cuModuleLoadDataEx")] == ["0", "1"]
    asked = driver.calls("aoti_torch_get_current_cuda_stream")
    assert [line.split()[1] for line in asked] == ["0", "1", "0", "1"]
    with pytest.raises(RuntimeError, match="'x': expected a tensor on cuda:0, found one elsewhere"):
        scaled(torch, tensor_values=True)(torch.tensor(values, ordinal=None), torch.tensor(1.0))


def test_tensors_of_two_devices_are_refused(torch: FakeTorch) -> None:
    operation = kernel_operation(shifted, None)
    op = FakeOperator(torch, operation)
    points = np.zeros((2, 3), np.float32)
    with pytest.raises(RuntimeError, match="expected a tensor on cuda:0, found one on cuda:1"):
        op(torch.tensor([1, 2, 3]), torch.tensor(points, ordinal=1))


def test_numbers_and_host_values_need_no_memory_of_the_host(
    driver: FakeDriver, torch: FakeTorch
) -> None:
    points = np.arange(6, dtype=np.float32).reshape(2, 3)
    op = FakeOperator(torch, kernel_operation(shifted, None))
    (made,) = op(torch.tensor([1.0, 2.0, 2.0], ordinal=None), torch.tensor(points))
    np.testing.assert_array_equal(
        torch.read(made, points), points + np.array([1, 2, 2], np.float32)
    )
    assert driver.calls("cuMemcpyHtoDAsync", "cuStreamSynchronize", "cuCtxSynchronize") == []
    assert len(driver.calls("cuMemsetD32Async")) == 2
    integers = np.zeros(3, np.int64)
    op = FakeOperator(torch, kernel_operation(counted, None, in_out=["x"]), tensor_values=True)
    given = (
        torch.tensor(True, np.bool_, ordinal=None),
        torch.tensor(1 << 40, np.int64, ordinal=None),
        torch.tensor(2.5, np.float16),
        torch.tensor(integers, np.int64),
    )
    (made,) = op(*given)
    assert torch.read(made, integers).tolist() == [(1 << 40) + 2] * 3


def test_values_on_the_device_are_read_there(driver: FakeDriver, torch: FakeTorch) -> None:
    op, values = scaled(torch, tensor_values=True), np.arange(5, dtype=np.float32)
    for ordinal in (0, None):
        (made,) = op(torch.tensor(values), torch.tensor(1.5, ordinal=ordinal))
        np.testing.assert_array_equal(torch.read(made, values), 1.5 * values)
    assert driver.calls("cuMemcpyDtoHAsync", "cuStreamSynchronize") == []


def test_sums_start_at_zero_and_strides_are_those_of_the_tensor(torch: FakeTorch) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    op = FakeOperator(torch, kernel_operation(summed, None, output_dims="x.shape[0]"))
    for step in (1, 3):
        (made,) = op(torch.tensor(x, step=step))
        np.testing.assert_array_equal(torch.read(made, x.sum(axis=1)), x.sum(axis=1))


def test_updates_are_made_in_a_copy(driver: FakeDriver, torch: FakeTorch) -> None:
    points = np.arange(6, dtype=np.float32).reshape(2, 3)
    op = FakeOperator(torch, kernel_operation(shifted, None))
    for step in (1, 2):
        (made,) = op(torch.tensor([1.0, 1.0, 1.0]), torch.tensor(points, step=step))
        np.testing.assert_array_equal(torch.read(made, points), points + 1.0)
    assert len(driver.calls("cuMemcpyDtoDAsync")) == 1
    assert driver.calls("aoti_torch_copy_") == ["aoti_torch_copy_ 0"]


def test_adjoints_run_too(torch: FakeTorch) -> None:
    operation = kernel_operation(saxpy, None)
    derived = derive.vjp(operation, (0, 1), (0,))
    values = np.arange(300, dtype=np.float32)
    for tensor_values in (False, True):
        op = FakeOperator(torch, derived.operation, tensor_values)
        factor = torch.tensor(2.0) if tensor_values else 2.0
        ct_x, ct_a = op(torch.tensor(values), factor, torch.tensor(np.ones_like(values)))
        np.testing.assert_array_equal(torch.read(ct_x, values), np.full(300, 2.0))
        assert torch.read(ct_a, values.sum(keepdims=True)) == values.sum()


def test_empty_tensors_launch_nothing(driver: FakeDriver, torch: FakeTorch) -> None:
    op = scaled(torch)
    driver.clear()
    (made,) = op(torch.tensor(np.zeros(0, np.float32)), 2.0)
    assert torch.read(made, np.zeros(0, np.float32)).size == 0
    assert driver.calls("cuLaunchKernel", "cuMemsetD8Async") == []


def test_a_capture_holds_calls_and_loads_their_modules(
    driver: FakeDriver, torch: FakeTorch
) -> None:
    op, values = scaled(torch, tensor_values=True), np.arange(4, dtype=np.float32)
    queue = kc.Stream("cuda:0").queue
    graph = _native.CudaGraph(0)
    given = torch.tensor(values), torch.tensor(2.0, ordinal=None)
    made: list[int] = []

    def fill(stream: _native.CudaStream) -> None:
        torch.set_stream(0, stream.handle)
        made.extend(op(*given))

    graph.capture(fill)
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(torch.read(made[0], values), 2.0 * values)
    graph.launch(queue)
    np.testing.assert_array_equal(torch.read(made[0], values), 2.0 * values)


def test_a_failure_is_raised_by_the_next_call(driver: FakeDriver, torch: FakeTorch) -> None:
    op, values = FakeOperator(torch, kernel_operation(checked, None)), np.array([1, -1], np.float32)
    torch.delete(op(torch.tensor(values))[0])
    with pytest.raises(kc.KernelAssertionError, match="a negative number"):
        op.prepare(0)
    torch.delete(op(torch.tensor(values))[0])
    with pytest.raises(RuntimeError, match="a negative number"):
        op(torch.tensor([1.0, 1.0]))
    (made,) = op(torch.tensor([1.0, 1.0]))
    assert torch.read(made, values).tolist() == [1.0, 1.0]
    op(torch.tensor(values))
    graph = _native.CudaGraph(0)

    def fill(stream: _native.CudaStream) -> None:
        torch.set_stream(0, stream.handle)
        op(torch.tensor([1.0, 1.0]))

    graph.capture(fill)
    with pytest.raises(kc.KernelAssertionError):
        kc.synchronize()


def test_a_failure_of_the_driver_frees_everything(driver: FakeDriver, torch: FakeTorch) -> None:
    op, values = scaled(torch), np.ones(3, np.float32)
    torch.delete(op(torch.tensor(values), 1.0)[0])
    before = driver.live_bytes()
    driver.fail("cuLaunchKernel", fake.OUT_OF_MEMORY)
    with pytest.raises(RuntimeError, match="cuLaunchKernel: out of memory"):
        op(torch.tensor(values), 1.0)
    driver.fail("aoti_torch_empty_strided", fake.OUT_OF_MEMORY, after=1)
    with pytest.raises(RuntimeError, match=r"no memory for an array of shape \(3,\)"):
        op(torch.tensor(values), 1.0)
    assert driver.live_bytes() == before
