"""Devices, streams, events, timers and options: of the CPU, and clear about what is not there."""

from __future__ import annotations

import pytest

import kernelcore as kc


def test_the_cpu_is_the_device() -> None:
    cpu = kc.get_device()
    assert (cpu.alias, cpu.is_cpu, cpu.is_cuda, cpu.ordinal) == ("cpu", True, False, 0)
    assert kc.get_devices()[0] == cpu
    with kc.ScopedDevice("cpu") as scope:
        assert kc.get_device() == scope.device == "cpu"
    kc.set_device("cpu")
    kc.synchronize()
    kc.synchronize_device("cpu")
    assert cpu.name


@pytest.mark.parametrize(
    "call",
    [
        lambda: kc.get_device("gpu:0"),
        lambda: kc.set_device("gpu"),
        lambda: kc.ScopedDevice("cuda:x"),
        lambda: kc.zeros(3, device="cpu:0"),
        lambda: kc.array([1.0], device="gpu"),
        lambda: kc.Stream("gpu:0"),
        lambda: kc.Event("gpu:0"),
        lambda: kc.ScopedCapture(device="gpu:0"),
        lambda: kc.synchronize_device("gpu:0"),
    ],
)
def test_other_devices_are_refused(call: object) -> None:
    with pytest.raises(kc.KernelArgumentError, match="expected a device, 'cpu' or 'cuda:0'"):
        call()  # pyright: ignore[reportCallIssue]


def test_streams_are_used_where_they_are_in_scope() -> None:
    stream, before = kc.Stream("cpu"), kc.get_stream()
    with kc.ScopedStream(stream) as entered:
        assert entered is kc.get_stream() is stream
        with kc.ScopedStream(None):
            assert kc.get_stream() is stream
    assert kc.get_stream() is before
    stream.wait_stream(before)
    kc.wait_stream(stream)
    kc.synchronize_stream(stream)
    assert stream.is_complete
    kc.set_stream(stream)
    assert kc.get_stream("cpu") is stream
    kc.set_stream(before)


def test_events_are_points_in_time() -> None:
    start, end = kc.Event(enable_timing=True), kc.Event(enable_timing=True)
    assert start.is_complete
    kc.record_event(start)
    kc.get_stream().record_event(end)
    kc.wait_event(end)
    assert kc.get_event_elapsed_time(start, end) >= 0.0
    with pytest.raises(kc.KernelArgumentError, match="start_event"):
        kc.get_event_elapsed_time(kc.Event(), end)
    with pytest.raises(kc.KernelArgumentError, match="no handles of CUDA"):
        kc.Stream("cpu", cuda_stream=1234)


def test_timers_measure_and_report(capsys: pytest.CaptureFixture[str]) -> None:
    times: dict[str, list[float]] = {}
    with kc.ScopedTimer("step", dict=times, synchronize=True) as timer:
        sum(range(1000))
    assert times == {"step": [timer.elapsed]}
    assert capsys.readouterr().out == f"step took {timer.elapsed:.2f} ms\n"
    with kc.ScopedTimer("none", active=False) as silent:
        pass
    assert (silent.elapsed, capsys.readouterr().out) == (0.0, "")


def test_module_options() -> None:
    kc.set_module_options({"enable_backward": False})
    assert kc.get_module_options() == {"enable_backward": False}
    with pytest.raises(kc.KernelArgumentError, match="fast_math: expected False"):
        kc.set_module_options({"fast_math": True})
    with pytest.raises(kc.KernelArgumentError, match="found 'speed'"):
        kc.set_module_options({"speed": 1})
    kc.config.verify_cuda = True
    kc.config.verify_cuda = False
    with pytest.raises(AttributeError):
        kc.config.verbos = True  # pyright: ignore[reportAttributeAccessIssue]
