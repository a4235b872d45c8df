"""Elementwise operators in graphs of Inductor: fused, with the bits of eager calls."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportGeneralTypeIssues=false, reportOptionalMemberAccess=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._inductor.utils import run_and_get_code
from torch.fx.experimental.proxy_tensor import make_fx

import kernelcore as kc
from kernelcore.builtins.spelling import LIBRARY_ULP
from tests.operators import test_fusion as kernels
from torch_ext import fusion

AnyRank = kc.arraynd[float]
Floats = kc.array(dtype=float)


@kc.op
@kc.kernel
def leaky(x: AnyRank, a: float, b: float, y: AnyRank):
    i = kc.tid()
    v = a * x[i] + b
    y[i] = v if v > 0.0 else 0.1 * v


@kc.op
@kc.kernel
def parts(x: AnyRank, whole: AnyRank, same: AnyRank, flat: AnyRank):
    i = kc.tid()
    whole[i] = kc.floor(x[i])
    same[i] = x[i]
    flat[i] = 2.0


@kc.op(fuse=True)
@kc.kernel
def wavy(x: AnyRank, y: AnyRank):
    i = kc.tid()
    y[i] = kc.sin(x[i]) * kc.exp(-x[i] * x[i])


@kc.op(outputs="z")
@kc.kernel
def product(x: kc.array2d[Any], y: kc.array2d[Any], z: kc.array2d[Any]):
    i, j = kc.tid()
    z[i, j] = x[i, j] * y[i, j]


@kc.op
@kc.kernel
def neighbours(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = x[i] + x[kc.max(i - 1, 0)]


@kc.op(launch_dims=3)
@kc.kernel
def first(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = x[i] + 1.0


def chain(x: torch.Tensor) -> torch.Tensor:
    for k in range(5):
        x = leaky(x, 1.0 + 0.125 * k, 0.5 - 0.25 * k)
    return x


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch.compiler.reset()
    with (
        torch._inductor.config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield


def compiled(f: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, str]:
    """The result of ``f`` under torch.compile, and the code that Inductor makes."""
    found, codes = run_and_get_code(torch.compile(f, fullgraph=True, **options), *args)
    return found, "\n".join(codes)


def with_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: torch.Tensor) -> Any:
        y = f(x)
        (gradient,) = torch.autograd.grad(y.square().sum(), x)
        return y, gradient

    return run


def test_a_chain_and_its_gradient_are_one_loop_each_with_the_bits_of_eager_calls() -> None:
    x = torch.randn(37, 11, requires_grad=True)
    run = torch.compile(chain, fullgraph=True)
    (y, gradient), codes = run_and_get_code(with_gradient(run), x)
    assert len(codes) == 2
    for code in codes:
        assert "kernelcore" not in code
        assert code.count("cpp_fused_0 = ") + code.count("def call") <= 2
        assert "cpp_fused_1" not in code
    want, wanted = with_gradient(chain)(x)
    assert torch.equal(y, want)
    assert torch.equal(gradient, wanted)


@pytest.mark.parametrize("name", ["arithmetic", "branches", "integers", "updated", "grid"])
def test_every_operation_has_the_bits_of_machine_code(name: str) -> None:
    op, args = kernels.CASES[name]
    given = [torch.from_numpy(np.array(a)) if isinstance(a, np.ndarray) else a for a in args]
    found, code = compiled(lambda *args: op(*args), *given)
    assert "ops.kernelcore" not in code
    for one, want in zip(tuples(found), tuples(op(*given)), strict=True):
        torch.testing.assert_close(one, want, rtol=0, atol=0, equal_nan=True)


def tuples(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_second_derivatives() -> None:
    def second(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda x: torch.func.grad(lambda x: chain(x).pow(3).sum())(x).sum())(
            x
        )

    x = torch.randn(40)
    found, code = compiled(second, x)
    assert "ops.kernelcore" not in code
    torch.testing.assert_close(found, second(x))


def test_batches() -> None:
    x, a = torch.randn(5, 7), torch.rand(4)
    over = torch.func.vmap(lambda x: leaky(x, 2.0, 1.0))
    found, code = compiled(over, x)
    assert "ops.kernelcore" not in code
    assert torch.equal(found, over(x))
    over = torch.func.vmap(lambda a: leaky(x, a, 1.0))
    found, code = compiled(over, a)
    assert "ops.kernelcore" not in code
    assert torch.equal(found, over(a))


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(6, 8).t(),
        torch.randn(6, 8)[::2, 1:],
        torch.randn(3, 1).expand(3, 4),
        torch.randn(0, 4),
        torch.randn(()),
    ],
    ids=["transposed", "sliced", "expanded", "empty", "scalar"],
)
def test_results_are_new_and_contiguous(x: torch.Tensor) -> None:
    found, code = compiled(lambda x: parts(x), x)
    assert "ops.kernelcore" not in code
    for one, want in zip(found, parts(x), strict=True):
        assert torch.equal(one, want)
        assert one.is_contiguous()
        assert not x.numel() or one.data_ptr() != x.data_ptr()
    assert not x.numel() or len({one.data_ptr() for one in found}) == 3


def test_elementary_functions_are_torchs_where_the_operator_allows_it() -> None:
    x = torch.randn(1000, requires_grad=True)
    run = torch.compile(wavy.torch, fullgraph=True)
    (y, gradient), codes = run_and_get_code(with_gradient(run), x)
    assert "kernelcore" not in "".join(codes)
    want, wanted = with_gradient(wavy)(x)
    torch.testing.assert_close(y, want, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-6)


def test_elementary_functions_err_by_as_little_as_is_said() -> None:
    rows = list(kernels.elementary())
    xp = fusion._Functions(torch.device("cpu"))

    def all_of(*given: list[torch.Tensor]) -> list[torch.Tensor]:
        return [row[1](xp, kc.float32, *args) for row, args in zip(rows, given, strict=True)]

    given = [[torch.from_numpy(a) for a in row[2]] for row in rows]
    found = torch.compile(make_fx(all_of)(*given))(*given)
    errors = {
        row[0]: kernels.ulps(one.numpy(), row[3]) for row, one in zip(rows, found, strict=True)
    }
    assert {name: e for name, e in errors.items() if e > LIBRARY_ULP} == {}
    assert len(errors) > 15


def test_what_is_not_elementwise_stays_an_operator() -> None:
    x = torch.randn(10)
    for op in (neighbours, first):  # The second one has an array that is larger than its launch.
        found, code = compiled(lambda x, op=op: op(x), x)
        assert "ops.kernelcore" in code
        assert torch.equal(found, op(x))


def test_programs_have_the_bits_of_calls_where_nothing_is_fused() -> None:
    opaque, exact = (kc.op(op.kernel, fuse=False) for op in (leaky, wavy))
    x = torch.randn(10)
    assert "ops.kernelcore" not in compiled(kc.op(wavy.kernel).torch, x)[1]
    for f in (lambda x: opaque(x, 2.0, 1.0), exact.torch):
        found, code = compiled(f, x)
        assert "ops.kernelcore" in code
        assert torch.equal(found, f(x))


def test_scalars_and_extents_that_change() -> None:
    run = torch.compile(lambda x, a: leaky(x, a, 1.0), fullgraph=True, dynamic=True)
    for n, a in ((5, 2.0), (9, 3.5), (12, -1.0)):
        x = torch.randn(n)
        assert torch.equal(run(x, a), leaky(x, a, 1.0))
    scale = torch.tensor(0.5)
    assert torch.equal(run(x, scale), leaky(x, scale, 1.0))


def test_types_of_generic_kernels() -> None:
    for dtype in (torch.float64, torch.int8, torch.int64, torch.uint8):
        x, y = (torch.arange(-8, 8).reshape(4, 4).to(dtype) * k for k in (3, 5))
        found, code = compiled(lambda x, y: product(x, y), x, y)
        assert "ops.kernelcore" not in code
        assert torch.equal(found, product(x, y))
    for dtype in (torch.bfloat16, torch.uint32):
        x = torch.ones(4, 4, dtype=dtype)
        found, code = compiled(lambda x, y: product(x, y), x, x)
        assert "ops.kernelcore" in code
        assert torch.equal(found, x)


def test_operators_that_one_function_takes_in_turn() -> None:
    def apply(op: Any, x: torch.Tensor) -> torch.Tensor:
        return op(x, 2.0, 1.0)

    run, x = torch.compile(apply, fullgraph=True, backend="aot_eager"), torch.randn(5)
    for _ in range(4):
        op = kc.op(leaky.kernel)
        assert torch.equal(run(op, x), op(x, 2.0, 1.0))


def test_other_backends_exported_programs_and_opcheck_see_the_operator() -> None:
    x = torch.randn(4, requires_grad=True)
    graphs: list[Any] = []

    def keep(module: Any, args: Any) -> Any:
        graphs.append(module)
        return module

    torch.compile(lambda x: leaky(x, 2.0, 1.0), backend=keep)(x)
    assert "kernelcore" in str(graphs[0].graph)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return leaky(x, 2.0, 1.0)

    program = torch.export.export(Model(), (x,))
    assert "kernelcore" in str(program.run_decompositions().graph)
    assert torch.equal(program.module()(x), leaky(x, 2.0, 1.0))
    torch.library.opcheck(leaky.overload, (x, 2.0, 1.0))
