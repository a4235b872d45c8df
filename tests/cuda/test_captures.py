"""Arrays and launches while another library captures a graph, as torch.cuda.graph does."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.cuda import fake
from tests.cuda.fake import FakeDriver

VALUES = np.arange(8, dtype=np.float32)


@kc.kernel
def scale(x: kc.array(dtype=float), s: float):
    i = kc.tid()
    x[i] = s * x[i]


@kc.kernel
def move(x: kc.array(dtype=kc.vec3), by: kc.vec3):
    i = kc.tid()
    x[i] = x[i] + by


@kc.kernel
def refuses(x: kc.array(dtype=float)):
    assert x[kc.tid()] >= 0.0


@pytest.fixture
def stream(driver: FakeDriver) -> kc.Stream:
    return kc.Stream("cuda:0")


class Foreign:
    """An array of another library, which works in ``stream``."""

    def __init__(self, array: kc.Array, stream: kc.Stream) -> None:
        face = array.__cuda_array_interface__
        self.__cuda_array_interface__ = {**face, "stream": stream.cuda_stream}


def test_launches_are_captured_in_the_stream_of_others(
    driver: FakeDriver, stream: kc.Stream
) -> None:
    x = kc.array(VALUES, device="cuda:0")
    with driver.capturing(stream) as graph:
        kc.launch(scale, 8, [x, 2.0], stream=stream)
        with kc.ScopedStream(stream):
            kc.launch(scale, 8, [Foreign(x, stream), 3.0])
    assert x.list() == VALUES.tolist()
    for factor in (6.0, 36.0):
        graph.launch()
        assert x.list() == (factor * VALUES).tolist()


def test_a_graph_keeps_the_arrays_that_it_uses(driver: FakeDriver, stream: kc.Stream) -> None:
    x, y = kc.array(VALUES, device="cuda:0"), kc.zeros(8, device="cuda:0")
    driver.clear()
    with driver.capturing(stream) as graph:
        kc.launch(scale, 8, [x, 2.0], stream=stream)
        with kc.ScopedStream(stream):
            kc.copy(y, x)
        del x
        gc.collect()
    kc.zeros(1, device="cuda:0")
    kc.synchronize()
    assert driver.calls("cuMemFreeAsync") == ["cuMemFreeAsync stream1"]
    graph.launch()
    assert y.list() == (2.0 * VALUES).tolist()
    driver.clear()
    # Nothing is freed by who destroys the graph, who may not call the driver.
    graph.destroy()
    assert driver.calls("cuMemFreeAsync") == []
    kc.zeros(1, device="cuda:0")
    assert driver.calls("cuMemFreeAsync")[0] == "cuMemFreeAsync stream1"


def test_memory_released_during_a_capture_is_freed_after_it(
    driver: FakeDriver, stream: kc.Stream
) -> None:
    before = driver.live_bytes()
    used, exported = kc.array(VALUES, device="cuda:0"), kc.zeros(8, device="cuda:0")
    with kc.ScopedStream(stream):
        own = kc.zeros(8, device="cuda:0")
    kc.launch(scale, 8, [used, 2.0], stream=stream)
    host = kc.zeros(8, pinned=True)
    kc.copy(used, host)
    capsule = exported.__dlpack__(stream=1)
    driver.clear()
    with driver.capturing(stream):
        del used, exported, own, host, capsule
        kc.zeros(1).__dlpack__()
        gc.collect()
    freeing = "cuMemFreeAsync", "cuMemFreeHost", "cuCtxSynchronize"
    assert driver.calls(*freeing) == ["cuMemFreeHost"]
    kc.empty(1, device="cuda:0")
    assert len(driver.calls("cuMemFreeAsync")) == 3
    kc.synchronize()
    assert len(driver.calls("cuMemFreeAsync")) == 4
    assert driver.live_bytes() == before


def test_allocations_that_wait_for_the_device_end_no_capture(
    driver: FakeDriver, stream: kc.Stream
) -> None:
    with driver.capturing(stream):
        driver.fail("cuMemAllocFromPoolAsync", fake.OUT_OF_MEMORY)
        exported = kc.empty(1 << 27, device="cuda:0")
        exported.__dlpack__(stream=1)
        kc.zeros(1).__dlpack__()
        del exported
        driver.clear()
        x = kc.zeros(1, device="cuda:0")
        assert driver.calls("cuMemFreeAsync") == ["cuMemFreeAsync stream1"]
    assert x.list() == [0.0]


def test_a_kernel_that_failed_is_told_of_beside_captures(
    driver: FakeDriver, stream: kc.Stream
) -> None:
    x = kc.full(1, -1.0, device="cuda:0")
    with driver.capturing(stream):
        kc.launch(refuses, 1, [x])
        with pytest.raises(kc.KernelAssertionError):
            x.numpy()


def refused(does: Any, stream: kc.Stream) -> None:
    with kc.ScopedStream(stream), pytest.raises(kc.KernelDeviceError, match="captures a graph"):
        does()


def test_a_refused_operation_does_not_end_a_capture(driver: FakeDriver, stream: kc.Stream) -> None:
    x, host = kc.array(VALUES, device="cuda:0"), np.arange(8, dtype=np.float32)
    with driver.capturing(stream) as graph:
        for does in (
            x.numpy,
            lambda: x[1],
            lambda: x.assign(host),
            lambda: kc.copy(kc.zeros(8, device="cpu"), x),
            lambda: kc.zeros(8, device="cuda:0"),
            lambda: kc.synchronize_stream(stream),
        ):
            refused(does, stream)
        with pytest.raises(kc.KernelDeviceError, match="has no elements yet"):
            kc.launch(scale, 8, [Foreign(x, stream), 2.0])
        assert not stream.is_complete
        kc.launch(scale, 8, [x, 2.0], stream=stream)
    graph.launch()
    assert x.list() == (2.0 * VALUES).tolist()


def test_captured_operations(driver: FakeDriver, stream: kc.Stream) -> None:
    x, y = kc.zeros(8, device="cuda:0"), kc.ones(8, dtype=kc.float64, device="cuda:0")
    points, host = kc.zeros(2, dtype=kc.vec3, device="cuda:0"), kc.full(8, 7.0, pinned=True)
    other = kc.Stream("cuda:0")
    kc.launch(scale, 8, [x, 2.0], stream=other)
    with driver.capturing(stream) as graph, kc.ScopedStream(stream):
        x.assign(host)
        y.fill_(0.25)
        kc.launch(move, 2, [points, kc.vec3(1.0, 2.0, 3.0)])
        with kc.ScopedCapture() as capture:
            kc.launch(scale, 8, [x, 2.0])
        kc.capture_launch(capture.graph)
    assert (x.list(), y.list(), points.numpy().any()) == ([0.0] * 8, [1.0] * 8, False)
    for factor in (1.0, 2.0):
        graph.launch()
        assert (x.list(), y.list()) == ([14.0] * 8, [0.25] * 8)
        assert points.numpy().tolist() == [[factor, 2 * factor, 3 * factor]] * 2


def test_arrays_of_a_capture_can_be_used_elsewhere(driver: FakeDriver, stream: kc.Stream) -> None:
    x = kc.array(VALUES, device="cuda:0")
    with driver.capturing(stream) as graph:
        kc.launch(scale, 8, [x, 2.0], stream=stream)
        # What is captured runs later, so nothing has to wait for it.
        assert x.list() == VALUES.tolist()
        x.zero_()
    graph.launch()
    assert x.list() == [0.0] * 8


def test_streams_that_follow_become_part_of_the_graph(
    driver: FakeDriver, stream: kc.Stream
) -> None:
    x, other = kc.array(VALUES, device="cuda:0"), kc.Stream("cuda:0")
    with driver.capturing(stream) as graph:
        with kc.ScopedStream(stream, sync_exit=True), kc.ScopedStream(other, sync_exit=True):
            kc.launch(scale, 8, [x, 2.0])
        assert x.list() == VALUES.tolist()
    graph.launch()
    assert x.list() == (2.0 * VALUES).tolist()


def test_an_error_that_ended_a_capture_is_told(driver: FakeDriver, stream: kc.Stream) -> None:
    x = kc.array(VALUES, device="cuda:0")
    with pytest.raises(AssertionError), driver.capturing(stream):  # noqa: PT012
        with pytest.raises(kc.KernelDeviceError, match="a graph is being captured"):
            kc.synchronize()
        with pytest.raises(kc.KernelDeviceError, match="an earlier error has ended that"):
            kc.launch(scale, 8, [x, 2.0], stream=stream)
