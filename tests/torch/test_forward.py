"""Calls of operators without derivatives."""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._subclasses import FakeTensorMode

import kernelcore as kc
from kernelcore.language.types import SCALARS
from tests.torch import torch_kernels as k
from torch_ext import dtype_from_torch, dtype_to_torch, overload, register, torch_op

quadratic = torch_op(k.quadratic)
polar = torch_op(k.polar)
grow = torch_op(k.grow)
take = torch_op(k.take, launch_dims="index")


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_result_is_a_new_contiguous_tensor():
    x = random(7)
    y = quadratic(x, 1.5)
    torch.testing.assert_close(y, 1.5 * x * x)
    assert y.is_contiguous()
    assert not y.requires_grad


@pytest.mark.parametrize(
    "x",
    [
        random(12)[::3],
        random(3, 4)[:, 1],
        random(1).expand(5),
        random(4, 4).diagonal(),
        random(6)[:0],
        random(2, 9).conj()[1],
        torch.nn.Parameter(random(4), requires_grad=False),
    ],
)
def test_any_strides_are_read_as_they_are(x):
    torch.testing.assert_close(quadratic(x, 2.0), 2.0 * x * x)
    torch.testing.assert_close(overload(quadratic)(x, 2.0), 2.0 * x * x)


def test_negated_views_are_resolved():
    z = torch.randn(5, dtype=torch.complex128)
    x = z.conj().imag
    assert x.is_neg()
    torch.testing.assert_close(grow(x, x), (x * x) ** 2)


def test_arguments_are_taken_by_name():
    x = random(4)
    torch.testing.assert_close(quadratic(a=3.0, x=x), 3.0 * x * x)
    torch.testing.assert_close(quadratic(x, a=3), 3.0 * x * x)


@pytest.mark.parametrize("name", [None, "kernelcore_tests::non_ascii"])
def test_names_may_be_any_of_python(name):
    op, x = torch_op(k.λ, name), random(3).requires_grad_()
    compiled = torch.compile(
        lambda x, b: op(α=x, NoneType=0.5, β=b), fullgraph=True, backend="aot_eager"
    )
    for b in (2.0, torch.tensor(2.0, dtype=torch.float64)):
        for y in (op(x, b, 0.5), op(β=b, α=x, NoneType=0.5), compiled(x, b)):
            torch.testing.assert_close(y, x * x)
            torch.testing.assert_close(torch.autograd.grad(y, x, x)[0], 2 * x * x)
    assert str(overload(op)._schema).isascii()
    with pytest.raises(kc.KernelArgumentError, match="argument 'β'"):
        op(x, "2", 1.0)


def test_several_results_are_a_tuple():
    x, y = random(5), random(5)
    results = polar(x, y)
    assert isinstance(results, tuple)
    torch.testing.assert_close(results, k.polar_torch(x, y))


def test_in_out_operand_is_preserved():
    x, state = random(5), random(5)
    before = state.clone()
    torch.testing.assert_close(grow(x, state), k.grow_torch(x, state))
    torch.testing.assert_close(state, before)


def test_indices_integers_and_booleans():
    x, index = random(6), torch.tensor([0, 3, 3, 1], dtype=torch.int32)
    for negate in (False, True):
        found = take(x, index, 1, negate)
        torch.testing.assert_close(found, k.take_torch(x, index, 1, negate))


def test_output_dims_give_the_shape_of_a_reduction():
    x = random(1000)
    op = torch_op(k.energy, output_dims=1)
    torch.testing.assert_close(op(x), k.energy_torch(x))


def test_dynamic_loop_over_a_matrix():
    m, v = random(4, 3), random(3)
    op = torch_op(k.product, launch_dims=("m.shape[0]",))
    torch.testing.assert_close(op(m, v), k.product_torch(m, v))
    torch.testing.assert_close(op(m.T.contiguous().T, v), k.product_torch(m, v))


def test_meta_tensors_give_shapes():
    found = quadratic(torch.empty(7, device="meta", dtype=torch.float64), 2.0)
    assert (found.device.type, found.shape, found.dtype) == ("meta", (7,), torch.float64)


def test_fake_tensors_give_fake_tensors():
    with FakeTensorMode():
        x = torch.empty(7, dtype=torch.float64)
        assert [type(r).__name__ for r in polar(x, x)] == ["FakeTensor", "FakeTensor"]


def test_threads_call_operators_at_once():
    x = random(3)

    def call(n: int) -> bool:
        return bool(torch.allclose(quadratic(x, float(n)), n * x * x))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(400)))


# JAX, if an earlier test of this process imported it, warns of every fork.
@pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")
def test_child_that_is_forked_while_a_thread_registers_can_register():
    is_held = threading.Event()

    def hold() -> None:
        with register._lock:
            is_held.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        torch_op(k.rounded, "kernelcore_tests::after_fork")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
    with register._lock:
        pass


def test_name_can_be_fixed_and_not_reused():
    op = torch_op(k.quadratic, "kernelcore_tests::fixed")
    assert overload(op) is torch.ops.kernelcore_tests.fixed.default
    assert torch_op(k.quadratic, "kernelcore_tests::fixed")(random(2), 1.0).shape == (2,)
    for taken in ("fixed", "fixed_k", "fixed_t", "fixed_t_k"):
        with pytest.raises(kc.KernelArgumentError, match=f"::{taken}' exists"):
            torch_op(k.blend, f"kernelcore_tests::{taken}")


def test_dtypes_convert_both_ways():
    for scalar in SCALARS:
        assert dtype_from_torch(dtype_to_torch(scalar)) is scalar
    with pytest.raises(kc.KernelTypeError, match="complex64"):
        dtype_from_torch(torch.complex64)
