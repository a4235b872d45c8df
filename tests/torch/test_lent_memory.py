"""Arrays over tensors keep the memory of the tensor, or notice that torch took it back."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch

import kernelcore as kc
from kernelcore.base.errors import KernelArgumentError
from torch_ext import from_torch, overload, torch_op

# Large enough that freed memory goes back to the system, where reading it crashes.
COUNT = 1 << 20


@kc.kernel
def doubled(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = 2.0 * x[i]


class Subclass(torch.Tensor):
    pass


MAKERS: dict[str, Callable[[Any], Any]] = {
    "from_torch": from_torch,
    "handle": lambda t: from_torch(t, return_ctype=True),
    "from_dlpack": kc.from_dlpack,
    "array": lambda t: kc.array(t, copy=False),
    "view": lambda t: from_torch(t)[0:COUNT],
    "subclass": lambda t: from_torch(t.as_subclass(Subclass)),
}
REPLACEMENTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "data": lambda t: setattr(t, "data", torch.zeros(2)),
    "set_": lambda t: cast(Any, t).set_(),
}
RESIZES: dict[str, Callable[[torch.Tensor], Any]] = {
    "resize_": lambda t: t.resize_(16 * COUNT),
    "storage": lambda t: t.untyped_storage().resize_(0),
    "shared": lambda t: t.share_memory_(),
}


def run(x: Any) -> np.ndarray[Any, Any]:
    y = np.empty(COUNT, np.float32)
    kc.launch(doubled, COUNT, [x], [y])
    return y


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("replace", REPLACEMENTS.values(), ids=REPLACEMENTS.keys())
def test_the_storage_is_kept_where_the_tensor_gets_another(
    make: Callable[[Any], Any], replace: Callable[[torch.Tensor], Any]
) -> None:
    t = torch.arange(COUNT, dtype=torch.float32)
    x = make(t)
    replace(t)
    gc.collect()
    np.testing.assert_array_equal(run(x), 2 * np.arange(COUNT, dtype=np.float32))


def test_an_array_over_a_parameter_outlives_a_conversion_of_its_module() -> None:
    module = torch.nn.Linear(1024, 1024)
    x = from_torch(module.weight, requires_grad=False)
    expected = module.weight.detach().clone()
    module.double()
    gc.collect()
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("resize", RESIZES.values(), ids=RESIZES.keys())
def test_memory_that_torch_takes_back_is_refused(
    make: Callable[[Any], Any], resize: Callable[[torch.Tensor], Any]
) -> None:
    t = torch.arange(COUNT, dtype=torch.float32)
    x = make(t)
    run(x)
    resize(t)
    message = "argument 'x'.*whose storage was resized or moved"
    with pytest.raises(KernelArgumentError, match=message):
        run(x)


USES: dict[str, Callable[[kc.Array], Any]] = {
    "numpy": lambda a: a.numpy(),
    "element": lambda a: a[0],
    "write": lambda a: a.fill_(1.0),
    "clone": lambda a: a.clone(),
    "list": lambda a: a.list(),
    "dlpack": lambda a: a.__dlpack__(),
    "torch": torch.from_dlpack,
    "asarray": np.asarray,
    "text": repr,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_every_other_use_of_memory_taken_back_is_refused(use: Callable[[Any], Any]) -> None:
    t = torch.arange(COUNT, dtype=torch.float32)
    x = from_torch(t)
    use(x)
    t.untyped_storage().resize_(0)
    with pytest.raises(KernelArgumentError, match="make the array again"):
        use(x)


CUTS: dict[str, Callable[[], torch.Tensor]] = {
    "whole": lambda: torch.ones(COUNT),
    "offset": lambda: torch.ones(2 * COUNT)[COUNT:],
    "strided": lambda: torch.ones(2 * COUNT)[::2],
}


@pytest.mark.parametrize("kept_bytes", [0, 64, 4 * COUNT - 4])
@pytest.mark.parametrize("make", CUTS.values(), ids=CUTS.keys())
def test_a_storage_that_is_smaller_than_its_tensor_is_refused(
    make: Callable[[], torch.Tensor], kept_bytes: int
) -> None:
    t = make()
    run(t)
    op = torch_op(doubled)
    op(t)
    t.untyped_storage().resize_(kept_bytes)
    message = "storage ends before its last|no memory|without"
    for call in (lambda: run(t), lambda: op(t), lambda: from_torch(t)):
        with pytest.raises((KernelArgumentError, RuntimeError), match=message):
            call()


@pytest.mark.parametrize("kept_bytes", [0, 64, 4 * COUNT - 4])
@pytest.mark.parametrize("make", CUTS.values(), ids=CUTS.keys())
def test_registered_operators_refuse_a_storage_that_is_smaller_than_its_tensor(
    make: Callable[[], torch.Tensor], kept_bytes: int
) -> None:
    op, t = overload(torch_op(doubled)), make()
    compiled = torch.compile(lambda x: op(x), backend="aot_eager")
    for call in (op, compiled):
        assert call(t)[-1] == 2.0
    t.untyped_storage().resize_(kept_bytes)
    message = "storage ends before its last|no memory|without"
    for call in (op, compiled):
        with pytest.raises((KernelArgumentError, RuntimeError), match=message):
            call(t)


def test_registered_operators_take_a_part_that_is_left() -> None:
    t = torch.ones(4 * COUNT)
    part = t[COUNT : 2 * COUNT]
    t.untyped_storage().resize_(8 * COUNT)
    op = overload(torch_op(doubled))
    assert op(part).tolist() == [2.0] * COUNT
    empty = torch.ones(3)[3:]
    empty.untyped_storage().resize_(0)
    assert op(empty).shape == (0,)


def test_a_tensor_of_a_part_that_is_left_is_taken() -> None:
    t = torch.ones(4 * COUNT)
    part = t[COUNT : 2 * COUNT]
    t.untyped_storage().resize_(8 * COUNT)
    np.testing.assert_array_equal(run(part), np.full(COUNT, 2, np.float32))
    empty = torch.ones(3)[3:]
    empty.untyped_storage().resize_(0)
    kc.launch(doubled, 0, [empty], [np.zeros(0, np.float32)])


def test_a_resize_within_the_storage_is_no_loss() -> None:
    t = torch.arange(COUNT, dtype=torch.float32)
    x = from_torch(t)
    t.resize_(4)
    np.testing.assert_array_equal(run(x), 2 * np.arange(COUNT, dtype=np.float32))


@pytest.mark.parametrize("replace", REPLACEMENTS.values(), ids=REPLACEMENTS.keys())
def test_a_captured_launch_keeps_the_storage(replace: Callable[[torch.Tensor], Any]) -> None:
    t = torch.arange(COUNT, dtype=torch.float32)
    y = np.zeros(COUNT, np.float32)
    with kc.ScopedCapture() as capture:
        kc.launch(doubled, COUNT, [t], [y])
    replace(t)
    gc.collect()
    kc.capture_launch(capture.graph)
    np.testing.assert_array_equal(y, 2 * np.arange(COUNT, dtype=np.float32))


@pytest.mark.parametrize("resize", RESIZES.values(), ids=RESIZES.keys())
def test_a_captured_launch_refuses_memory_taken_back(
    resize: Callable[[torch.Tensor], Any],
) -> None:
    t = torch.arange(COUNT, dtype=torch.float32)
    with kc.ScopedCapture() as capture:
        kc.launch(doubled, COUNT, [t], [np.zeros(COUNT, np.float32)])
    resize(t)
    with pytest.raises(KernelArgumentError, match="whose storage was resized or moved"):
        kc.capture_launch(capture.graph)


def test_a_condition_keeps_its_storage() -> None:
    flag = torch.ones(COUNT // COUNT, dtype=torch.int32)
    y = np.zeros(COUNT, np.float32)
    with kc.ScopedCapture() as capture:
        kc.capture_if(flag, lambda: kc.launch(doubled, COUNT, [np.ones(COUNT, np.float32)], [y]))
    cast(Any, flag).set_()
    gc.collect()
    kc.capture_launch(capture.graph)
    assert (y == 2.0).all()
