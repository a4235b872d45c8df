"""kernelcore's own runtime on the device of the suite: arrays, launches, tapes, graphs, errors."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from tests.bench.suite import CASES
from tests.bench.suite.case import Case, Data
from tests.target import DEVICE

SIZES = {1: 3000, 2: 64}
cases = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


@kc.kernel
def add(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = y[i] + a * x[i]


@kc.kernel
def squares(x: kc.array(dtype=float), loss: kc.array(dtype=float)):
    i = kc.tid()
    kc.atomic_add(loss, 0, x[i] * x[i])


@kc.kernel
def positive(x: kc.array(dtype=float)):
    i = kc.tid()
    assert x[i] > 0.0, "positive"


def small(case: Case) -> Data:
    return case.data(SIZES[len(case.data(4).dim)])


def placed(data: Data, requires_grad: bool = False) -> list[object]:
    """The arguments with their arrays on the device."""
    found: list[object] = []
    for at, arg in enumerate(data.args):
        if not isinstance(arg, np.ndarray):
            found.append(arg)
            continue
        dtype = kc.vec3 if at in data.vectors else kc.dtype_from_numpy(arg.dtype)
        is_varied = requires_grad and arg.dtype.kind == "f"
        found.append(kc.array(arg, dtype=dtype, device=DEVICE, requires_grad=is_varied))
    return found


@cases
def test_timed_kernels_compute_what_they_should(case: Case) -> None:
    data = small(case)
    args = placed(data)
    kc.launch(case.make(kc), dim=data.dim, inputs=args, device=DEVICE)
    outputs = [a.numpy() for a in args[data.num_inputs :] if isinstance(a, kc.Array)]
    case.check(outputs, data, DEVICE)


@cases
def test_tapes_give_the_gradients_of_the_processor(case: Case) -> None:
    if not case.adjoint:
        assert case.name in ("Mandelbrot", "histogram")
        return
    gradients: list[list[np.ndarray]] = []
    for device in ("cpu", DEVICE):
        data, kernel = small(case), case.make(kc)
        with kc.ScopedDevice(device):
            args = [
                kc.array(a.numpy(), dtype=a.dtype, requires_grad=a.requires_grad)
                if isinstance(a, kc.Array)
                else a
                for a in placed(data, requires_grad=True)
            ]
            with kc.Tape() as tape:
                kc.launch(kernel, dim=data.dim, inputs=args)
            out = args[data.num_inputs]
            assert isinstance(out, kc.Array)
            tape.backward(grads={out: kc.ones_like(out)})
            varied = [args[i] for i in data.varied]
            found = [a.grad for a in varied if isinstance(a, kc.Array)]
            gradients.append([g.numpy() for g in found if g is not None])
    assert len(gradients[0]) > 0
    for wanted, found in zip(*gradients, strict=True):
        scale = max(float(np.abs(wanted).max()), 1.0)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * scale)


def test_launches_are_in_the_order_of_their_stream() -> None:
    x, y = kc.ones(1000, device=DEVICE), kc.zeros(1000, device=DEVICE)
    with kc.ScopedStream(kc.Stream(DEVICE)):
        for _ in range(50):
            kc.launch(add, dim=1000, inputs=[x, 2.0], outputs=[y])
        assert y.numpy().tolist() == [100.0] * 1000


def test_a_stream_waits_for_an_event_of_another() -> None:
    x, y = kc.ones(1 << 20, device=DEVICE), kc.zeros(1 << 20, device=DEVICE)
    first, second = kc.Stream(DEVICE), kc.Stream(DEVICE)
    for _ in range(20):
        kc.launch(add, dim=1 << 20, inputs=[x, 1.0], outputs=[y], stream=first)
    second.wait_event(first.record_event())
    kc.launch(add, dim=1 << 20, inputs=[x, 5.0], outputs=[y], stream=second)
    kc.synchronize_device(DEVICE)
    assert (y.numpy() == 25.0).all()


def test_captured_launches_are_replayed() -> None:
    with kc.ScopedDevice(DEVICE):
        x, y, loss = kc.ones(4), kc.zeros(4), kc.zeros(1)
        with kc.ScopedCapture() as capture:
            kc.launch(add, dim=4, inputs=[x, 2.0], outputs=[y])
            kc.launch(squares, dim=4, inputs=[y], outputs=[loss])
        for _ in range(3):
            kc.capture_launch(capture.graph)
        assert y.numpy().tolist() == [6.0] * 4
        assert loss.numpy().tolist() == [4.0 * (4 + 16 + 36)]


def test_a_failed_assertion_is_raised_by_the_next_wait() -> None:
    x = kc.array(np.array([1.0, -1.0, 2.0], np.float32), device=DEVICE)
    with pytest.raises(kc.KernelAssertionError, match="positive"):  # noqa: PT012
        kc.launch(positive, dim=3, inputs=[x])
        kc.synchronize_device(DEVICE)


def test_arrays_on_the_host_are_refused_on_a_gpu() -> None:
    if DEVICE == "cpu":
        return
    with pytest.raises(kc.KernelError, match="x"):
        kc.launch(add, dim=4, inputs=[kc.ones(4), 2.0], outputs=[kc.zeros(4)], device=DEVICE)
