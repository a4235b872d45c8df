"""Derivatives on devices: adjoints of launches, and Tapes, against the processor's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import kernelcore as kc
from tests.cuda.fake import FakeDriver


@kc.struct
class Body:
    position: kc.vec3
    mass: kc.float64
    number: int


@kc.kernel
def squares(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] * x[i]


@kc.kernel
def products(x: kc.array(dtype=float), z: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] * z[i]


@kc.kernel
def grown(x: kc.array(dtype=float), factor: float):
    i = kc.tid()
    x[i] = x[i] * x[i] * factor


@kc.kernel
def largest(x: kc.array(dtype=float), loss: kc.array(dtype=float)):
    i = kc.tid()
    kc.atomic_max(loss, 0, x[i] * x[i])


@kc.kernel
def energy(bodies: kc.array(dtype=Body), loss: kc.array(dtype=kc.float64)):
    i = kc.tid()
    p = bodies[i].position
    kc.atomic_add(loss, 0, bodies[i].mass * kc.float64(kc.dot(p, p)))


@kc.kernel
def total(x: kc.array(dtype=float, ndim=2), loss: kc.array(dtype=float)):
    i, j = kc.tid()
    kc.atomic_add(loss, 0, x[i, j] * x[i, j])


def varied(*values: float) -> kc.Array:
    return kc.array(np.array(values, np.float32), requires_grad=True)


def test_adjoints_of_launches(driver: FakeDriver) -> None:
    x = kc.array([1.0, 2.0, 3.0], dtype=float, device="cuda:0")
    y, ct_x, ct_y = kc.zeros_like(x), kc.zeros_like(x), kc.ones_like(x)
    kc.launch(squares, 3, [x], [y], [ct_x], [ct_y], adjoint=True)
    assert ct_x.list() == [2.0, 4.0, 6.0]
    with pytest.raises(kc.KernelArgumentError, match="share memory"):
        kc.launch(squares, 3, [x], [y], [x], [ct_y], adjoint=True)


def in_place(tape: kc.Tape) -> list[kc.Array]:
    x = varied(1.0, -2.0, 3.0)
    y, factor = x.clone(), kc.array(0.5, dtype=float, requires_grad=True)
    kc.launch(grown, 3, [y, factor])
    kc.launch(grown, 3, [y, 2.0])
    tape.backward(grads={y: kc.ones(3)})
    return [x, y, factor]


def twice(tape: kc.Tape) -> list[kc.Array]:
    x, y = varied(1.0, -2.0, 3.0), kc.zeros(3, requires_grad=True)
    kc.launch(products, 3, [x, x], [y])
    tape.backward(grads={y: np.ones(3, np.float32)})
    return [x, y]


def assigned(tape: kc.Tape) -> list[kc.Array]:
    x, y = varied(1.0, -2.0, 3.0, 4.0), kc.zeros((3, 4), requires_grad=True)
    loss = kc.zeros(1, requires_grad=True)
    y[1:, ::2] = x[:2]
    y[:, 3] = y[:, 0]
    y[0] = 7.0
    kc.launch(total, (3, 4), [y], [loss])
    tape.backward(loss)
    return [x, y, loss]


def moved(tape: kc.Tape) -> list[kc.Array]:
    x, loss = varied(1.0, -2.0), kc.zeros(1, requires_grad=True, device="cpu")
    y = x.to("cuda:1").to("cpu").to("cuda:0")
    z = kc.zeros(2, requires_grad=True, device="cuda:0")
    kc.launch(squares, 2, [y], [z])
    loss.assign(z[1:])
    tape.backward(loss)
    return [x, y, loss]


def structs(tape: kc.Tape) -> list[kc.Array]:
    bodies = kc.zeros(4, dtype=Body, requires_grad=True)
    loss = kc.zeros(1, dtype=kc.float64, requires_grad=True)
    fields = bodies.fields
    assert fields is not None
    fields["position"].assign(np.arange(12, dtype=np.float32).reshape(4, 3))
    fields["mass"].assign([1.0, 2.0, 3.0, 4.0])
    other = bodies[::-1].clone()
    kc.launch(energy, 4, [other], [loss])
    tape.backward(loss)
    return [bodies, other]


def extrema(tape: kc.Tape) -> list[kc.Array]:
    x, loss = varied(1.0, -3.0, 3.0), kc.full(1, 0.5, requires_grad=True)
    kc.launch(largest, 3, [x], [loss])
    tape.backward(loss)
    return [x, loss]


def overwritten(tape: kc.Tape) -> list[kc.Array]:
    x, y = varied(1.0, -2.0, 3.0), kc.zeros(3, requires_grad=True)
    kc.launch(squares, 3, [x], [y])
    x.zero_()
    tape.backward(grads={y: kc.full(3, 2.0)})
    return [x, y]


def by_a_function(tape: kc.Tape) -> list[kc.Array]:
    x, y = varied(1.0, -2.0), kc.zeros(2, requires_grad=True)

    def backward() -> None:
        assert x.grad is not None
        assert y.grad is not None
        kc.launch(squares, 2, [y.grad], [x.grad])

    tape.record_func(backward, [x, y])
    tape.backward(grads={y: kc.full(2, 3.0)})
    return [x, y]


@pytest.mark.parametrize(
    "program",
    [in_place, twice, assigned, moved, structs, extrema, overwritten, by_a_function],
)
def test_tapes_give_the_gradients_of_the_processor(
    driver: FakeDriver, program: Callable[[kc.Tape], list[kc.Array]]
) -> None:
    found: list[list[np.ndarray]] = []
    for device in ("cpu", "cuda:0"):
        with kc.ScopedDevice(device), kc.Tape(keep_overwritten=True) as tape:
            arrays = program(tape)
            for array in arrays:
                assert array.grad is not None
                assert array.grad.device == array.device
            gradients = [a.grad for a in arrays if a.grad is not None]
            found.append([np.array(g.numpy()) for g in gradients])
            tape.zero()
            assert len(found[0]) == len(arrays)
            assert not any(g.numpy().tobytes().strip(b"\0") for g in gradients)
    for expected, gradient in zip(*found, strict=True):
        np.testing.assert_array_equal(gradient, expected)


def test_nested_tapes_and_overwritten_arrays(driver: FakeDriver) -> None:
    with kc.ScopedDevice("cuda:0"):
        x, y = varied(1.0, 2.0), kc.zeros(2, requires_grad=True)
        with kc.Tape() as outer, kc.Tape() as inner:
            kc.launch(squares, 2, [x], [y])
        for tape in (outer, inner):
            tape.backward(grads={y: kc.ones(2)})
        assert x.grad is not None
        assert x.grad.list() == [4.0, 8.0]
        x.zero_()
        with pytest.raises(kc.KernelGradError, match="an assignment or a launch that was not"):
            outer.backward(grads={y: kc.ones(2)})


def test_backward_passes_go_on_behind_the_launches(driver: FakeDriver) -> None:
    stream = kc.Stream("cuda:0")
    with kc.ScopedDevice("cuda:0"):
        x, y = varied(1.0, 2.0), kc.zeros(2, requires_grad=True)
        assert x.grad is not None
        with kc.Tape() as tape:
            kc.launch(squares, 2, [x], [y], stream=stream, block_dim=64)
            kc.launch(grown, 2, [y, 1.0], stream=stream)
        launch, copy = driver.calls("cuLaunchKernel", "cuMemcpyDtoDAsync")[:2]
        # What the second launch overwrites is copied in its stream.
        assert launch.split()[3] == "64"
        assert copy.split()[-1] == launch.split()[4]
        seed = kc.ones(2)
        driver.clear()
        tape.backward(grads={y: seed})
        names = [line.split()[0] for line in driver.calls()]
        assert names.index("cuStreamWaitEvent") < names.index("cuLaunchKernel")
        assert {line.split()[4] for line in driver.calls("cuLaunchKernel")} == {"stream1"}
        assert driver.calls("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuStreamSynchronize") == []
        assert x.grad.list() == [4.0, 32.0]


def test_gradients_of_a_captured_tape_are_one_graph(driver: FakeDriver) -> None:
    with kc.ScopedDevice("cuda:0"):
        x, y = varied(1.0, 2.0, 3.0), kc.zeros((1, 3), requires_grad=True)
        loss, tape = kc.zeros(1, requires_grad=True), kc.Tape()
        assert x.grad is not None
        with kc.ScopedCapture() as capture:
            loss.zero_()
            with tape:
                y[0, ::-1] = x
                kc.launch(total, (1, 3), [y], [loss])
            tape.backward(loss)
        kc.capture_launch(capture.graph)
        driver.clear()
        for scale in (1.0, 2.0):
            x.assign([scale, 2.0 * scale, 3.0 * scale])
            tape.zero()
            kc.capture_launch(capture.graph)
            assert x.grad.list() == [2.0 * scale, 4.0 * scale, 6.0 * scale]
        assert len(driver.calls("cuGraphLaunch")) == 2
        assert driver.calls("cuGraphInstantiate", "cuGraphExecUpdate") == []


def test_gradients_are_where_their_array_is(driver: FakeDriver) -> None:
    x = kc.zeros(3, device="cuda:1", requires_grad=True)
    with pytest.raises(kc.KernelArgumentError, match="expected an array on cuda:1, found one on"):
        x.grad = kc.zeros(3)
