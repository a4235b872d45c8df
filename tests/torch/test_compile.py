"""Operators in torch.compile, torch.export, make_fx and opcheck."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import opcheck

import kernelcore as kc
from tests.torch import torch_kernels as k
from torch_ext import overload, torch_op

F64 = torch.float64
quadratic = torch_op(k.quadratic)
blend = torch_op(k.blend)
polar = torch_op(k.polar)
grow = torch_op(k.grow)


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=F64, requires_grad=True)


def program(quadratic, blend, polar, x, y):
    first, second = polar(quadratic(x, 0.5), y)
    return (blend(first * 0.1, second) * x).sum()


def run(backend, f=program, **options):
    compiled = torch.compile(
        lambda x, y: f(quadratic, blend, polar, x, y), fullgraph=True, backend=backend, **options
    )
    x, y = leaf(6), leaf(6)
    expected = f(k.quadratic_torch, k.blend_torch, k.polar_torch, x, y)
    found = compiled(x, y)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, (x, y)), torch.autograd.grad(expected, (x, y))
    )


def test_forward_and_backward_in_one_graph():
    run("aot_eager")


def test_inductor_runs_forward_and_backward():
    run("inductor")


def test_one_graph_serves_all_sizes():
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        lambda x: quadratic(x, 2.0) + 1, fullgraph=True, dynamic=True, backend=counter
    )
    for n in (3, 5, 9):
        x = leaf(n)
        y = compiled(x)
        torch.testing.assert_close(y, 2 * x * x + 1)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 4 * x)
    assert counter.frame_count == 1


def test_extents_are_numbers_in_one_graph():
    scaled = torch_op(k.scaled)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        lambda x: scaled(x, 2.0, x.shape[0]), fullgraph=True, dynamic=True, backend=counter
    )
    for n in (3, 5, 8):
        x = leaf(n)
        y = compiled(x)
        torch.testing.assert_close(y, 4 * n * x)
        torch.testing.assert_close(torch.autograd.grad(y, x, x)[0], 4 * n * x)
    assert counter.frame_count == 1


def test_scalar_tensors_and_names_in_a_graph():
    compiled = torch.compile(
        lambda x, a: quadratic(a=a, x=x) + quadratic(x, 2.0), fullgraph=True, backend="aot_eager"
    )
    x, a = leaf(4), leaf()
    y = compiled(x, a)
    torch.testing.assert_close(y, (a + 2) * x * x)
    torch.testing.assert_close(
        torch.autograd.grad(y.sum(), (x, a)), (2 * (a + 2) * x, (x * x).sum())
    )


def test_numbers_that_vary_in_a_graph():
    compiled = torch.compile(lambda x, a: quadratic(x, a), fullgraph=True, backend="aot_eager")
    x = leaf(4)
    for a in (1.0, 2.5, 3.5):
        torch.testing.assert_close(compiled(x, a), a * x * x)


@pytest.mark.parametrize("a", [np.float64(1.5), np.float32(1.5), np.int64(2)])
def test_numpy_scalars_are_numbers_in_a_graph(a):
    compiled = torch.compile(lambda x, a: quadratic(x, a), fullgraph=True, backend="aot_eager")
    x = leaf(4)
    y = compiled(x, a)
    torch.testing.assert_close(y, quadratic(x, a))
    torch.testing.assert_close(torch.autograd.grad(y, x, x)[0], 2 * float(a) * x * x)


def test_large_numbers_round_alike_beside_numbers_and_tensors():
    op = torch_op(k.weighted)
    x, a = torch.ones(2), torch.ones(())
    compiled = torch.compile(lambda a, b: op(x, a, b), fullgraph=True, backend="aot_eager")
    for f in (partial(op, x), compiled):
        for first in (1.0, a):
            assert f(first, 1e300).tolist() == [float("inf")] * 2


def targets(graph: torch.fx.Graph) -> list[str]:
    return [str(n.target) for n in graph.nodes if n.op == "call_function"]


def test_compiled_graphs_name_the_content_and_exported_ones_the_given_name():
    # Caches of torch.compile know operators by name, so a name must tell the content.
    op = torch_op(k.quadratic, "kernelcore_tests::quadratic")
    seen = []

    def backend(module, inputs):
        seen.extend(targets(module.graph))
        return module

    x = torch.ones(3, dtype=F64)
    for a in (2.0, torch.tensor(2.0, dtype=F64)):
        torch.compile(op, fullgraph=True, backend=backend)(x, a)
    name = overload(quadratic).name().replace("::", ".")
    assert [t for t in seen if "quadratic" in t] == [f"{name}.default", f"{name}_t.default"]
    for strict in (False, True):
        exported = torch.export.export(Named(op), (x,), strict=strict)
        assert targets(exported.graph) == ["kernelcore_tests.quadratic.default"]


class Named(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x):
        return self.op(x, 2.0)


EDITED = """
import torch
import kernelcore as kc
from torch_ext import torch_op

@kc.kernel
def edited(x: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    y[i] = FACTOR * x[i] * x[i]

op = torch_op(edited, "kernelcore_tests::edited")
x = torch.ones(2, dtype=torch.float64, requires_grad=True)
y = torch.compile(lambda x: op(x), fullgraph=True)(x)
print(y.tolist(), torch.autograd.grad(y.sum(), x)[0].tolist())
"""


def test_edited_kernel_of_the_same_name_is_not_taken_from_the_cache(tmp_path):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    script = tmp_path / "edited.py"
    for factor in (2.0, 3.0):
        script.write_text(EDITED.replace("FACTOR", str(factor)))
        command = [sys.executable, str(script)]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ran.stdout.strip() == f"{[factor] * 2} {[2 * factor] * 2}", ran.stderr


def test_in_out_operand_is_preserved_in_a_graph():
    compiled = torch.compile(lambda x, s: (grow(x, s), s + 1), fullgraph=True)
    x, state = leaf(4), torch.randn(4, dtype=F64)
    torch.testing.assert_close(compiled(x, state), (k.grow_torch(x, state), state + 1))


@pytest.mark.parametrize(
    ("op", "args"),
    [
        (quadratic, lambda: (leaf(5), 2.0)),
        (quadratic, lambda: (torch.randn(10, dtype=F64)[::2].requires_grad_(), 2.0)),
        (polar, lambda: (leaf(5), torch.randn(5, dtype=F64))),
        (grow, lambda: (leaf(5), leaf(5))),
        (
            torch_op(k.take, launch_dims="index"),
            lambda: (leaf(5), torch.zeros(2, dtype=torch.int32), 1, True),
        ),
    ],
)
def test_opcheck_is_clean(op, args):
    assert set(opcheck(overload(op), args()).values()) == {"SUCCESS"}


def test_make_fx_records_the_operator():
    x = torch.ones(3, dtype=F64)
    graph = make_fx(lambda x: quadratic(x, 2.0), tracing_mode="symbolic")(x)
    targets = [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]
    assert any("quadratic" in t for t in targets)
    torch.testing.assert_close(graph(x), 2 * x * x)


@pytest.mark.parametrize("compile_it", [False, True])
def test_autocast_widens_reduced_precision(compile_it):
    def f(x):
        return quadratic(x, 2.0)

    if compile_it:
        f = torch.compile(f, fullgraph=True, backend="aot_eager")
    x = torch.randn(4).bfloat16().requires_grad_()
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        y = f(x)
    torch.testing.assert_close(y, 2.0 * x.double() ** 2)
    (found,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(found, (4.0 * x.double()).bfloat16())


def test_derived_operators_are_found_by_name():
    # As in a graph that another process compiled and torch's cache kept.
    name = overload(torch_op(k.quartic)).name().removeprefix("kernelcore::")
    x = torch.randn(2, 3, dtype=F64)
    adjoint = getattr(torch.ops.kernelcore, f"{name}_vjp1_1_0_vmap3_k")
    torch.testing.assert_close(adjoint(x, torch.ones_like(x)), 4 * x**3)
    tangent = getattr(torch.ops.kernelcore, f"{name}_jvp1_jvp3")
    torch.testing.assert_close(
        tangent(x[0], x[1], x[0], x[1]), 12 * x[0] ** 3 * x[1] + 4 * x[0] ** 3 * x[1]
    )
    assert not hasattr(torch.ops.kernelcore, "unheard_of")
    with pytest.raises(kc.KernelError, match="is not registered"):
        hasattr(torch.ops.kernelcore, "quartic_0123456789ab_vjp1_1_0")
