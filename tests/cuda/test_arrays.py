"""Arrays on devices: memory, copies, and the streams that they are in order with."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.cuda import fake
from tests.cuda.fake import FakeDriver


@kc.kernel
def doubled(x: kc.array(dtype=float)):
    i = kc.tid()
    x[i] = 2.0 * x[i]


@kc.struct
class Particle:
    position: kc.vec3
    mass: float


def numbers(*shape: int, device: str = "cuda:0") -> kc.Array:
    count = int(np.prod(shape))
    return kc.array(np.arange(count, dtype=np.float32).reshape(shape), device=device)


def test_every_way_to_make_an_array(driver: FakeDriver) -> None:
    for made, expected in (
        (kc.zeros(3, device="cuda"), [0.0] * 3),
        (kc.empty((1, 2), device="cuda:1"), [0.0] * 2),
        (kc.ones(2, dtype=kc.float64, device="cuda:0"), [1.0, 1.0]),
        (kc.full(2, 7, device="cuda:0"), [7, 7]),
        (kc.array([[1, 2], [3, 4]], device="cuda:0"), [1, 2, 3, 4]),
        (kc.from_numpy(np.arange(3), device="cuda:0"), [0, 1, 2]),
        (kc.array([True, False], device="cuda:0"), [True, False]),
        (kc.zeros(2, dtype=kc.bfloat16, device="cuda:0"), [0.0, 0.0]),
    ):
        assert made.device.is_cuda
        assert made.list() == expected
        assert kc.zeros_like(made).device == made.device
        assert kc.clone(made, device="cpu").list() == expected
    with kc.ScopedDevice("cuda:1"):
        assert kc.zeros(1).device == kc.array([1]).device == "cuda:1"
    assert kc.zeros(1).device == "cpu"


def test_elements_come_to_the_host_as_copies(driver: FakeDriver) -> None:
    x = numbers(4, 6)
    host = np.arange(24, dtype=np.float32).reshape(4, 6)
    for part in (np.s_[1], np.s_[:, 2], np.s_[::2, ::-1], np.s_[::-1], np.s_[1:3, 1:5:2]):
        assert np.array_equal(x[part].numpy(), host[part])
        assert x[part].is_contiguous == host[part].flags.c_contiguous
    assert np.array_equal(x.transpose().numpy(), host.T)
    assert np.array_equal(x.reshape(2, 12).view(kc.int32).numpy(), host.reshape(2, 12).view("i4"))
    assert x[2, 3] == host[2, 3]
    assert [row.list() for row in x] == host.tolist()
    assert repr(x[0, :2]) == "array([0., 1.], dtype=float32)"
    assert np.array_equal(np.asarray(x), host)
    with pytest.raises(ValueError, match="as a copy only"):
        np.asarray(x, copy=False)
    assert np.array_equal(pickle.loads(pickle.dumps(x)).numpy(), host)
    x.numpy()[...] = 0
    assert np.array_equal(x.numpy(), host)


def test_assignments(driver: FakeDriver) -> None:
    x, host = numbers(4, 6), np.arange(24, dtype=np.float32).reshape(4, 6)
    x[1], host[1] = 5.0, 5.0
    x[:, 2], host[:, 2] = [1, 2, 3, 4], [1, 2, 3, 4]
    x[2, 3], host[2, 3] = 0.5, 0.5
    x[::-1, ::2], host[::-1, ::2] = (values := host[:, 1::2].copy()), values
    assert np.array_equal(x.numpy(), host)
    y = kc.zeros((4, 6), device="cuda:0")
    y[:, ::-1] = x
    assert np.array_equal(y.numpy(), host[:, ::-1])
    y[1:] = y[:-1]
    assert np.array_equal(y.numpy()[1:], host[:-1, ::-1])
    y.assign(kc.ones(6, device="cuda:1"))
    assert y.list() == [1.0] * 24
    y.zero_()
    assert y.list() == [0.0] * 24
    back = kc.zeros((4, 6))
    back.assign(x)
    assert np.array_equal(back.numpy(), host)
    version = x.version
    x.fill_(2.0)
    assert x.version > version


def test_structs_and_vectors(driver: FakeDriver) -> None:
    made = kc.zeros(3, dtype=Particle, device="cuda:0")
    assert made.fields is not None
    made.fields["mass"].fill_(2.5)
    made.fields["position"].assign([[1, 2, 3]] * 3)
    assert made[1].mass == 2.5
    assert made.numpy()["position"].tolist() == [[1.0, 2.0, 3.0]] * 3
    points = kc.ones(2, dtype=kc.vec3, device="cuda:0")
    assert points[1] == kc.vec3(1.0, 1.0, 1.0)


def test_moving_between_devices(driver: FakeDriver) -> None:
    host = kc.array([1.0, 2.0])
    first = host.to("cuda:0")
    second = first.to("cuda:1")
    assert second.to("cuda:1") is second
    driver.clear()
    assert second.to("cuda:0").list() == first.list() == second.to("cpu").list() == [1.0, 2.0]
    assert len(driver.calls("cuMemcpyPeerAsync")) == 1
    # The device that copies may read the other one's pool: 3 says so.
    (shared,) = driver.calls("cuMemPoolSetAccess")
    assert shared.split()[2:] == ["1", "0", "3", "1"]
    assert second[::-1].to("cuda:0").list() == [2.0, 1.0]


def test_memory_that_was_given_back_is_waited_for(driver: FakeDriver) -> None:
    kc.zeros(3, device="cuda:0")
    driver.clear()
    driver.fail("cuMemAllocFromPoolAsync", fake.OUT_OF_MEMORY)
    assert kc.zeros(2, device="cuda:0").list() == [0.0, 0.0]
    names = [line.split()[0] for line in driver.calls()]
    tries = [n for n, name in enumerate(names) if name == "cuMemAllocFromPoolAsync"]
    between = [name for name in names[tries[0] + 1 : tries[1]] if name.startswith("cuMem")]
    assert between == ["cuMemPoolTrimTo", "cuMemAlloc", "cuMemFree", "cuMemPoolTrimTo"]


def test_constants_are_filled_by_the_device(driver: FakeDriver) -> None:
    x = kc.zeros(1000, device="cuda:0")
    x.fill_(1.0)
    assert driver.calls("cuMemsetD8Async")[0] == "cuMemsetD8Async 0 4000 stream1"
    bits = int(np.float32(1.0).view(np.uint32))
    assert driver.calls("cuMemsetD32Async") == [f"cuMemsetD32Async {bits} 1000 stream1"]
    driver.clear()
    assert kc.full(1000, 0.1, dtype=kc.float64, device="cuda:0").list() == [0.1] * 1000
    assert len(driver.calls("cuMemsetD32Async")) == 2
    copies = [int(line.split()[1]) for line in driver.calls("cuMemcpyDtoDAsync")]
    assert (copies[:3], sum(copies)) == ([8, 16, 32], 8000 - 8)
    driver.clear()
    for count in (0, 1, 5):
        assert kc.full(count, 3.0, dtype=kc.float16, device="cuda:0").list() == [3.0] * count
    points = kc.zeros((2, 3), dtype=kc.vec3, device="cuda:0")
    points.fill_(kc.vec3(1.0, 2.0, 3.0))
    matrices = kc.full(3, kc.mat22(1.0, 2.0, 3.0, 4.0), dtype=kc.mat22, device="cuda:0")
    assert driver.calls("cuMemcpyHtoDAsync") == []
    assert points.numpy().tolist() == [[[1.0, 2.0, 3.0]] * 3] * 2
    assert matrices.numpy().tolist() == [[[1.0, 2.0], [3.0, 4.0]]] * 3


def test_memory_is_freed_behind_all_that_uses_it(driver: FakeDriver) -> None:
    stream, x = kc.Stream("cuda:0"), numbers(4)
    other = stream.cuda_stream
    kc.launch(doubled, 4, [x], stream=stream)
    view = x[1:]
    driver.clear()
    del x
    gc.collect()
    assert driver.calls("cuMemFreeAsync") == []
    del view
    gc.collect()
    recorded, waited, freed = driver.calls("cuEventRecord", "cuStreamWaitEvent", "cuMemFreeAsync")
    assert recorded.split()[2].startswith("own")
    assert waited.split()[1:3] == ["stream1", recorded.split()[1]]
    assert freed == "cuMemFreeAsync stream1"
    assert driver.live_bytes() == 0
    assert other


def test_copies_wait_for_other_streams(driver: FakeDriver) -> None:
    stream, x = kc.Stream("cuda:0"), numbers(2)
    kc.launch(doubled, 2, [x], stream=stream)
    driver.clear()
    assert x.list() == [0.0, 2.0]
    names = [line.split()[0] for line in driver.calls()]
    assert names.index("cuStreamWaitEvent") < names.index("cuMemcpyDtoHAsync")
    assert names.index("cuMemcpyDtoHAsync") < names.index("cuStreamSynchronize")


class Consumer:
    """What another library would be told of an array."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__cuda_array_interface__ = interface
        self.shape, self.dtype = interface["shape"], np.dtype(interface["typestr"])


def test_the_array_interface_names_its_stream(driver: FakeDriver) -> None:
    x = numbers(2, 3)
    found = x.transpose().__cuda_array_interface__
    assert found["stream"] == 1
    assert (found["shape"], found["strides"], found["version"]) == ((3, 2), (4, 12), 3)
    assert found["data"] == (x.ptr, False)
    stream = kc.Stream("cuda:0")
    taken = kc.array(Consumer({**found, "stream": stream.cuda_stream}), dtype=float, copy=False)
    assert taken.device == "cuda:0"
    assert np.array_equal(taken.numpy(), x.numpy().T)
    with pytest.raises(kc.KernelArgumentError, match="of no memory of CUDA"):
        kc.array(Consumer({**found, "data": (4096, False)}), dtype=float, copy=False)
    nothing = Consumer({**found, "shape": (0,), "strides": None, "data": (0, False)})
    kc.launch(doubled, 0, [nothing], device="cuda:1")
    driver.clear()
    kc.launch(doubled, 2, [Consumer(x[0, :2].__cuda_array_interface__)])
    kc.launch(
        doubled, 2, [Consumer({**x[0, :2].__cuda_array_interface__, "stream": stream.cuda_stream})]
    )
    waits = driver.calls("cuStreamWaitEvent", "cuLaunchKernel")
    assert [line.split()[0] for line in waits] == [
        *("cuLaunchKernel", "cuStreamWaitEvent", "cuLaunchKernel")
    ]
    with pytest.raises(kc.KernelArgumentError, match="stream is 0"):
        kc.array(Consumer({**found, "stream": 0}), dtype=float, copy=False)
    for wrong in ("1", -1):
        with pytest.raises(kc.KernelArgumentError, match="stream is no handle"):
            kc.launch(doubled, 2, [Consumer({**found, "stream": wrong})])
    with pytest.raises(AttributeError):
        getattr(kc.zeros(1), "__cuda_array_interface__")  # noqa: B009


def test_arrays_of_others_are_described_and_refused_on_the_cpu(driver: FakeDriver) -> None:
    face = numbers(3, 2).__cuda_array_interface__
    source = Consumer(face)
    handle = kc.ArrayMemory(source)
    assert handle.__dlpack_device__() == (2, 0)
    exported = handle.__cuda_array_interface__
    assert (exported["shape"], exported["data"]) == ((3, 2), face["data"])
    assert (exported["strides"], exported["typestr"]) == ((8, 4), "<f4")
    assert kc.ArrayMemory(Consumer({**face, "strides": (4, 12)})).stride_bytes == (4, 12)
    assert not hasattr(handle, "__array_interface__")
    for given in (source, handle):
        with pytest.raises(kc.KernelPlacementError, match="in CPU memory, found memory of device"):
            kc.launch(doubled, 3, [given], device="cpu")


class Exporter:
    """An array of another library that speaks DLPack, and is asked for a stream."""

    def __init__(self, array: kc.Array) -> None:
        self.array, self.streams = array, []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> object:
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, **options)


def test_dlpack_hands_over_in_order(driver: FakeDriver) -> None:
    x, stream = numbers(4), kc.Stream("cuda:0")
    kc.launch(doubled, 4, [x], stream=stream)
    for consumer in (None, 1, 2, stream.cuda_stream):
        driver.clear()
        x.__dlpack__(stream=consumer)
        waits = [line.split()[1] for line in driver.calls("cuStreamWaitEvent")]
        expected = {None: ["stream1"], 1: ["stream1"], 2: ["stream2", "stream2"]}
        assert waits[:1] == expected.get(consumer, waits)[:1]
    driver.clear()
    x.__dlpack__(stream=-1)
    assert driver.calls("cuStreamWaitEvent") == []
    for wrong in (0, -2):
        with pytest.raises(BufferError, match="a stream of CUDA is 1, 2, -1 or a handle"):
            x.__dlpack__(stream=wrong)
    exporter = Exporter(x)
    taken = kc.from_dlpack(exporter)
    assert exporter.streams == [1]
    assert taken.device == "cuda:0"
    assert taken.list() == x.list() == [0.0, 2.0, 4.0, 6.0]
    with kc.ScopedStream(stream):
        kc.launch(doubled, 4, [exporter])
    assert exporter.streams == [1, stream.cuda_stream]
    assert x[3] == 12.0


def test_exported_memory_is_freed_once_the_device_was_waited_for(driver: FakeDriver) -> None:
    x = numbers(4)
    capsule = x.__dlpack__(stream=1)
    driver.clear()
    del x, capsule
    kc.zeros(1).__dlpack__()
    gc.collect()
    freeing = "cuCtxSynchronize", "cuMemFreeAsync"
    assert driver.calls(*freeing) == []
    kc.synchronize()
    assert driver.calls(*freeing) == ["cuCtxSynchronize", "cuMemFreeAsync stream1"]
    assert driver.live_bytes() == 0


def test_much_exported_memory_is_waited_for_by_allocations(driver: FakeDriver) -> None:
    before = driver.live_bytes()
    for _ in range(4):
        kc.empty(1 << 25, device="cuda:0").__dlpack__()
        kc.zeros(1).__dlpack__()
    assert driver.calls("cuCtxSynchronize", "cuMemFree") == ["cuMemFree"]
    assert driver.live_bytes() - before == 1 << 27


def test_devices_without_pools(driver: FakeDriver) -> None:
    driver.set_pools(False)
    try:
        x = numbers(4, device="cuda:1")
        assert x.list() == [0.0, 1.0, 2.0, 3.0]
        del x
        gc.collect()
        assert len(driver.calls("cuMemAlloc")) == len(driver.calls("cuMemFree")) == 1
    finally:
        driver.set_pools(True)
    driver.fail("cuMemPoolCreate", fake.NOT_SUPPORTED)
    assert numbers(4).list() == [0.0, 1.0, 2.0, 3.0]
    assert driver.calls("cuMemAllocFromPoolAsync") == []


def test_map_runs_where_its_arrays_are(driver: FakeDriver) -> None:
    x, host = numbers(3, device="cuda:1"), np.arange(3, dtype=np.float32)
    assert (found := kc.map(kc.sin, x)).device == "cuda:1"
    assert np.array_equal(found.numpy(), kc.map(kc.sin, host))
    rows = kc.map(kc.add, numbers(2, 3), numbers(3))
    assert np.array_equal(rows.numpy(), np.arange(6).reshape(2, 3) + np.arange(3))
    points = kc.map(kc.normalize, kc.ones((2, 2), dtype=kc.vec3, device="cuda:0")[:1])
    assert (points.device, points.shape, points.dtype) == ("cuda:0", (1, 2), kc.vec3)
    owner = numbers(3)
    foreign = Consumer(owner.__cuda_array_interface__)
    assert kc.map(kc.mul, foreign, 2.0).list() == [0.0, 2.0, 4.0]
    out = kc.zeros(3, device="cuda:0")
    assert kc.map(kc.neg, numbers(3), out=out) is out
    assert out.list() == [0.0, -1.0, -2.0]


@kc.kernel
def gathered(x: kc.indexedarray(dtype=kc.vec3), y: kc.array(dtype=kc.vec3)):
    i = kc.tid()
    y[i] = x[i]


def test_indices_go_where_their_data_are(driver: FakeDriver) -> None:
    x = kc.array(np.arange(12, dtype=np.float32).reshape(4, 3), dtype=kc.vec3, device="cuda:0")
    y = kc.zeros(2, dtype=kc.vec3, device="cuda:0")
    chosen = kc.indexedarray(x, [[3, 1]])
    with kc.ScopedCapture() as capture:
        kc.launch(gathered, 2, [chosen], [y])
    kc.capture_launch(capture.graph)
    kc.launch(gathered, 2, [chosen], [y])
    assert np.array_equal(y.numpy(), x.numpy()[[3, 1]])
    assert len(driver.calls("cuGraphLaunch")) == 1
    indices = kc.array([2, 0], dtype=int, device="cuda:1")
    kc.launch(gathered, 2, [kc.indexedarray(x, [indices])], [y])
    assert np.array_equal(y.numpy(), x.numpy()[[2, 0]])


def test_an_element_without_a_pattern_is_assigned(driver: FakeDriver) -> None:
    x = kc.zeros(3, dtype=kc.float64, device="cuda:0")
    x[1] = 0.1
    assert x.list() == [0.0, 0.1, 0.0]


def test_pinned_memory_is_copied_in_the_order_of_the_stream(driver: FakeDriver) -> None:
    host = kc.ones((2, 3), pinned=True)
    assert (host.pinned, host.device, host.list()) == (True, "cpu", [1.0] * 6)
    assert host[1].pinned
    assert not kc.zeros(3).pinned
    far = kc.zeros((2, 3), device="cuda:1")
    far.assign(host)
    kc.launch(doubled, 3, [far[0]])
    driver.clear()
    kc.copy(host, far)
    assert len(driver.calls("cuMemcpyDtoHAsync")) == 1
    assert driver.calls("cuStreamSynchronize") == []
    kc.synchronize()
    assert host.list() == [2.0, 2.0, 2.0, 1.0, 1.0, 1.0]
    kc.launch(doubled, 3, [host[1]])
    assert host[1].list() == [2.0] * 3
    for made in (kc.empty(2, pinned=True), kc.full(2, 7, pinned=True), kc.zeros(0, pinned=True)):
        assert made.pinned
    with pytest.raises(kc.KernelArgumentError, match="zeros: pinned: memory of cuda:0 is none of"):
        kc.zeros(3, device="cuda:0", pinned=True)
    driver.clear()
    del host
    gc.collect()
    assert len(driver.calls("cuMemFreeHost")) == 1
