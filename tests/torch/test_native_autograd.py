"""The backward that native code runs keeps every promise of torch's autograd."""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import kernelcore as kc
import torch_ext
from kernelcore import _native
from tests.torch import torch_kernels as k
from torch_ext import torch_op

F64 = torch.float64
blend, polar, quadratic = torch_op(k.blend), torch_op(k.polar), torch_op(k.quadratic)


def leaves(*sizes: int) -> list[torch.Tensor]:
    return [torch.linspace(0.2, 1.5, n, dtype=F64).requires_grad_() for n in sizes]


def test_first_derivatives_run_no_python_of_ours():
    x, y = leaves(4, 4)
    blend(x, y).sum().backward()  # Makes the adjoint.
    folder, seen = torch_ext.__path__[0], []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        blend(x, y).sum().backward()
    finally:
        sys.setprofile(None)
    assert seen == ["blend"]


@kc.kernel
def row_sums(x: kc.array2d(dtype=kc.vec3d), y: kc.array(dtype=kc.vec3d)):
    i = kc.tid()
    total = kc.vec3d(0.0)
    for j in range(x.shape[1]):
        total += x[i, j]
    y[i] = total


@kc.kernel
def column_sums(x: kc.array2d(dtype=kc.float64), y: kc.array(dtype=kc.float64)):
    i, j = kc.tid()
    kc.atomic_add(y, j, x[i, j])


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0)])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_cotangents_that_repeat_a_given_one_are_views(shape, is_transposed):
    rows = torch_op(row_sums, launch_dims="x.shape[0]", output_dims="x.shape[0]")
    columns = torch_op(column_sums, launch_dims="x", output_dims="x.shape[1]")
    x, y = (torch.randn(*shape, *c, dtype=F64, requires_grad=True) for c in ((3,), ()))
    given = torch.randn(shape[0], 3, dtype=F64)
    given = given.mT.contiguous().mT if is_transposed else given
    (found,) = torch.autograd.grad(rows(x), x, given)
    assert torch.equal(found, given[:, None].expand(x.shape))
    assert found.stride() == (given.stride(0), 0, given.stride(1))
    given = torch.randn(shape[1], dtype=F64)
    (found,) = torch.autograd.grad(columns(y), y, given)
    assert torch.equal(found, given.expand(y.shape))
    assert found.stride() == (0, 1)
    # An accumulated gradient has memory of its own.
    for _ in range(2):
        rows(x).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full_like(x, 2.0))
    # The second derivative sees the adjoint as an operation.
    given = torch.randn(shape[0], 3, dtype=F64, requires_grad=True)
    (found,) = torch.autograd.grad(rows(x), x, given, create_graph=True)
    (second,) = torch.autograd.grad(found.sum(), given)
    assert torch.equal(second, torch.full_like(given, shape[1]))


def test_operands_changed_after_the_call_are_refused():
    x, y = leaves(3, 3)
    shifted = x + 0.0
    z = blend(shifted, y)
    shifted.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_saved_operands_go_through_the_hooks_once():
    x, y = leaves(3, 3)
    packed, unpacked = [], []

    def pack(tensor):
        packed.append(tensor)
        return len(packed) - 1

    def unpack(index):
        unpacked.append(index)
        return packed[index].detach() * 2

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        z = blend(x, y)
    found = torch.autograd.grad(z, (x, y), torch.ones(3, dtype=F64))
    assert unpacked == [0, 1]
    assert packed[0] is x
    assert packed[1] is y
    twice = [(2 * t).detach().requires_grad_() for t in (x, y)]
    wanted = torch.autograd.grad(k.blend_torch(*twice).sum(), twice)
    torch.testing.assert_close(found, wanted)


def test_unpacked_tensors_may_be_of_a_subclass():
    class Subclass(torch.Tensor):
        pass

    (x,) = leaves(3)
    unpacked = []

    def unpack(tensor):
        unpacked.append(tensor)
        return tensor.as_subclass(Subclass)

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), unpack):
        z = quadratic(x, 2.0)
    (found,) = torch.autograd.grad(z.sum(), x)
    assert len(unpacked) == 1
    torch.testing.assert_close(found.as_subclass(torch.Tensor), 4 * x.detach())


def test_a_graph_is_kept_or_freed_as_torch_does():
    (x,) = leaves(3)
    z = quadratic(x, 2.0).sum()
    for _ in range(2):
        (found,) = torch.autograd.grad(z, x, retain_graph=True)
        torch.testing.assert_close(found, 4 * x.detach())
    torch.autograd.grad(z, x)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(z, x)


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_results_without_a_cotangent_count_as_zero(used):
    x, y = leaves(3, 3)
    results = [op(x, y) for op in (polar, k.polar_torch)]
    found, wanted = (torch.autograd.grad([r[j].sum() for j in used], (x, y)) for r in results)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("shape_it", [torch.sum, lambda z: z[::2].sum(), lambda z: z.flip(0)[0]])
def test_cotangents_that_are_views(shape_it):
    x, y = leaves(4, 4)
    found, wanted = (
        torch.autograd.grad(shape_it(op(x, y)), (x, y)) for op in (blend, k.blend_torch)
    )
    torch.testing.assert_close(found, wanted)


def test_a_batch_of_cotangents_is_mapped():
    x, y = leaves(3, 3)
    basis = torch.eye(3, dtype=F64)
    found, wanted = (
        torch.autograd.grad(op(x, y), (x, y), basis, is_grads_batched=True)
        for op in (blend, k.blend_torch)
    )
    torch.testing.assert_close(found, wanted)


class Recorded(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_modes_see_the_operators_of_a_backward():
    (x,) = leaves(3)
    z, ones = quadratic(x, 2.0), torch.ones(3, dtype=F64)
    with Recorded() as recorded:
        torch.autograd.grad(z, x, ones)
    assert any("quadratic" in name and "vjp" in name for name in recorded.names)


def test_hooks_are_those_of_a_node():
    (x,) = leaves(3)
    z = quadratic(x, 2.0)
    assert z.grad_fn is not None
    assert z.grad_fn.name() == "quadraticBackward"
    seen = []
    z.grad_fn.register_prehook(lambda grads: seen.append("before") or (grads[0] * 3,))
    z.grad_fn.register_hook(lambda into, _: seen.append("after") or (into[0] + 1, *into[1:]))
    (found,) = torch.autograd.grad(z.sum(), x)
    assert seen == ["before", "after"]
    torch.testing.assert_close(found, 12 * x.detach() + 1)


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected")
def test_anomalies_are_found_in_the_node():
    x = torch.full((2,), float("nan"), dtype=F64, requires_grad=True)
    with (
        torch.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match="'quadraticBackward' returned nan"),
    ):
        quadratic(x, 2.0).sum().backward()


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_recompute_operands(reentrant):
    x, y = leaves(4, 4)
    z = checkpoint(lambda x, y: blend(blend(x, y), y), x, y, use_reentrant=reentrant)
    z.sum().backward()
    twice = [t.detach().requires_grad_() for t in (x, y)]
    k.blend_torch(k.blend_torch(*twice), twice[1]).sum().backward()
    torch.testing.assert_close([x.grad, y.grad], [t.grad for t in twice])


def test_threads_make_gradients_of_their_own():
    found: list[torch.Tensor] = []

    def train() -> None:
        for _ in range(10):
            (x,) = leaves(70000)
            (grad,) = torch.autograd.grad(quadratic(x, 2.0).sum(), x)
            found.append(grad - 4 * x.detach())

    threads = [threading.Thread(target=train) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 30
    assert all(not torch.any(difference) for difference in found)


def test_contexts_that_were_tampered_with_are_refused():
    (x,) = leaves(3)
    z = quadratic(x, 2.0)
    z.grad_fn.native_plan = z.grad_fn.call = 3
    with pytest.raises(kc.KernelError, match="without its plan"):
        z.sum().backward()


def test_state_that_was_never_set_up_is_collected():
    for kind in (_native.TorchFastEntry, _native.TorchForward, _native.TorchGradPlan):
        cycle: list[object] = [kind.__new__(kind)]
        cycle.append(cycle)
        del cycle
    gc.collect()
    (x,) = leaves(3)
    z = quadratic(x, 2.0)
    z.grad_fn.native_plan = _native.TorchGradPlan.__new__(_native.TorchGradPlan)
    with pytest.raises(kc.KernelError, match="without its plan"):
        z.sum().backward()
