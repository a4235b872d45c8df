"""Bad input raises a KernelError that names the argument and quotes the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch._dynamo.exc import Unsupported

import kernelcore as kc
from tests.torch import torch_kernels as k
from torch_ext import torch_op

quadratic = torch_op(k.quadratic)
take = torch_op(k.take, launch_dims="index")
mixed = torch_op(k.scaled)
X = torch.ones(4, dtype=torch.float64)
INDEX = torch.zeros(2, dtype=torch.int32)
A = torch.ones((), dtype=torch.float64)
NUMBER: Any = 3


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: quadratic(X.float(), 1.0), ["'x'", "float64", "float32", "x: kc.array"]),
        (lambda: quadratic(X.reshape(2, 2), 1.0), ["'x'", "1 dimension", "2 dimensions"]),
        (lambda: quadratic(X.to_sparse(), 1.0), ["'x'", "dense", "sparse"]),
        (lambda: torch_op(k.quadratic, "a::b::c"), ["namespace::op", "a::b::c", "help:"]),
        (lambda: torch_op(k.quadratic, NUMBER), ["namespace::op", "found 3", "help:"]),
        (lambda: torch_op(k.quadratic, "λ::op"), ["namespace::op", "ASCII"]),
        (lambda: torch_op(k.quadratic, "tests::def"), ["namespace::op", "keyword"]),
        (lambda: torch_op(k.quadratic, "prim::op"), ["'prim::op' is reserved", "mylib::op"]),
        (lambda: torch_op(k.quadratic, "loaded_libraries::op"), ["is reserved"]),
        (lambda: torch_op(k.quadratic, "tests::name"), ["is reserved"]),
        (lambda: torch_op(k.quadratic, "tests::__init__"), ["is reserved"]),
        (lambda: torch_op(k.quadratic, "f_0123456789ab_vjp1_1_0"), ["is reserved"]),
        (lambda: torch_op(k.quadratic, "quantized::add"), ["'quantized::add' exists", "help:"]),
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
        (lambda: take(X, INDEX, np.timedelta64(3, "s"), False), ["'offset'", "timedelta64"]),
        (lambda: take(X, INDEX, 0, 2.0), ["'negate'", "bool"]),
        (lambda: mixed(X, torch.ones((), dtype=torch.float64), 0.5), ["'n'", "int32", "0.5"]),
        (lambda: mixed(X, A, 1 << 31), ["'n'", "int32", "2147483648"]),
        (lambda: mixed(X, 10**400, torch.ones((), dtype=torch.int32)), ["'a'", "float64"]),
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


NUMBERS = {
    "float_for_int": (lambda x: mixed(x, A, 0.5), "'n': expected a number that int32"),
    "too_large": (lambda x: mixed(x, 1.0, 2**31 + 5), "'n': expected .*2147483653"),
    "too_large_beside_tensor": (lambda x: mixed(x, A, 2**31 + 5), "'n': expected .*2147483653"),
    "int_for_bool": (lambda x: take(x, INDEX, 0, 2), "'negate': expected a number that bool"),
    "text": (lambda x: quadratic(x, "1"), "'a': expected a number that float64"),
    "numpy_bool": (lambda x: take(x, INDEX, 0, np.True_), "'negate': expected a number that bool"),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_that_do_not_fit_are_named_in_a_compiled_function(case):
    call, message = NUMBERS[case]
    compiled = torch.compile(call, fullgraph=True, backend="eager")
    with pytest.raises(Unsupported, match=f"argument {message}"):
        compiled(X)


@pytest.mark.parametrize("case", ["too_large_beside_tensor", "int_for_bool", "text"])
def test_outside_full_graphs_the_error_is_that_of_eager_calls(case):
    call, message = NUMBERS[case]
    with pytest.raises(kc.KernelArgumentError, match=f"argument {message}") as eager:
        call(X)
    with pytest.raises(kc.KernelArgumentError, match=f"argument {message}") as compiled:
        torch.compile(call, backend="eager")(X)
    assert compiled.value.loc == eager.value.loc


def test_numpy_integers_are_never_narrowed_in_a_compiled_function():
    compiled = torch.compile(lambda x, n: mixed(x, 1.0, n), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(X, np.int16(3)), 3 * X)
    with pytest.raises(Unsupported, match=r"argument 'n'.*int64"):
        compiled(X, np.int64(3))


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
