"""What a Tape refuses, since the gradient would be wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.autograd.test_tape import blank, constant, marked, square, total
from tests.helpers.environment import ROOT

Golden = Callable[[str, str], None]
F64 = kc.array(dtype=kc.float64)


@kc.kernel
def clamped_by_all(x: F64, y: F64):
    i = kc.tid()
    kc.atomic_max(y, 0, x[i])
    kc.atomic_min(y, 0, 1.0)


def overwritten_by_a_launch() -> None:
    x, y, z = marked([1.0, 2.0]), blank(2), blank(2)
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [y])
        kc.launch(square, 2, [y], [z])
        kc.launch(constant, 2, [y, 0.0])
    tape.backward(grads={z: np.ones(2)})


def overwritten_by_an_assignment() -> None:
    x, y = marked([1.0, 2.0]), blank(2)
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [y])
        x[0] = 2.0
    tape.backward(grads={y: np.ones(2)})


def overwritten_unseen() -> None:
    x, y = marked([1.0, 2.0]), blank(2)
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [y])
    kc.launch(constant, 2, [x, 0.0])
    tape.backward(grads={y: np.ones(2)})


def overwritten_in_between() -> None:
    x, y, loss = marked([1.0, 2.0]), blank(2), blank()
    with kc.Tape():
        kc.launch(square, 2, [x], [y])
        kc.launch(constant, 2, [y, 0.0], record_tape=False)
        kc.launch(total, 2, [y], [loss])


def cut() -> None:
    x, y, loss = marked([1.0, 2.0]), blank(2, requires_grad=False), blank()
    with kc.Tape():
        kc.launch(square, 2, [x], [y])
        kc.launch(total, 2, [y], [loss])


def cut_twice() -> None:
    x, y, z, loss = marked([1.0, 2.0]), blank(2, False), np.zeros(2), blank()
    with kc.Tape():
        y.assign(x)
        kc.launch(square, 2, [y], [z])
        kc.launch(total, 2, [z], [loss])


def cut_by_a_copy() -> None:
    x, y, z = marked([1.0, 2.0]), blank(2, False), blank(2)
    with kc.Tape():
        kc.launch(square, 2, [x], [y])
        z.assign(y)


def aliased() -> None:
    x = marked([1.0, 2.0])
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [x])
    tape.backward(grads={x: np.ones(2)})


def written_through_another_array() -> None:
    data = np.ones(2)
    x, twin = (kc.array(data, copy=False, requires_grad=True) for _ in range(2))
    with kc.Tape():
        kc.launch(square, 2, [x], [blank(2)])
        kc.launch(square, 2, [blank(2)], [twin])


def written_through_numpy() -> None:
    x, y = marked([1.0, 2.0]), blank(2)
    with kc.Tape():
        kc.launch(square, 2, [x], [y])
        kc.launch(constant, 2, [y.numpy(), 1.0])


def without_derivative() -> None:
    x, y = marked([1.0, 2.0]), blank(1)
    with kc.Tape() as tape:
        kc.launch(clamped_by_all, 2, [x], [y])
    tape.backward(y)


def converted() -> None:
    x, y = kc.ones(2, requires_grad=True), blank(2)
    with kc.Tape() as tape:
        y.assign(x)
    tape.backward(grads={y: np.ones(2)})


def entered_twice() -> None:
    tape = kc.Tape()
    with tape, tape:
        pass


def unrecorded_loss() -> None:
    x, y = marked([1.0]), blank(1)
    with kc.Tape() as tape:
        kc.launch(square, 1, [x], [y])
    tape.backward(blank())


@kc.struct
class Cloud:
    points: kc.array(dtype=kc.float64)  # pyright: ignore[reportInvalidTypeForm]


@kc.kernel
def doubled_in_clouds(clouds: kc.array(dtype=Cloud)):
    i = kc.tid()
    clouds[0].points[i] = clouds[0].points[i] * 2.0


@kc.kernel
def doubled_at(address: kc.uint64):
    i = kc.tid()
    x = kc.array(ptr=address, shape=(2,), dtype=kc.float64)
    x[i] = x[i] * 2.0


def in_clouds(x: Any) -> Any:
    return kc.array([Cloud(points=x)], dtype=Cloud)


def written_in_an_array_of_structs() -> None:
    x = marked([1.0, 2.0])
    y = blank(2)
    with kc.Tape() as tape:
        kc.launch(doubled_in_clouds, 2, [in_clouds(x)])
        kc.launch(square, 2, [x], [y])
    tape.backward(grads={y: np.ones(2)})


def written_at_an_address() -> None:
    x = marked([1.0, 2.0])
    y = blank(2)
    with kc.Tape() as tape:
        kc.launch(doubled_at, 2, [x.ptr])
        kc.launch(square, 2, [x], [y])
    tape.backward(grads={y: np.ones(2)})


def overwritten_in_an_array_of_structs() -> None:
    x, y = marked([1.0, 2.0]), blank(2)
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [y])
        kc.launch(doubled_in_clouds, 2, [in_clouds(x)], record_tape=False)
    assert x.numpy().tolist() == [2.0, 4.0]
    tape.backward(grads={y: np.ones(2)})


def overwritten_by_python() -> None:
    x, y = marked([1.0, 2.0]), blank(2)
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [y])
    with kc.python_mode():
        kc.launch(square, 1, [x[1:]], [x[:1]])
    assert x.numpy().tolist() == [4.0, 2.0]
    tape.backward(grads={y: np.ones(2)})


REFUSED: dict[str, Callable[[], Any]] = {
    f.__name__: f
    for f in (
        overwritten_by_a_launch,
        overwritten_by_an_assignment,
        overwritten_unseen,
        overwritten_in_between,
        cut,
        cut_twice,
        cut_by_a_copy,
        aliased,
        written_through_another_array,
        written_through_numpy,
        written_in_an_array_of_structs,
        written_at_an_address,
        overwritten_in_an_array_of_structs,
        overwritten_by_python,
        without_derivative,
        converted,
        entered_twice,
        unrecorded_loss,
    )
}
REFUSED |= {
    "large_loss": lambda: kc.Tape().backward(blank(2)),
    "loss_without_gradient": lambda: kc.Tape().backward(blank(1, False)),
    "key_without_gradient": lambda: kc.Tape().backward(grads={blank(1, False): np.ones(1)}),
    "cotangent": lambda: kc.Tape().backward(grads={blank(2): np.ones(3)}),
    "language": lambda: kc.Tape().visualize(language="svg"),
    "command_parameter": lambda: kc.Launch(square, 1, [blank(), blank()]).set_param_at_index(2, 0),
}


@pytest.mark.parametrize("case", REFUSED)
def test_no_gradient_is_better_than_a_wrong_one(case: str, golden_error: Golden) -> None:
    with pytest.raises(kc.KernelError) as caught:
        REFUSED[case]()
    text = str(caught.value).replace(f"{ROOT}/", "")
    text = re.sub(r"(line |\.py:)\d+", r"\1N", text)
    golden_error(case, f"{type(caught.value).__name__}: {text}")
