"""kernelcore's own runtime on the device of the suite: arrays, launches, tapes, graphs, errors."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from tests.bench.suite import CASES
from tests.bench.suite.case import Case, Data
from tests.helpers.environment import DEVICE
from tests.helpers.graph_kernels import add, count_down, squares

SIZES = {1: 3000, 2: 64}
cases = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


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
def test_timed_kernels_give_the_expected_results(case: Case) -> None:
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


def test_a_captured_tape_is_replayed() -> None:
    with kc.ScopedDevice(DEVICE):
        x, loss = (
            kc.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True),
            kc.zeros(1, requires_grad=True),
        )
        with kc.ScopedCapture() as capture:
            loss.zero_()
            with kc.Tape() as tape:
                kc.launch(squares, dim=3, inputs=[x], outputs=[loss])
            tape.backward(loss)
        for scale in (1.0, 2.0):
            x.assign([scale, 2.0 * scale, 3.0 * scale])
            tape.zero()
            kc.capture_launch(capture.graph)
            assert x.grad is not None
            assert x.grad.numpy().tolist() == [2.0 * scale, 4.0 * scale, 6.0 * scale]


def test_a_loop_is_decided_where_it_runs() -> None:
    with kc.ScopedDevice(DEVICE):
        n, total = kc.full(1, 4, dtype=int), kc.zeros(1, dtype=int)
        with kc.ScopedCapture() as capture:
            kc.capture_while(n, lambda: kc.launch(count_down, dim=1, inputs=[n, total]))
        kc.capture_launch(capture.graph)
        assert (n.list(), total.list()) == ([0], [10])


def test_sums_in_one_order_have_the_same_bits() -> None:
    x = kc.array(np.random.default_rng(0).normal(size=100_000).astype(np.float32), device=DEVICE)
    found: set[bytes] = set()
    kc.config.deterministic = True
    try:
        for _ in range(10):
            total = kc.zeros(1, device=DEVICE)
            kc.launch(squares, dim=100_000, inputs=[x], outputs=[total])
            found.add(total.numpy().tobytes())
    finally:
        kc.config.deterministic = False
    assert len(found) == 1
    expected = np.square(x.numpy(), dtype=np.float64).sum()
    np.testing.assert_allclose(np.frombuffer(found.pop(), np.float32)[0], expected, rtol=1e-5)


def test_pinned_memory_and_maps() -> None:
    if DEVICE == "cpu":
        return
    host = kc.full(1000, 0.5, pinned=True)
    far = kc.map(kc.sin, host.to(DEVICE))
    assert far.device == DEVICE
    kc.copy(host, far)
    kc.synchronize_device(DEVICE)
    np.testing.assert_array_equal(host.numpy(), kc.map(kc.sin, np.full(1000, 0.5, np.float32)))


@kc.func_native("return sqrtf(x) + 1.0f;", "adj_x += adj_ret * 0.5f / sqrtf(x);")
def root(x: float) -> float: ...


@kc.kernel
def roots(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = root(x[i])


def test_native_functions_run_there() -> None:
    with kc.ScopedDevice(DEVICE):
        x, y = (
            kc.array([1.0, 4.0, 9.0], dtype=float, requires_grad=True),
            kc.zeros(3, requires_grad=True),
        )
        with kc.Tape() as tape:
            kc.launch(roots, dim=3, inputs=[x], outputs=[y])
        tape.backward(grads={y: kc.ones(3)})
        assert y.numpy().tolist() == [2.0, 3.0, 4.0]
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), [0.5, 0.25, 1 / 6], rtol=1e-6)
