"""Eager calls below torch.vmap, most of which pass the dispatcher by."""

# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

import kernelcore as kc
from kernelcore.base.errors import KernelArgumentError
from tests.helpers.vectorised.case import F32
from torch_ext import torch_op
from torch_ext.vmap import batched_call

VEC3 = kc.array1d[kc.vec3]


@torch_op
@kc.kernel
def scaled(x: F32, n: kc.int32, y: F32):
    i = kc.tid()
    y[i] = kc.sin(x[i]) * float(n)


@torch_op
@kc.kernel
def lengths(x: VEC3, y: F32):
    i = kc.tid()
    y[i] = kc.length(x[i])


@torch_op
@kc.kernel
def chosen(x: F32, flag: kc.bool, y: F32):
    i = kc.tid()
    y[i] = x[i] if flag else 0.0


@torch_op
@kc.kernel
def added(x: F32, w: F32, y: F32):
    i = kc.tid()
    y[i] = x[i] + w[i]


def points(*shape: int) -> torch.Tensor:
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape)


@pytest.mark.parametrize("where", [0, 1, 2])
def test_components_may_stand_before_the_batch(where: int) -> None:
    x = points(4, 2, 3)
    found = torch.vmap(lengths, in_dims=where)(x.movedim(0, where))
    torch.testing.assert_close(found, x.norm(dim=-1))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((points(4, 2).double(), 2), r"'x'.*float32"),
        ((points(4, 2, 5), 2), r"'x'.*1 dimension"),
        ((points(4, 2), 1 << 40), r"'n'.*int32"),
        ((points(4, 2), 1.5), r"'n'.*int32"),
    ],
)
def test_errors_name_what_an_instance_has(args: Any, message: str) -> None:
    call = torch.vmap(scaled, in_dims=(0, None))
    with pytest.raises(KernelArgumentError, match=f"(?s){message}"):
        call(*args)
    assert not torch._C._are_functorch_transforms_active()
    assert call(points(4, 2), 2).shape == (4, 2)


@pytest.mark.parametrize("flag", [1, 2.5, None])
def test_values_that_are_no_bools_are_refused(flag: Any) -> None:
    with pytest.raises(KernelArgumentError, match=r"(?s)'flag'.*bool"):
        torch.vmap(chosen, in_dims=(0, None))(points(4, 2), flag)
    assert torch.equal(torch.vmap(chosen, in_dims=(0, None))(points(4, 2), True), points(4, 2))


def test_an_error_of_an_instance_is_the_only_one() -> None:
    with pytest.raises(KernelArgumentError) as caught:
        torch.vmap(scaled, in_dims=(0, None))(points(4, 2).double(), 2)
    assert caught.value.__context__ is None


def test_other_components_are_refused() -> None:
    with pytest.raises(KernelArgumentError, match=r"(?s)'x'.*3 float32 components.*shape \(2, 4\)"):
        torch.vmap(lengths)(points(5, 2, 4))


def test_gradients_and_their_gradients() -> None:
    x = points(3, 5).requires_grad_()
    (first,) = torch.autograd.grad(torch.vmap(scaled, (0, None))(x, 2).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(first, 2.0 * x.cos())
    torch.testing.assert_close(second, -2.0 * x.sin())


def test_graphs_have_the_operator() -> None:
    traced = make_fx(torch.vmap(lambda x: scaled(x, 2)))(points(3, 5))
    x = points(4, 5)[1:]
    torch.testing.assert_close(traced(x), 2.0 * x.sin())


def test_function_modes_see_the_operator() -> None:
    seen: list[str] = []

    class Watching(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Watching():
        torch.vmap(scaled, (0, None))(points(3, 5), 2)
    assert any("scaled" in name and "vmap" not in name for name in seen)


def test_subclasses_take_part() -> None:
    class Marked(torch.Tensor):
        pass

    x = points(3, 5).as_subclass(Marked)
    found = torch.vmap(scaled, (0, None))(x, 2)
    torch.testing.assert_close(torch.Tensor(found), 2.0 * points(3, 5).sin())


@pytest.fixture(name="passed")
def _passed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every call in Python whether it passed the dispatcher by."""
    found: list[bool] = []

    def recording(operator: Any, args: Any) -> Any:
        result = batched_call(operator, args)
        found.append(result is not NotImplemented)
        return result

    monkeypatch.setattr("torch_ext.call.batched_call", recording)
    return found


def test_plain_calls_pass_the_dispatcher_by(passed: list[bool]) -> None:
    call = torch.vmap(scaled, (0, None))
    call(points(3, 5), 2)
    call(points(3, 5).requires_grad_(), 2)
    torch.vmap(lengths)(points(4, 2, 3))
    assert passed == [True, True, True]


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.func.grad(lambda x: torch.vmap(scaled, (0, None))(x, 2).sum())(points(3, 5)),
        lambda: torch.vmap(torch.func.grad(lambda x: scaled(x, 2).sum()))(points(3, 5)),
    ],
)
def test_gradients_inside_and_outside(call: Callable[[], torch.Tensor]) -> None:
    torch.testing.assert_close(call(), 2.0 * points(3, 5).cos())


def test_sparse_tensors_are_refused() -> None:
    with pytest.raises((KernelArgumentError, RuntimeError)):
        torch.vmap(scaled, (0, None))(points(3, 5).to_sparse(), 2)
    assert not torch._C._are_functorch_transforms_active()


def test_errors_of_a_launch_leave_no_transform(passed: list[bool]) -> None:
    with pytest.raises(KernelArgumentError):
        torch.vmap(added)(points(3, 5), points(3, 4))
    assert not passed  # The error came out of the call.
    assert not torch._C._are_functorch_transforms_active()
    found = torch.vmap(added)(points(3, 5), points(3, 5))
    torch.testing.assert_close(found, 2.0 * points(3, 5))
