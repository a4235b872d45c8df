"""Devices, streams and events of a GPU, and a machine that has none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kernelcore as kc
from tests.cuda import fake
from tests.cuda.fake import FakeDriver

_WITHOUT_DRIVER = """
import sys
import kernelcore as kc
from kernelcore import _native

@kc.kernel
def one(x: kc.array(dtype=float)):
    x[kc.tid()] = 1.0

x = kc.zeros(3)
kc.launch(one, 3, [x])
tape = kc.Tape()
kc.synchronize()
with open("/proc/self/maps") as maps:
    assert "libcuda" not in maps.read()
assert not [name for name in sys.modules if name.split(".")[0] in ("cuda", "pynvml", "cupy")]
assert not _native.cuda_is_open()
_native.cuda_set_driver("/nowhere/libcuda.so.1")
assert not kc.is_cuda_available()
assert kc.get_devices() == ["cpu"]
assert kc.get_preferred_device() == "cpu"
for ask in (
    lambda: kc.zeros(3, device="cuda:0"),
    lambda: kc.get_device("cuda"),
    lambda: kc.launch(one, 3, [x], device="cuda:0"),
    lambda: kc.Stream("cuda:0"),
    lambda: kc.ScopedCapture(device="cuda:0"),
):
    try:
        ask()
    except kc.KernelDeviceError as error:
        assert "expected NVIDIA's driver, found none" in str(error), error
        assert "use device='cpu'" in str(error), error
    else:
        raise AssertionError(ask)
print("done")
"""


_AFTER_A_FAILURE = """
import ctypes
import kernelcore as kc
from kernelcore import _native

_native.cuda_set_driver({path!r})
fake = ctypes.CDLL({path!r})
x, stream = kc.zeros(3, device="cuda:0"), kc.Stream("cuda:0")
with kc.ScopedStream(stream):
    y = kc.zeros(3, device="cuda:0")
capsule, event, pinned = y.__dlpack__(), stream.record_event(), kc.zeros(3, pinned=True)
fake.fake_break(700)
for ask in (
    x.numpy,
    lambda: kc.zeros(3, device="cuda:0"),
    lambda: x.fill_(1.0),
    lambda: kc.copy(x, y),
    lambda: x.assign(pinned),
    kc.synchronize,
    lambda: kc.synchronize_stream(stream),
    lambda: kc.synchronize_event(event),
    lambda: stream.is_complete,
    lambda: kc.Stream("cuda:1"),
):
    try:
        ask()
    except kc.KernelDeviceError as error:
        assert "illegal memory access" in str(error), error
        assert "the process has to start again" in str(error), error
    else:
        raise AssertionError(ask)
del y
print("done")
"""


def test_stacks_of_adjoints_have_a_heap(driver: FakeDriver) -> None:
    kc.zeros(1, device="cuda:0")
    kc.zeros(1, device="cuda:1")
    assert driver.calls("cuCtxSetLimit") == ["cuCtxSetLimit 2 536870912"] * 2


def test_nothing_touches_a_driver_before_a_gpu_is_asked_for(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_WITHOUT_DRIVER)
    run = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert run.stdout == "done\n", run.stderr


def test_devices_have_names(driver: FakeDriver) -> None:
    assert kc.get_cuda_devices() == ["cuda:0", "cuda:1"]
    assert kc.is_cuda_available()
    assert kc.get_preferred_device() == "cuda:0"
    device = kc.get_device("cuda:1")
    assert (device.name, device.is_cuda, device.ordinal) == ("Fake 1", True, 1)
    for name in ("cuda:2", "gpu", "cuda:x"):
        with pytest.raises(kc.KernelArgumentError, match=f"found '{name}'"):
            kc.get_device(name)


def test_a_driver_without_devices(driver: FakeDriver) -> None:
    fake.remove()
    fake.install(driver.library)
    driver.fail("cuInit", fake.NO_DEVICE)
    with pytest.raises(kc.KernelDeviceError, match="expected a CUDA device, found none"):
        kc.get_device("cuda:0")


def test_streams_and_events(driver: FakeDriver) -> None:
    stream, other = kc.Stream("cuda:0", priority=-1), kc.Stream("cuda:0")
    assert [line.split()[2:] for line in driver.calls("cuStreamCreateWithPriority")] == [
        *(["1", "-1"], ["1", "0"])
    ]
    assert stream.is_complete
    start, end = kc.Event("cuda:0", enable_timing=True), kc.Event("cuda:0", enable_timing=True)
    assert [line.split()[2] for line in driver.calls("cuEventCreate")] == ["0", "0"]
    stream.record_event(start)
    other.record_event(end)
    other.wait_event(start)
    assert kc.get_event_elapsed_time(start, end) == 1.5
    assert end.is_complete
    driver.clear()
    other.wait_stream(stream)
    created, recorded, waited = driver.calls("cuEventCreate", "cuEventRecord", "cuStreamWaitEvent")
    event = created.split()[1]
    assert recorded.split()[1] == waited.split()[2] == event
    with kc.ScopedStream(stream, sync_exit=True):
        assert kc.get_stream("cuda:0") is stream
    wrapped = kc.Stream("cuda:0", cuda_stream=stream.cuda_stream)
    assert wrapped.cuda_stream == stream.cuda_stream
    assert kc.get_stream("cuda:0").cuda_stream == 1
    kc.Event("cuda:0", interprocess=True)
    assert driver.calls("cuEventCreate")[-1].split()[2] == "6"


def test_streams_live_as_long_as_their_users(driver: FakeDriver) -> None:
    stream = kc.Stream("cuda:0")
    with kc.ScopedStream(stream):
        x = kc.zeros(4, device="cuda:0")
    driver.clear()
    del stream
    assert driver.calls("cuStreamDestroy") == []
    del x
    freed, destroyed = driver.calls("cuMemFreeAsync", "cuStreamDestroy")
    assert freed.split()[1] == destroyed.split()[1]


def test_a_forked_child_is_told(driver: FakeDriver) -> None:
    script = f"""
import os, traceback
import kernelcore as kc
from kernelcore import _native
_native.cuda_set_driver({str(driver.library)!r})
x = kc.zeros(1, device="cuda:0")
face = x.__cuda_array_interface__
foreign = type("Foreign", (), dict(__cuda_array_interface__=face))()
launch = lambda: _native.cuda_device_of((foreign,))
child = os.fork()
if child == 0:
    try:
        for ask in (kc.get_preferred_device, lambda: kc.get_device("cuda:1"), x.numpy, launch):
            try:
                found = ask()
            except kc.KernelDeviceError as error:
                assert "'spawn'" in str(error), error
            else:
                assert found == "cpu", found
        del x
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("done")
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout == "done\n", run.stderr


def test_after_an_illegal_access_everything_says_so_and_the_process_ends(
    driver: FakeDriver, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(_AFTER_A_FAILURE.format(path=str(driver.library)))
    run = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert (run.stdout, run.returncode) == ("done\n", 0), run.stderr
    assert run.stderr == ""
