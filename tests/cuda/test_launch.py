"""Launches on devices: what the driver is asked to do, and what comes out."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.compiler import ptx_code
from tests.cuda import fake
from tests.cuda.fake import FakeDriver


@kc.kernel
def saxpy(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = y[i] + a * x[i]


@kc.kernel
def sums(x: kc.array(dtype=float), total: kc.array(dtype=float)):
    i = kc.tid()
    kc.atomic_add(total, 0, x[i])
    x[i] = 0.0


@kc.kernel
def moved(offset: kc.vec3, points: kc.array(dtype=kc.vec3)):
    i = kc.tid()
    points[i] = points[i] + offset


@kc.kernel
def checked(x: kc.array(dtype=float)):
    i = kc.tid()
    assert x[i] >= 0.0, "a negative number"


@kc.kernel
def nothing(n: int):
    kc.tid()


def numbers(count: int, device: str = "cuda:0") -> kc.Array:
    return kc.array(np.arange(count, dtype=np.float32), device=device)


def test_arrays_say_where_a_launch_runs(driver: FakeDriver) -> None:
    x, y = numbers(300), kc.zeros(300, device="cuda:0")
    assert (x.device, y.device) == ("cuda:0", "cuda:0")
    driver.clear()
    kc.launch(saxpy, 300, [x, 2.0], [y])
    kc.launch(saxpy, 300, [x, 2.0], [y])
    first, second = driver.calls("cuLaunchKernel")
    assert first == second
    assert first.split()[2:] == ["2", "256", "stream1", "300x1x1x1x1x1x1x1", "0", "300"]
    assert y.numpy().tolist() == [4.0 * i for i in range(300)]
    host = np.zeros(300, np.float32)
    kc.launch(saxpy, 300, [host, 2.0], [host])
    assert len(driver.calls("cuLaunchKernel")) == 2


def test_the_argument_block_has_the_layout_of_the_code(driver: FakeDriver) -> None:
    x, y = numbers(8)[::2], kc.zeros(4, device="cuda:0")
    kc.launch(saxpy, 4, [x, 0.5], [y])
    expected = struct.pack("<Qqqf4xQqq", x.ptr, 4, 8, 0.5, y.ptr, 4, 4)
    assert driver.last_block() == expected
    assert y.list() == [0.0, 1.0, 2.0, 3.0]


def test_modules_are_loaded_once_per_context(driver: FakeDriver) -> None:
    for device in ("cuda:0", "cuda:1", "cuda:0"):
        x = numbers(4, device)
        kc.launch(saxpy, 4, [x, 1.0], [x])
        assert x.numpy().tolist() == [0.0, 2.0, 4.0, 6.0]
    loads = driver.calls("cuModuleLoadDataEx")
    assert [line.split()[1] for line in loads] == ["0", "1"]
    assert len(driver.calls("cuDevicePrimaryCtxRetain")) == 2
    pushes = driver.calls("cuCtxPushCurrent", "cuCtxPopCurrent")
    assert len(pushes) % 2 == 0


def test_threads_take_several_points_of_grids_that_fill_the_device(driver: FakeDriver) -> None:
    """The fake device holds 8,192 threads; eight times as many fill it well enough."""
    full = 8 * 8192 * 4
    x = numbers(full + 1)
    for points in (full - 1024, full, full + 1):
        kc.launch(saxpy, points, [x, 1.0], [x])
    blocks = [line.split()[2] for line in driver.calls("cuLaunchKernel")]
    assert blocks == [str((full - 1024) // 256), str(full // 1024), str(full // 1024 + 1)]


def test_geometry(driver: FakeDriver) -> None:
    x = numbers(1000)
    kc.launch(saxpy, 1000, [x, 1.0], [x], block_dim=64)
    kc.launch(saxpy, 1000, [x, 1.0], [x], max_blocks=2)
    kc.config.block_dim = 128
    try:
        kc.launch(saxpy, 1000, [x, 1.0], [x])
    finally:
        kc.config.block_dim = 0
    sizes = [line.split()[2:4] for line in driver.calls("cuLaunchKernel")]
    assert sizes == [["16", "64"], ["2", "256"], ["8", "128"]]
    assert x.numpy()[5] == 40.0
    with pytest.raises(kc.KernelArgumentError, match="block_dim: expected 1 to 1024 threads"):
        kc.launch(saxpy, 1000, [x, 1.0], [x], block_dim=2048)
    wrong: list[Any] = [-1, 2.5, "2", True]
    for count in wrong:
        with pytest.raises(kc.KernelArgumentError, match="max_blocks: expected an integer of at"):
            kc.launch(saxpy, 1000, [x, 1.0], [x], max_blocks=count)
    driver.clear()
    kc.launch(saxpy, 0, [x, 1.0], [x])
    assert driver.calls("cuLaunchKernel") == []


def test_arrays_that_share_memory_are_taken_by_one_thread(driver: FakeDriver) -> None:
    x = numbers(10)
    kc.launch(sums, 9, [x[1:]], [x])
    (line,) = driver.calls("cuLaunchKernel")
    assert line.split()[2:4] == ["1", "1"]
    assert x.numpy()[0] == 45.0


def test_values_of_several_components_go_to_the_device(driver: FakeDriver) -> None:
    points = kc.zeros(3, dtype=kc.vec3, device="cuda:1")
    kc.launch(moved, 3, [kc.vec3(1.0, 2.0, 3.0)], [points])
    assert points.numpy().tolist() == [[1.0, 2.0, 3.0]] * 3
    factor = kc.array(3.0, dtype=float, device="cuda:0")
    x = numbers(3)
    kc.launch(saxpy, 3, [x, factor], [x])
    assert x.list() == [0.0, 4.0, 8.0]


def test_kernels_without_arrays_run_on_the_device_in_use(driver: FakeDriver) -> None:
    with kc.ScopedDevice("cuda:1"):
        kc.launch(nothing, 4, [1])
        assert kc.get_device("cuda") == "cuda:1"
    kc.launch(nothing, 4, [1])
    assert len(driver.calls("cuLaunchKernel")) == 1


def test_streams(driver: FakeDriver) -> None:
    stream, x = kc.Stream("cuda:0"), numbers(4)
    kc.synchronize_stream(stream)
    driver.clear()
    kc.launch(saxpy, 4, [x, 1.0], [x], stream=stream)
    with kc.ScopedStream(stream):
        kc.launch(saxpy, 4, [x, 1.0], [x])
    first, second = (line.split()[4] for line in driver.calls("cuLaunchKernel"))
    assert first == second != "stream1"
    with pytest.raises(kc.KernelArgumentError, match="found one of cuda:0"):
        kc.launch(saxpy, 4, [x, 1.0], [x], device="cuda:1", stream=stream)
    with pytest.raises(kc.KernelArgumentError, match=r"expected a kc.Stream, found int"):
        kc.launch(saxpy, 4, [x, 1.0], [x], stream=7)


def test_arrays_elsewhere_are_refused(driver: FakeDriver) -> None:
    x, y, host = numbers(4), numbers(4, "cuda:1"), np.zeros(4, np.float32)
    driver.clear()
    for arguments, found in (([x, y], "cuda:1"), ([x, host], "the CPU")):
        with pytest.raises(kc.KernelPlacementError, match=f"found memory of .*{found}"):
            kc.launch(saxpy, 4, [arguments[0], 1.0, arguments[1]])
    with pytest.raises(kc.KernelPlacementError, match="in CPU memory, found memory of device cuda"):
        kc.launch(saxpy, 4, [x, 1.0, x], device="cpu")
    with pytest.raises(kc.KernelArgumentError, match="at least 9 elements"):
        kc.launch(saxpy, 9, [x, 1.0, x])
    assert driver.calls("cuLaunchKernel") == []


def test_a_failure_is_raised_by_the_next_wait(driver: FakeDriver) -> None:
    x = kc.array([1.0, -1.0], dtype=float, device="cuda:0")
    kc.launch(checked, 2, [x])
    kc.launch(checked, 1, [x])
    with pytest.raises(kc.KernelAssertionError, match="a negative number"):
        kc.synchronize()
    kc.synchronize()
    kc.config.verify_cuda = True
    try:
        with pytest.raises(kc.KernelAssertionError, match="a negative number"):
            kc.launch(checked, 2, [x])
    finally:
        kc.config.verify_cuda = False


@pytest.mark.usefixtures("driver")
def test_launches_on_a_gpu_follow_check_finite() -> None:
    x, y = kc.array([1.0, 3e38], dtype=float, device="cuda:0"), numbers(2)
    for _ in range(2):
        for _ in range(2):
            kc.launch(saxpy, 2, [x, 2.0, y])
            kc.synchronize()
        with kc.check_finite():
            for _ in range(2):
                kc.launch(saxpy, 2, [x, 2.0, y])
                with pytest.raises(kc.KernelFiniteError, match=r"thread 1 .* inf to y\[1\]"):
                    kc.synchronize()
                kc.synchronize()


def test_errors_of_the_driver_have_a_remedy(driver: FakeDriver) -> None:
    x = numbers(4)
    driver.fail("cuLaunchKernel", fake.ILLEGAL_ADDRESS)
    with pytest.raises(kc.KernelDeviceError, match="an earlier kernel failed"):
        kc.launch(saxpy, 4, [x, 1.0], [x])
    driver.fail("cuMemAllocFromPoolAsync", fake.OUT_OF_MEMORY)
    driver.fail("cuMemPoolTrimTo", 1)
    with pytest.raises(kc.KernelMemoryError, match="cuMemAllocFromPoolAsync: out of memory"):
        kc.zeros(4, device="cuda:0")
    driver.fail("cuModuleLoadDataEx", 218)
    with pytest.raises(kc.KernelDeviceError, match="the driver refuses the code of 'kc_"):
        kc.launch(sums, 4, [x], [kc.zeros(1, device="cuda:0")])


def test_commands_keep_where_they_run(driver: FakeDriver) -> None:
    x, stream = numbers(4), kc.Stream("cuda:0")
    command = kc.launch(*(saxpy, 4, [x, 1.0], [x]), device="cuda:0", block_dim=32, record_cmd=True)
    assert command is not None
    command.launch()
    command.launch(stream)
    found = [line.split()[3:5] for line in driver.calls("cuLaunchKernel")]
    assert [threads for threads, _ in found] == ["32", "32"]
    assert found[0][1] == "stream1"
    assert found[1][1].startswith("own")


def test_repeated_commands_use_the_fast_path(driver: FakeDriver) -> None:
    x, y = numbers(4), numbers(4)
    command = kc.launch(saxpy, 4, [x, 1.0], [x], record_cmd=True)
    assert command is not None
    for _ in range(4):
        command.launch()
    assert x.numpy().tolist() == (16 * np.arange(4.0)).tolist()
    own = kc.Stream("cuda:0")
    with kc.ScopedStream(own):
        command.launch()
    assert driver.calls("cuLaunchKernel")[-1].split()[4].startswith("own")
    # Arrays that lie elsewhere, and captures, do not use it.
    command.set_params([y.to("cpu"), 1.0, y.to("cpu")])
    for _ in range(3):
        command.launch()
    assert command.params is not None
    assert command.params[2].numpy().tolist() == (4 * np.arange(4.0)).tolist()
    before = len(driver.calls("cuLaunchKernel"))
    command.set_params([x, 1.0, x])
    for _ in range(2):
        command.launch()
    with kc.ScopedCapture("cuda:0") as capture:
        command.launch()
    assert len(driver.calls("cuLaunchKernel")) == before + 2
    assert capture.graph is not None


def test_code_of_sums_in_one_order_is_other_code(driver: FakeDriver) -> None:
    x, out = numbers(4), kc.zeros(1, device="cuda:0")
    names: list[str] = []
    for is_fixed in (False, True, False):
        kc.config.deterministic = is_fixed
        try:
            kc.launch(sums, 4, [x], [out])
            kc.launch(saxpy, 4, [x, 1.0], [x])
        finally:
            kc.config.deterministic = False
        names += [line.split()[1] for line in driver.calls("cuLaunchKernel")[-2:]]
    first, plain, fixed, same, again, _ = names
    assert fixed != first == again
    assert plain == same
    with pytest.raises(kc.KernelArgumentError, match=r"config.deterministic: expected a bool"):
        kc.config.deterministic = 1  # pyright: ignore[reportAttributeAccessIssue]


def test_a_launch_on_a_device_makes_no_code_for_the_processor(driver: FakeDriver) -> None:
    @kc.kernel
    def tripled(x: kc.array(dtype=float)):
        i = kc.tid()
        x[i] = 3.0 * x[i]

    kc.launch(tripled, 4, [numbers(4)])
    assert tripled.cpu_fast_path is None
    assert not tripled.executable.is_on_cpu
    assert "signature" not in vars(tripled.executable)
    kc.launch(saxpy, 3, [host := np.ones(3, np.float32), 1.0, host])
    kc.launch(saxpy, 3, [numbers(3), 1.0, numbers(3)])
    assert saxpy.cpu_fast_path is None


def test_launches_like_the_one_before_take_the_short_way(driver: FakeDriver) -> None:
    @kc.kernel
    def added(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
        i = kc.tid()
        kc.atomic_add(y, i, a * x[i])

    x, y, other = numbers(4), numbers(4), numbers(4, "cuda:1")
    kc.launch(added, 4, [x, 1.0], [y])
    assert added.gpu_fast_path is not None
    with kc.ScopedStream(kc.Stream("cuda:0")):
        kc.launch(added, 4, [x, 1.0], [y])
    first, second = (line.split()[4] for line in driver.calls("cuLaunchKernel"))
    assert first == "stream1"
    assert second.startswith("own")
    assert y.list() == [0.0, 3.0, 6.0, 9.0]
    kc.launch(added, 4, [other, 1.0], [other])
    assert other.list() == [0.0, 2.0, 4.0, 6.0]
    host = np.ones(4, np.float32)
    kc.launch(added, 4, [host, 1.0], [host])
    assert host.tolist() == [2.0] * 4
    with pytest.raises(kc.KernelArgumentError, match="at least 9 elements"):
        kc.launch(added, 9, [x, 1.0], [y])
    kc.launch(added, 3, [y[1:], 1.0], [y])
    assert y.list() == [3.0, 9.0, 15.0, 9.0]


def test_profilers_of_devices_see_the_name_and_the_place_of_a_kernel(driver: FakeDriver) -> None:
    def launched(kernel: Any) -> str:
        driver.clear()
        kc.launch(kernel, 4, [numbers(4)], [kc.zeros(4, device="cuda:0")])
        return driver.calls("cuLaunchKernel")[0].split()[1]

    @kc.kernel
    def doubled(x: kc.array(dtype=float), y: kc.array(dtype=float)):
        i = kc.tid()
        y[i] = 2.0 * x[i]

    @kc.kernel
    def same_under_another_name(x: kc.array(dtype=float), y: kc.array(dtype=float)):
        i = kc.tid()
        y[i] = 2.0 * x[i]

    for kernel in (doubled, same_under_another_name):
        assert kernel.loc is not None
        place = f"test_launch_py_{kernel.loc.line}"
        assert re.fullmatch(rf"kc_{kernel.name}_{place}_[0-9a-f]{{8}}", launched(kernel))


def test_code_from_the_disk_has_the_name_of_the_kernel_that_loads_it() -> None:
    image = b".visible .entry kc_0123456789(.param kc_0123456789_param_0)"
    made, name = ptx_code.named("λ (a b.py:7)", "0123456789", image)
    assert name == "kc_a_b_py_7_01234567"
    assert made == b".visible .entry kc_a_b_py_7_01234567(.param kc_a_b_py_7_01234567_param_0)"
