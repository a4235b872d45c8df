"""What a Tape remembers of a launch holds for launches that are alike, and for no others."""

from __future__ import annotations

import gc
from weakref import ref

import numpy as np
import pytest

import kernelcore as kc


@kc.kernel
def weighted(x: kc.array(dtype=float), w: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = w * x[i] * x[i]


def gradients(x: kc.Array, w: object, y: kc.Array) -> None:
    with kc.Tape() as tape:
        kc.launch(weighted, 2, [x, w], [y])
    tape.backward(grads={y: np.ones(2, np.float32)})


def values(data: object, *, requires_grad: bool = True) -> kc.Array:
    return kc.array(data, dtype=float, requires_grad=requires_grad)


def test_arguments_of_other_kinds_have_plans_of_their_own() -> None:
    x, y = values([1.0, 2.0]), values([0.0, 0.0])
    gradients(x, 3.0, y)
    assert x.grad is not None
    assert x.grad.list() == [6.0, 12.0]
    w = values(2.0)
    gradients(x, w, y)
    assert x.grad.list() == [10.0, 20.0]
    assert w.grad is not None
    assert w.grad.list() == [5.0]
    x.requires_grad = False
    gradients(x, w, y)
    assert x.grad is None
    assert w.grad.list() == [10.0]
    gradients(x, np.float32(4.0), y)
    x.requires_grad = True
    gradients(x, 1.0, y)
    assert x.grad is not None
    assert x.grad.list() == [12.0, 24.0]


def test_gradients_that_share_memory_are_found_among_arrays_that_are_known() -> None:
    x, y = values([1.0, 2.0]), values([0.0, 0.0])
    for _ in range(2):
        gradients(x, 1.0, y)
    x.grad = y.grad
    gradients(x, 1.0, y)
    assert x.grad is not None
    assert x.grad.list() == [2.0, 4.0]
    x.grad = None
    gradients(x, 1.0, y)
    assert x.grad is not None
    assert x.grad.list() == [2.0, 4.0]


def test_a_refusal_is_not_forgotten_once_there_is_a_plan() -> None:
    x, y = values([1.0, 2.0]), values([0.0, 0.0])
    w = kc.array(2.0, dtype=kc.float64, requires_grad=True)
    for given in (values(2.0), w, values(2.0)):
        if given is w:
            with pytest.raises(kc.KernelArgumentError, match="expected a float32 value"):
                gradients(x, given, y)
        else:
            gradients(x, given, y)


def test_a_tape_goes_with_its_last_reference() -> None:
    x, y = values([1.0, 2.0]), values([0.0, 0.0])
    gc.collect()
    gc.disable()
    try:
        with kc.Tape(), kc.Tape() as tape:
            kc.launch(weighted, 2, [x, 1.0], [y])
        tape.backward(grads={y: np.ones(2, np.float32)})
        held = ref(x)
        del tape, x
        assert held() is None
    finally:
        gc.enable()


def test_a_list_of_extents_may_change_after_the_launch() -> None:
    x, y = values([1.0, 2.0]), values([0.0, 0.0])
    for _ in range(3):
        dim = [2]
        with kc.Tape() as tape:
            kc.launch(weighted, dim, [x, 1.0], [y])
        dim[0] = 1
        tape.zero()
        tape.backward(grads={y: np.ones(2, np.float32)})
        assert x.grad is not None
        assert x.grad.list() == [2.0, 4.0]


@pytest.mark.parametrize("earlier", [0, 2])
def test_a_gradient_that_is_gone_is_refused(earlier: int) -> None:
    x, y = values([1.0, 2.0]), values([0.0, 0.0])
    for _ in range(earlier):
        gradients(x, 1.0, y)
    with kc.Tape() as tape:
        kc.launch(weighted, 2, [x, 1.0], [y])
    x.requires_grad = False
    with pytest.raises(kc.KernelGradError, match="gradient of 'x', which is gone"):
        tape.backward(grads={y: np.ones(2, np.float32)})


def test_gradients_are_not_kept_in_memory_that_is_read_only() -> None:
    x, constant = values([1.0, 2.0]), np.zeros(2, np.float32)
    constant.flags.writeable = False
    with pytest.raises(kc.KernelArgumentError, match="read-only"):
        x.grad = kc.array(constant, copy=False)


def test_record_numbers_count_fast_launches() -> None:
    x, y, z = values([1.0, 2.0]), values([0.0, 0.0]), values([0.0, 0.0])
    for _ in range(2):
        gradients(x, 1.0, y)
        gradients(y, 1.0, z)
    x.grad = None
    with kc.Tape(keep_overwritten=True) as tape:
        kc.launch(weighted, 2, [x, 1.0], [y])
        kc.launch(weighted, 2, [y, 1.0], [z])
        kc.launch(weighted, 2, [z, 1.0], [x])
    tape.backward(grads={x: np.ones(2, np.float32)})
    assert x.grad is not None
    assert x.grad.list() == [8.0, 8.0 * 2.0**7]
