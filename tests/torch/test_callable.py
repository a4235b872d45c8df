"""Python functions that launch several kernels, as functions of tensors."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import kernelcore as kc
from tests.torch.matrix import ROUNDING, Spring, force, randn, squared
from tests.torch.torch_kernels import grow, neighbours
from torch_ext import torch_callable

Array = kc.array(dtype=kc.float64)
Vectors = kc.array(dtype=kc.vec3d)


def random(*shape: int) -> torch.Tensor:
    return randn(*shape, seed=3)


def power(x: Array, a: kc.float64, repeat: int, y: Array):
    """``x`` squared ``repeat`` times, scaled by ``a`` each time."""
    t = kc.zeros_like(x)
    t.assign(x)
    for _ in range(repeat):
        u = kc.empty(x.shape, kc.float64)
        kc.launch(squared, x.shape, [t, a], [u])
        t = u
    y.assign(t)


def power_torch(x: torch.Tensor, a: Any, repeat: int) -> torch.Tensor:
    for _ in range(repeat):
        x = a * x * x
    return x


CALLS: list[int] = []


def counted(x: Array, y: Array):
    CALLS.append(1)
    kc.launch(neighbours, x.shape, [x], [y])


def evolve(x: Array, state: Array, energy: Array):
    kc.launch(grow, x.shape, [x, state])
    kc.launch(neighbours, x.shape, [state], [energy])


def push(spring: Spring, x: Vectors, y: Vectors):
    moved = kc.empty_like(x)
    kc.launch(force, x.shape, [spring, x], [moved])
    kc.launch(force, x.shape, [spring, moved], [y])


power_op = torch_callable(power, defaults={"a": 0.5, "repeat": 2})


def test_it_runs_for_every_number_that_is_read():
    x = random(4)
    for repeat in (0, 1, 3, 1):
        torch.testing.assert_close(power_op(x, 0.7, repeat), power_torch(x, 0.7, repeat))
    torch.testing.assert_close(power_op(x), power_torch(x, 0.5, 2))
    torch.testing.assert_close(power_op(repeat=1, x=x), power_torch(x, 0.5, 1))
    assert power_op(x, 1.0, 0).data_ptr() != x.data_ptr()
    assert power_op.__name__ == "power"
    assert "squared ``repeat`` times" in (power_op.__doc__ or "")


def test_it_is_recorded_once_for_all_sizes():
    op = torch_callable(counted)
    CALLS.clear()
    for n in (3, 5, 0, 9):
        op(random(n))
    torch.vmap(op)(random(2, 4))
    assert len(CALLS) == 1


def test_scalars_are_differentiated():
    x, a = random(4).requires_grad_(), random(1)[0].requires_grad_()
    assert gradcheck(
        lambda x, a: power_op(x, a, 2), (x, a), check_forward_ad=True, nondet_tol=ROUNDING
    )
    assert gradgradcheck(lambda x, a: power_op(x, a, 2), (x, a), nondet_tol=ROUNDING)


def test_in_out_arguments_are_preserved():
    op = torch_callable(evolve, outputs=["energy"], in_out=["state"])
    x, state = random(5).requires_grad_(), random(5).requires_grad_()
    kept = state.detach().clone()
    grown, energy = op(x, state)
    torch.testing.assert_close(state.detach(), kept)
    torch.testing.assert_close(grown, (state * x) ** 2)
    torch.testing.assert_close(energy, grown * torch.roll(grown, -1))
    assert gradgradcheck(op, (x, state), nondet_tol=ROUNDING)


def test_structs_are_arguments():
    op = torch_callable(push)
    x, rest, stiffness = random(4, 3), random(3), random(1)[0]
    spring = SimpleNamespace(rest=rest, stiffness=stiffness)

    def step(x: torch.Tensor) -> torch.Tensor:
        d = x - rest
        return stiffness * (d * d).sum(-1, keepdim=True) * d

    for call in (op, torch.compile(op, fullgraph=True, backend="aot_eager")):
        for given in (spring, (rest, stiffness), {"rest": rest, "stiffness": stiffness}):
            torch.testing.assert_close(call(given, x), step(step(x)))
        torch._dynamo.reset()
    torch.testing.assert_close(op(Spring(rest=(1.0, 0.0, 0.0), stiffness=0.0), x), 0 * x)


@pytest.mark.parametrize("strict", [False, True])
def test_it_is_exported_with_dynamic_sizes(strict: bool):
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return power_op(x, 2.0) + 1

    size = torch.export.Dim("n", min=2)
    program = torch.export.export(Model(), (random(4),), dynamic_shapes=({0: size},), strict=strict)
    x = random(7)
    torch.testing.assert_close(program.module()(x), power_torch(x, 2.0, 2) + 1)


def test_one_graph_serves_all_sizes():
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    compiled = torch.compile(power_op, fullgraph=True, dynamic=True, backend=backend)
    for n in (3, 4, 5, 8, 13):
        x = random(n)
        torch.testing.assert_close(compiled(x, 0.3, 2), power_torch(x, 0.3, 2))
    assert len(graphs) == 1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: power_op(random(4).float()), "argument 'x': expected array of float64"),
        (lambda: power_op(random(4, 1)), "argument 'x': .* found .* with 2 dimensions"),
        (lambda: power_op([1.0, 2.0]), "argument 'x': .* found an object of type list"),
        (lambda: power_op(random(4).to("meta").cuda), "found an object of type builtin"),
        (lambda: power_op(random(4), torch.ones(())), "argument 'a': expected"),
        (lambda: power_op(random(4), 1.0, torch.ones((), dtype=torch.int32)), "'repeat' is read"),
        (lambda: power_op(random(4), 1.0, 2, 3), "expected 3 arguments, found 4"),
        (lambda: power_op(b=1), "unknown argument 'b'"),
        (lambda: power_op(), "argument 'x' is missing"),
        (lambda: torch_callable(push)((1.0,), random(4, 3)), "expected a struct with the fields"),
        (
            lambda: cast("Any", torch_callable)(power, output=["y"]),
            "mean 'outputs'",
        ),
        (lambda: torch_callable(power, defaults={"z": 1}), "defaults: 'z' is no argument"),
        (lambda: torch_callable(power, outputs=["z"]), "outputs: no parameter is named 'z'"),
        (
            lambda: torch_callable(power, outputs=["y"], in_out=["y"]),
            "'y' is named both in outputs and in in_out",
        ),
    ],
)
def test_bad_arguments_are_named(call: Any, text: str):
    with pytest.raises(kc.KernelArgumentError, match=text):
        call()
