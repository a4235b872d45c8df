"""Bad input raises a KernelError that names the argument and quotes the kernel."""

from __future__ import annotations

import pytest
import torch

import kernelcore as kc
from tests.torch import torch_kernels as k
from torch_ext import torch_op

quadratic = torch_op(k.quadratic)
take = torch_op(k.take, launch_dims="index")
mixed = torch_op(k.scaled)
X = torch.ones(4, dtype=torch.float64)
INDEX = torch.zeros(2, dtype=torch.int32)


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: quadratic(X.float(), 1.0), ["'x'", "float64", "float32", "x: kc.array"]),
        (lambda: quadratic(X.reshape(2, 2), 1.0), ["'x'", "1 dimension", "2 dimensions"]),
        (lambda: quadratic(X.to_sparse(), 1.0), ["'x'", "dense", "sparse"]),
        (lambda: torch_op(k.quadratic, "a::b::c"), ["namespace::op", "a::b::c"]),
        (lambda: quadratic(X.numpy(), 1.0), ["'x'", "ndarray", "help:"]),
        (lambda: quadratic(X, "1"), ["'a'", "float64", "str"]),
        (lambda: quadratic(X, X), ["'a'", "0 dimensions"]),
        (lambda: quadratic(X, torch.tensor(1.0)), ["'a'", "float64", "float32"]),
        (lambda: quadratic(X), ["'a' is missing", "help:"]),
        (lambda: quadratic(X, 1.0, 2.0), ["expected 2 arguments, found 3"]),
        (lambda: quadratic(X, b=1.0), ["unknown argument 'b'", "x, a"]),
        (lambda: quadratic(X, 1.0, a=1.0), ["'a' is given twice"]),
        (lambda: take(X, INDEX, 1.5, False), ["'offset'", "int32", "float"]),
        (lambda: take(X, INDEX, 1 << 40, False), ["'offset'", "int32"]),
        (lambda: take(X, INDEX, 0, 2.0), ["'negate'", "bool"]),
        (lambda: mixed(X, torch.ones((), dtype=torch.float64), 0.5), ["'n'", "int32", "0.5"]),
        (lambda: take(X, INDEX.long(), 0, False), ["'index'", "int32", "int64"]),
    ],
)
def test_bad_argument_is_named(call, parts):
    with pytest.raises(kc.KernelArgumentError) as caught:
        call()
    for part in ["torch_kernels.py", *parts]:
        assert part in str(caught.value)


def test_bad_argument_is_named_when_it_requires_grad():
    with pytest.raises(kc.KernelArgumentError, match=r"expected .* float64"):
        quadratic(torch.ones(3, requires_grad=True), 1.0)


def test_bad_argument_is_named_below_a_transform():
    with pytest.raises(kc.KernelArgumentError, match="'x'"):
        torch.func.vmap(lambda x: quadratic(x, 1.0))(X)


def test_float_for_an_integer_is_refused_in_a_compiled_function():
    a = torch.ones((), dtype=torch.float64)
    compiled = torch.compile(lambda x: mixed(x, a, 0.5), fullgraph=True, backend="eager")
    with pytest.raises(Exception, match="argument 'n'"):
        compiled(X)


def test_bad_argument_is_named_in_a_compiled_function():
    compiled = torch.compile(lambda x: quadratic(x, 1.0), fullgraph=True, backend="eager")
    with pytest.raises(Exception, match=r"argument 'x': expected .* float64"):
        compiled(X.float())


def test_bad_argument_is_named_under_autocast():
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(kc.KernelArgumentError, match="'x'"),
    ):
        quadratic(X.int(), 1.0)


def test_fake_tensors_on_another_device_are_refused():
    with torch._subclasses.FakeTensorMode():
        x = torch.empty(4, dtype=torch.float64, device="cuda")
        with pytest.raises(kc.KernelArgumentError, match="CPU"):
            quadratic(x, 1.0)


def test_kernel_without_derivative_says_so_in_backward_only():
    @kc.kernel
    def unordered(x: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64)):
        i = kc.tid()
        y[i] = x[i]
        y[i] = y[i] + y[(i + 1) % y.shape[0]]

    op = torch_op(unordered, outputs=["y"])
    y = op(X.clone().requires_grad_())
    with pytest.raises(kc.KernelGradError, match="another thread"):
        y.sum().backward()
