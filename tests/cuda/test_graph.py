"""Captures on devices: one graph of the driver where a device can run it all, else step by step."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore import _native
from tests.cuda.fake import FakeDriver
from tests.helpers.graph_kernels import add, count_down


def ones(count: int) -> kc.Array:
    return kc.ones(count, device="cuda:0")


def test_a_device_runs_a_whole_captured_graph(driver: FakeDriver) -> None:
    x, y, z = ones(4), kc.zeros(4, device="cuda:0"), kc.zeros(4, device="cuda:0")
    with kc.ScopedCapture(device="cuda:0") as capture:
        y.zero_()
        for _ in range(3):
            kc.launch(add, 4, [x, 2.0], [y])
        z.assign(y)
    assert len(capture.graph) == 5
    driver.clear()
    version = z.version
    for _ in range(2):
        kc.capture_launch(capture.graph)
    assert z.version > version
    assert driver.calls("cuGraphInstantiate") == ["cuGraphInstantiate 5 0"]
    assert driver.calls("cuGraphLaunch") == ["cuGraphLaunch stream1"] * 2
    begun = driver.calls("cuStreamBeginCapture")
    assert [line.split()[2] for line in begun] == ["1"]
    assert driver.calls("cuModuleLoadDataEx") == []
    assert z.list() == [6.0] * 4
    stream = kc.Stream("cuda:0")
    kc.capture_launch(capture.graph, stream=stream)
    assert driver.calls("cuGraphLaunch")[-1].split()[1].startswith("own")


class Exported:
    """An array of another library, which works in a stream."""

    def __init__(self, array: kc.Array, stream: kc.Stream) -> None:
        face = array.__cuda_array_interface__
        self.__cuda_array_interface__ = {**face, "stream": stream.cuda_stream}
        self.shape, self.dtype = face["shape"], np.dtype(face["typestr"])


def test_a_whole_graph_waits_for_the_streams_of_other_libraries(driver: FakeDriver) -> None:
    x, y, stream = ones(4), kc.zeros(4, device="cuda:0"), kc.Stream("cuda:0")
    given = Exported(x, stream)
    with kc.ScopedCapture(device="cuda:0") as capture:
        for _ in range(2):
            kc.launch(add, 4, [given, 2.0], [y])
    for _ in range(2):
        driver.clear()
        kc.capture_launch(capture.graph)
        waits = driver.calls("cuStreamWaitEvent", "cuGraphLaunch")
        assert [line.split()[0] for line in waits] == ["cuStreamWaitEvent", "cuGraphLaunch"]
    assert y.list() == [8.0] * 4


def test_graphs_are_updated_in_place(driver: FakeDriver) -> None:
    x, y = ones(2), kc.zeros(2, device="cuda:0")
    graphs: list[kc.Graph] = []
    for factor in (1.0, 10.0):
        with kc.ScopedCapture() as capture:
            kc.launch(add, 2, [x, factor], [y])
        graphs.append(capture.graph)
    kc.capture_launch(graphs[0])
    driver.clear()
    graphs[0].update(graphs[1])
    kc.capture_launch(graphs[0])
    assert driver.calls("cuGraphExecUpdate", "cuGraphInstantiate") == ["cuGraphExecUpdate"]
    assert y.list() == [11.0, 11.0]
    with pytest.raises(kc.KernelArgumentError, match="expected another graph"):
        graphs[0].update(graphs[0])


def test_branches_are_decided_on_the_device(driver: FakeDriver) -> None:
    x, y = ones(1), kc.zeros(1, device="cuda:0")
    condition = kc.zeros(1, dtype=int, device="cuda:0")

    def launch(factor: float) -> None:
        kc.launch(add, 1, [x, factor], [y])

    with kc.ScopedCapture() as other:
        launch(100.0)
    with kc.ScopedCapture() as capture:
        kc.capture_if(condition, on_true=launch, on_false=other.graph, factor=1.0)
    driver.clear()
    for value, expected in ((0, 100.0), (1, 101.0), (1, 102.0)):
        condition.fill_(value)
        capture.graph.run()
        assert y[0] == expected
    assert driver.calls("cuGraphAddNode") == ["cuGraphAddNode 13 0 1 0"] * 2
    assert driver.calls("kc_set_condition") == ["kc_set_condition 4 0", "kc_set_condition 4 1"]
    assert len(driver.calls("cuGraphLaunch")) == 3
    kc.capture_if(condition, on_true=launch, factor=8.0)
    assert y[0] == 110.0


def test_loops_run_on_the_device(driver: FakeDriver) -> None:
    n, total = kc.array([4], dtype=int, device="cuda:0"), kc.zeros(1, dtype=int, device="cuda:0")

    def body() -> None:
        kc.launch(count_down, 1, [n, total])

    with kc.ScopedCapture() as capture:
        n.fill_(5)
        kc.capture_while(n, body)
    driver.clear()
    for _ in range(2):
        kc.capture_launch(capture.graph)
    assert (n[0], total[0]) == (0, 30)
    assert driver.calls("cuGraphAddNode") == ["cuGraphAddNode 13 1 1 0"]
    total.zero_()
    n.fill_(4)
    kc.capture_while(n, body)
    assert total[0] == 10


def test_graphs_are_parts_of_graphs(driver: FakeDriver) -> None:
    x, y = ones(1), kc.zeros(1, device="cuda:0")
    with kc.ScopedCapture() as inner:
        kc.launch(add, 1, [x, 1.0], [y])
    with kc.ScopedCapture() as outer:
        kc.capture_launch(inner.graph)
        kc.capture_launch(inner.graph)
    driver.clear()
    outer.graph.run()
    assert y[0] == 2.0
    assert driver.calls("cuGraphInstantiate") == ["cuGraphInstantiate 2 0"]


def test_programs_that_need_the_host_run_step_by_step(driver: FakeDriver) -> None:
    x, y, host = ones(2), kc.zeros(2, device="cuda:0"), np.zeros(2, np.float32)
    factor = kc.array(3.0, dtype=float, device="cuda:0")
    with kc.ScopedCapture() as capture:
        kc.launch(add, 2, [x, factor], [y])
        kc.launch(add, 2, [np.ones(2, np.float32), 1.0], [host])
    driver.clear()
    kc.capture_launch(capture.graph)
    factor.fill_(4.0)
    kc.capture_launch(capture.graph)
    assert driver.calls("cuStreamBeginCapture") == []
    assert (y.list(), host.tolist()) == ([7.0, 7.0], [2.0, 2.0])


def test_a_failed_capture_leaves_nothing_behind(driver: FakeDriver) -> None:
    x, y = ones(2), kc.zeros(2, device="cuda:0")
    with kc.ScopedCapture() as capture:
        kc.launch(add, 2, [x, 1.0], [y])
        with pytest.raises(kc.KernelArgumentError, match="at least 9 elements"):
            kc.launch(add, 9, [x, 1.0], [y])
    assert len(capture.graph) == 1
    driver.fail("cuLaunchKernel", 1)
    with pytest.raises(kc.KernelDeviceError, match="cuLaunchKernel"):
        kc.capture_launch(capture.graph)
    ended = driver.calls("cuStreamEndCapture", "cuGraphDestroy", "cuGraphInstantiate")
    assert [line.split()[0] for line in ended] == ["cuStreamEndCapture", "cuGraphDestroy"]
    kc.capture_launch(capture.graph)
    assert y.list() == [1.0, 1.0]


class Exporter:
    """An array of another library, whose memory may be replaced."""

    def __init__(self, data: kc.Array) -> None:
        self.data = data

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.data.__dlpack_device__()


def test_a_whole_graph_keeps_the_memory_of_other_libraries(driver: FakeDriver) -> None:
    x, y = Exporter(ones(4)), kc.zeros(4, device="cuda:0")
    with kc.ScopedCapture() as capture:
        kc.launch(add, 4, [x, 2.0], [y])
    x.data = kc.full(4, 50.0, device="cuda:0")
    gc.collect()
    for count in (1, 2):
        kc.capture_launch(capture.graph)
        assert y.list() == [2.0 * count] * 4


@pytest.mark.parametrize("kind", ["launch", "copy", "branch"])
def test_a_whole_graph_refuses_memory_that_was_taken_back(driver: FakeDriver, kind: str) -> None:
    x, y = ones(1), kc.zeros(1, device="cuda:0")
    loan = _native.Loan("one of a call that has ended", "copy it")
    x.limit_to(loan)
    flag = kc.ones(1, dtype=int, device="cuda:0")
    with kc.ScopedCapture() as capture:
        if kind == "launch":
            kc.launch(add, 1, [x, 2.0], [y])
        elif kind == "copy":
            y.assign(x)
        else:
            kc.capture_if(flag, lambda: kc.launch(add, 1, [x, 2.0], [y]))
    kc.capture_launch(capture.graph)
    loan.end()
    driver.clear()
    with pytest.raises(kc.KernelArgumentError, match="found one of a call that has ended"):
        kc.capture_launch(capture.graph)
    assert driver.calls("cuGraphLaunch") == []
