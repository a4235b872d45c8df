"""Arrays with ``retain_grad`` keep their cotangents, and all other gradients stay as they are."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelArgumentError, KernelGradError
from kernelcore.runtime.hooks import recording

F = kc.float64


@kc.kernel
def squares(x: kc.array[F], y: kc.array[F]):
    i = kc.tid()
    y[i] = x[i] * x[i]


@kc.kernel
def tripled(x: kc.array[F], y: kc.array[F]):
    i = kc.tid()
    y[i] = 3.0 * x[i]


@kc.kernel
def added(x: kc.array[F], y: kc.array[F]):
    i = kc.tid()
    kc.atomic_add(y, i, 2.0 * x[i])


@kc.kernel
def lowered(x: kc.array[F], y: kc.array[F]):
    i = kc.tid()
    kc.atomic_min(y, i, x[i])


@kc.kernel
def decayed(y: kc.array[F]):
    i = kc.tid()
    y[i] = y[i] * 0.5


@kc.kernel
def weighted(y: kc.array[F], loss: kc.array[F]):
    i = kc.tid()
    kc.atomic_add(loss, 0, y[i] * (F(i) + 1.0))


@kc.kernel
def step(states: kc.array2d[F], t: int):
    i = kc.tid()
    states[t + 1, i] = 2.0 * states[t, i]


@kc.kernel
def scattered(x: kc.array[F], at: kc.array[int], y: kc.array[F]):
    i = kc.tid()
    y[at[i]] = x[i]


def numbers(*values: float, retained: bool = False) -> kc.Array:
    return kc.array(list(values), dtype=F, requires_grad=True, retain_grad=retained)


def gradient(array: kc.Array) -> list[Any]:
    assert array.grad is not None
    return array.grad.numpy().tolist()


def once(y: kc.Array, loss: kc.Array) -> list[kc.Array]:
    x = numbers(1.0, 2.0, 3.0)
    kc.launch(squares, 3, [x], [y])
    kc.launch(weighted, 3, [y], [loss])
    return [x]


def twice(y: kc.Array, loss: kc.Array) -> list[kc.Array]:
    x, other = numbers(1.0, 2.0, 3.0), numbers(4.0, 5.0, 6.0)
    kc.launch(tripled, 3, [x], [y])
    kc.launch(weighted, 3, [y], [loss])
    kc.launch(tripled, 3, [other], [y])
    kc.launch(weighted, 3, [y], [loss])
    kc.launch(weighted, 3, [y], [loss])
    return [x, other]


def in_place(y: kc.Array, loss: kc.Array) -> list[kc.Array]:
    x = numbers(1.0, 2.0, 3.0)
    kc.launch(squares, 3, [x], [y])
    kc.launch(weighted, 3, [y], [loss])
    kc.launch(decayed, 3, [y])
    kc.launch(weighted, 3, [y], [loss])
    return [x]


def sums(y: kc.Array, loss: kc.Array) -> list[kc.Array]:
    x, other = numbers(1.0, 2.0, 3.0), numbers(4.0, 5.0, 6.0)
    kc.launch(squares, 3, [x], [y])
    kc.launch(added, 3, [x], [y])
    kc.launch(weighted, 3, [y], [loss])
    kc.launch(added, 3, [other], [y])
    kc.launch(weighted, 3, [y], [loss])
    return [x, other]


def minima(y: kc.Array, loss: kc.Array) -> list[kc.Array]:
    x = numbers(-1.0, 2.0, -3.0)
    kc.launch(lowered, 3, [x], [y])
    kc.launch(weighted, 3, [y], [loss])
    return [x]


def views(y: kc.Array, loss: kc.Array) -> list[kc.Array]:
    x = numbers(1.0, 2.0)
    kc.launch(squares, 1, [x[:1]], [y[:1]])
    kc.launch(squares, 2, [x], [y[1:]])
    kc.launch(weighted, 3, [y], [loss])
    kc.launch(tripled, 1, [x[1:]], [y[2:]])
    kc.launch(weighted, 3, [y], [loss])
    return [x]


def whole_then_part(y: kc.Array, loss: kc.Array) -> list[kc.Array]:
    x = numbers(1.0, 2.0, 3.0)
    kc.launch(tripled, 1, [x[:1]], [y[:1]])
    kc.launch(weighted, 3, [y], [loss])
    kc.launch(tripled, 3, [x], [y])
    kc.launch(weighted, 3, [y], [loss])
    kc.launch(squares, 1, [x[:1]], [y[::2][:1]])
    kc.launch(weighted, 3, [y], [loss])
    return [x]


def assigned(y: kc.Array, loss: kc.Array) -> list[kc.Array]:
    x = numbers(1.0, 2.0, 3.0)
    y.assign(x)
    kc.launch(weighted, 3, [y], [loss])
    kc.copy(y, x, 1, 0, 2)
    kc.launch(weighted, 3, [y], [loss])
    return [x]


def scatter(y: kc.Array, loss: kc.Array) -> list[kc.Array]:
    x = numbers(1.0, 2.0)
    at = kc.array([2, 0], dtype=int)
    y.zero_()
    kc.launch(scattered, 2, [x, at], [y])
    kc.launch(weighted, 3, [y], [loss])
    return [x]


def squared_here(y: kc.Array, loss: kc.Array) -> list[kc.Array]:
    """The launch of ``squares`` by a function that is recorded."""
    x = numbers(1.0, 2.0, 3.0)
    y.numpy()[:] = x.numpy() ** 2
    y.mark_write()

    def backward() -> None:
        assert x.grad is not None
        assert y.grad is not None
        x.grad.assign(x.grad.numpy() + 2.0 * x.numpy() * y.grad.numpy())
        y.grad.zero_()

    tape = recording()
    assert isinstance(tape, kc.Tape)
    tape.record_func(backward, [x, y], outputs=[y])
    kc.launch(weighted, 3, [y], [loss])
    return [x]


# What y retains: the cotangent of the elements that the last store left.
PROGRAMS: dict[str, tuple[Callable[[kc.Array, kc.Array], list[kc.Array]], list[float]]] = {
    "once": (once, [1.0, 2.0, 3.0]),
    "twice": (twice, [2.0, 4.0, 6.0]),
    "in_place": (in_place, [1.0, 2.0, 3.0]),
    # Additions overwrite nothing: both sums after the squares count.
    "sums": (sums, [2.0, 4.0, 6.0]),
    "minima": (minima, [1.0, 2.0, 3.0]),
    "views": (views, [2.0, 4.0, 3.0]),
    "whole_then_part": (whole_then_part, [1.0, 4.0, 6.0]),
    "assigned": (assigned, [2.0, 2.0, 3.0]),
    "scatter": (scatter, [1.0, 2.0, 3.0]),
    "function": (squared_here, [1.0, 2.0, 3.0]),
}


def recorded(name: str, retained: bool) -> tuple[kc.Tape, kc.Array, kc.Array, list[kc.Array]]:
    y, loss = numbers(0.0, 0.0, 0.0, retained=retained), numbers(0.0)
    with kc.Tape() as tape:
        inputs = PROGRAMS[name][0](y, loss)
    return tape, y, loss, inputs


def passes_of(tape: kc.Tape, loss: kc.Array) -> list[Callable[[], None]]:
    """Backward passes that start in all ways."""

    def with_a_cotangent() -> None:
        assert loss.grad is not None
        loss.grad.fill_(1.0)
        tape.backward()

    return [
        *(lambda: tape.backward(loss), lambda: tape.backward(loss)),
        *(with_a_cotangent, with_a_cotangent, tape.backward),
        *(tape.zero, with_a_cotangent, lambda: tape.backward(grads={loss: np.array([2.0])})),
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cotangent_of_the_last_value_is_retained(name: str) -> None:
    for _ in range(2):
        # The second launches are recorded by native code.
        tape, y, loss, _ = recorded(name, True)
        for _ in range(2):
            tape.backward(loss)
            assert gradient(y) == PROGRAMS[name][1]
        assert tape.gradients[y] is y.grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_other_gradients_are_as_without(name: str) -> None:
    tape, _, loss, inputs = recorded(name, True)
    plain, _, plain_loss, plain_inputs = recorded(name, False)
    pairs = zip(passes_of(tape, loss), passes_of(plain, plain_loss), strict=True)
    for run, run_plain in pairs:
        run()
        run_plain()
        for a, b in zip([loss, *inputs], [plain_loss, *plain_inputs], strict=True):
            assert gradient(a) == gradient(b)


def test_a_loss_and_intermediates_retain_theirs() -> None:
    x, y, z = numbers(3.0), numbers(0.0, retained=True), numbers(0.0, retained=True)
    with kc.Tape() as tape:
        kc.launch(squares, 1, [x], [y])
        kc.launch(squares, 1, [y], [z])
    tape.backward(z)
    assert (gradient(z), gradient(y), gradient(x)) == ([1.0], [18.0], [108.0])
    tape.zero()
    assert gradient(z) == gradient(y) == [0.0]


def test_rows_of_one_array_retain_theirs() -> None:
    states = kc.zeros((4, 2), dtype=F, requires_grad=True, retain_grad=True)
    loss = numbers(0.0)
    with kc.Tape() as tape:
        for t in range(3):
            kc.launch(tripled, 2, [states[t]], [states[t + 1]])
        kc.launch(weighted, 2, [states[3]], [loss])
    tape.backward(loss)
    assert gradient(states) == [[27.0, 54.0], [9.0, 18.0], [3.0, 6.0], [1.0, 2.0]]


def test_elements_that_may_not_be_stored_are_refused() -> None:
    states = kc.zeros((3, 2), dtype=F, requires_grad=True, retain_grad=True)
    loss = numbers(0.0)
    with kc.Tape() as tape:
        for t in range(2):
            kc.launch(step, 2, [states, t])
        kc.launch(weighted, 2, [states[2]], [loss])
    with pytest.raises(
        KernelGradError, match=r"launch of step.*'states' retains(.|\n)*states\[t\]"
    ):
        tape.backward(loss)
    states.retain_grad = False
    tape.zero()
    tape.backward(loss)
    assert gradient(states) == [[4.0, 8.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_tape_goes_on_from_what_another_one_left() -> None:
    found: list[list[float]] = []
    for retained in (False, True):
        x, u, loss = numbers(1.0, 2.0, 3.0), numbers(0.0, 0.0, 0.0, retained=retained), numbers(0.0)
        with kc.Tape() as first:
            kc.launch(squares, 3, [x], [u])
        with kc.Tape() as second:
            kc.launch(decayed, 3, [u])
            kc.launch(weighted, 3, [u], [loss])
        second.backward(loss)
        assert gradient(u) == ([1.0, 2.0, 3.0] if retained else [0.5, 1.0, 1.5])
        first.backward()
        found.append(gradient(x))
    assert found == [[1.0, 4.0, 9.0]] * 2


def test_replays_of_a_captured_pass_retain_it() -> None:
    x, y, loss = numbers(1.0, 2.0, 3.0), numbers(0.0, 0.0, 0.0, retained=True), numbers(0.0)
    with kc.Tape() as tape:
        kc.launch(squares, 3, [x], [y])
        kc.launch(weighted, 3, [y], [loss])
    with kc.ScopedCapture() as capture:
        tape.backward(loss)
    for count in (1.0, 2.0, 3.0):
        kc.capture_launch(capture.graph)
        assert gradient(y) == [1.0, 2.0, 3.0]
        assert gradient(x) == [2.0 * count, 8.0 * count, 18.0 * count]
    with pytest.raises(KernelGradError, match="give loss or grads"), kc.ScopedCapture():
        tape.backward()


@kc.struct
class Particle:
    position: kc.vec3d
    mass: kc.float64


@kc.kernel
def moved(p: kc.array[Particle], q: kc.array[Particle]):
    i = kc.tid()
    q[i].position = 2.0 * p[i].position
    q[i].mass = 3.0 * p[i].mass


@kc.kernel
def energy(p: kc.array[Particle], loss: kc.array[F]):
    i = kc.tid()
    kc.atomic_add(loss, 0, p[i].mass * kc.dot(p[i].position, p[i].position))


def test_fields_of_structs_retain_theirs() -> None:
    p = kc.array(
        [Particle(position=kc.vec3d(1.0, 2.0, 3.0), mass=5.0)], dtype=Particle, requires_grad=True
    )
    q = kc.zeros(1, dtype=Particle, requires_grad=True, retain_grad=True)
    loss = numbers(0.0)
    with kc.Tape() as tape:
        kc.launch(moved, 1, [p], [q])
        kc.launch(energy, 1, [q], [loss])
    tape.backward(loss)
    for array, position, mass in (
        (q, [60.0, 120.0, 180.0], 56.0),
        (p, [120.0, 240.0, 360.0], 168.0),
    ):
        assert array.fields is not None
        assert gradient(array.fields["position"]) == [position]
        assert gradient(array.fields["mass"]) == [mass]


def test_views_share_it_and_copies_do_not() -> None:
    y = numbers(1.0, 2.0, retained=True)
    assert y.retain_grad
    assert y[:1].reshape(1, 1).retain_grad
    with pytest.raises(KernelArgumentError, match="set retain_grad of that array"):
        y[:1].retain_grad = False
    assert not kc.clone(y).retain_grad
    assert not y.clone().retain_grad
    assert kc.clone(y, retain_grad=True).retain_grad
    assert copy.deepcopy(y).retain_grad
    assert pickle.loads(pickle.dumps(y)).retain_grad
    y.requires_grad = False
    assert not y.retain_grad
    assert not kc.zeros(2, dtype=int, requires_grad=True, retain_grad=True).retain_grad


MAKERS: dict[str, Callable[..., kc.Array]] = {
    "zeros": lambda **flags: kc.zeros(2, dtype=F, **flags),
    "ones": lambda **flags: kc.ones(2, dtype=F, **flags),
    "empty": lambda **flags: kc.empty(2, dtype=F, **flags),
    "full": lambda **flags: kc.full(2, 1.0, dtype=F, **flags),
    "zeros_like": lambda **flags: kc.zeros_like(kc.zeros(2), **flags),
    "ones_like": lambda **flags: kc.ones_like(kc.zeros(2), **flags),
    "empty_like": lambda **flags: kc.empty_like(kc.zeros(2), **flags),
    "full_like": lambda **flags: kc.full_like(kc.zeros(2), 1.0, **flags),
    "clone": lambda **flags: kc.clone(kc.zeros(2), **flags),
    "array": lambda **flags: kc.array([1.0], dtype=F, **flags),
    "shared": lambda **flags: kc.array(np.ones(2), copy=False, device="cpu", **flags),
    "from_numpy": lambda **flags: kc.from_numpy(np.ones(2), **flags),
}


@pytest.mark.parametrize("name", MAKERS)
def test_functions_that_make_arrays_take_it(name: str) -> None:
    assert MAKERS[name](requires_grad=True, retain_grad=True).retain_grad
    assert not MAKERS[name](requires_grad=True).retain_grad
    with pytest.raises(KernelArgumentError, match="requires_grad=True too"):
        MAKERS[name](retain_grad=True)


def test_tensors_keep_their_gradients() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    y, loss = kc.from_torch(tensor, retain_grad=True), numbers(0.0)
    with kc.Tape() as tape, kc.ScopedDevice("cpu"):
        once(y, loss)
    tape.backward(loss)
    assert tensor.grad.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(KernelArgumentError, match="requires_grad=True too"):
        kc.from_torch(torch.zeros(3), retain_grad=True)
