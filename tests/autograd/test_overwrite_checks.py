"""Every way to overwrite what a Tape needs is an error, or leaves the gradient right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import kernelcore as kc

F64 = kc.array(dtype=kc.float64)


@kc.kernel
def square(x: F64, y: F64):
    i = kc.tid()
    y[i] = x[i] * x[i]


@kc.kernel
def put(x: F64, value: kc.float64):
    x[kc.tid()] = value


def array(*values: float) -> kc.Array:
    return kc.array(np.array(values), dtype=kc.float64, requires_grad=True)


def through_numpy(x: kc.Array) -> None:
    x.numpy()[0] = 9.0
    x.mark_write()


def through_torch(x: kc.Array) -> None:
    torch.from_dlpack(x).fill_(9.0)
    x.mark_write()


def by_a_command(x: kc.Array) -> None:
    command = kc.launch(put, 3, [x, 9.0], record_cmd=True)
    assert command is not None
    command.launch()


WRITES: dict[str, Callable[[kc.Array], object]] = {
    "assign": lambda x: x.assign(np.ones(3)),
    "fill_": lambda x: x.fill_(9.0),
    "zero_": lambda x: x.zero_(),
    "element": lambda x: x.__setitem__(0, 9.0),
    "slice": lambda x: x.__setitem__(slice(0, 2), 9.0),
    "view": lambda x: x[1:].fill_(9.0),
    "view of a view": lambda x: x[::-1][:2].assign(np.ones(2)),
    "reshaped": lambda x: x.reshape(3, 1).fill_(9.0),
    "other elements": lambda x: x.view(kc.int64).fill_(1),
    "copy": lambda x: kc.copy(x, array(7.0, 8.0, 9.0)),
    "launch": lambda x: kc.launch(put, 3, [x, 9.0]),
    "launch on a view": lambda x: kc.launch(put, 1, [x[2:], 9.0]),
    "launch without record": lambda x: kc.launch(put, 3, [x, 9.0], record_tape=False),
    "command": by_a_command,
    "numpy": through_numpy,
    "torch": through_torch,
}
# Those that a Tape which is active sees before they happen.
UNSEEN = {"launch without record", "numpy", "torch"}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("when", ["recorded", "after"])
def test_a_write_to_an_array_of_the_backward_pass_is_an_error(name: str, when: str) -> None:
    x, y = array(2.0, 3.0, 4.0), array(0.0, 0.0, 0.0)
    with kc.Tape() as tape:
        kc.launch(square, 3, [x], [y])
        if when == "recorded":
            WRITES[name](x)
    if when == "after":
        WRITES[name](x)
    with pytest.raises(kc.KernelGradError, match=r"the launch of square .* needs 'x' as it was"):
        tape.backward(grads={y: np.ones(3)})


@pytest.mark.parametrize("name", [n for n in WRITES if n not in UNSEEN])
def test_elements_can_be_kept_before_they_are_overwritten(name: str) -> None:
    x, y = array(2.0, 3.0, 4.0), array(0.0, 0.0, 0.0)
    with kc.Tape(keep_overwritten=True) as tape:
        kc.launch(square, 3, [x], [y])
        WRITES[name](x)
    tape.backward(grads={y: np.ones(3)})
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), [4.0, 6.0, 8.0])


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_an_unneeded_array_is_allowed(name: str) -> None:
    x, y = array(2.0, 3.0, 4.0), array(0.0, 0.0, 0.0)
    with kc.Tape() as tape:
        kc.launch(square, 3, [x], [y])
    WRITES[name](y)
    tape.backward(grads={y: np.ones(3)})
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), [4.0, 6.0, 8.0])
