"""The .out overload: results in tensors of the caller, exact or refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.profiler import ProfilerActivity, profile

import kernelcore as kc
from tests.helpers.environment import IS_CPU
from torch_ext import overload, torch_op


@kc.kernel
def magnify(x: kc.array(dtype=float), factor: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = factor * x[i]


@kc.kernel
def both(x: kc.array(dtype=float), y: kc.array(dtype=float), z: kc.array2d(dtype=kc.int32)):
    i = kc.tid()
    y[i] = 2.0 * x[i]
    z[i, 0] = i
    z[i, 1] = -i


@kc.kernel
def grow(v: kc.array(dtype=float), state: kc.array(dtype=float)):
    i = kc.tid()
    state[i] = state[i] + v[i]


@kc.kernel
def grow_out(v: kc.array(dtype=float), out: kc.array(dtype=float)):
    i = kc.tid()
    out[i] = out[i] + v[i]


@kc.kernel
def total(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    kc.atomic_add(y, 0, x[kc.tid()])


@kc.struct
class Body:
    mass: kc.array(dtype=float)
    factor: float


@kc.kernel
def weight(body: Body, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = body.factor * body.mass[i]


scaled = torch_op(magnify, name="outs::scaled")
pair = torch_op(both, output_dims={"z": ("x.shape[0]", 2)})
grown = torch_op(grow)
summed = torch_op(total, output_dims=1)
weighed = torch_op(weight)
X = torch.arange(5.0) - 1.5


def test_schemas_follow_torch():
    assert str(torch.ops.outs.scaled.out._schema) == (
        "outs::scaled.out(Tensor x, float factor, *, Tensor(a!) out) -> Tensor(a!)"
    )
    name = overload(pair).name().split("::")[1].split(".")[0]
    assert str(getattr(torch.ops.kernelcore, name).out._schema).endswith(
        "(Tensor x, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))"
    )


@pytest.mark.parametrize("call", [scaled, torch.ops.outs.scaled.out, torch.ops.outs.scaled])
def test_results_are_written_and_noted(call: Callable[..., Any]):
    y = torch.full((5,), 7.0)
    version = y._version
    assert call(X, 2.0, out=y) is y
    assert torch.equal(y, 2 * X)
    assert y._version == version + 1


@pytest.mark.parametrize(
    "out",
    [
        torch.zeros(10)[::2],
        torch.zeros(5, 3)[:, 1],
        torch.zeros(0),
        torch.zeros(3, 0),
        torch.zeros(7)[1:6],
    ],
)
def test_strided_outs_and_empty_ones(out: torch.Tensor):
    assert torch.equal(scaled(X, 2.0, out=out), 2 * X)
    assert torch.equal(out, 2 * X)


def test_memory_around_a_strided_out_stays():
    memory = torch.full((10,), 7.0)
    scaled(X, 2.0, out=memory[::2])
    assert torch.equal(memory[::2], 2 * X)
    assert torch.equal(memory[1::2], torch.full((5,), 7.0))


def test_several_results():
    y, z = torch.zeros(5), torch.zeros(2, 5, dtype=torch.int32).T
    returned: Any = pair(X, out=(y, z))
    assert returned[0] is y
    assert returned[1] is z
    expected: Any = pair(X)
    assert torch.equal(y, expected[0])
    assert torch.equal(z, expected[1])
    memory = torch.zeros(15)
    pair(X, out=(memory[:5], memory[5:].view(torch.int32).reshape(5, 2)))
    assert torch.equal(memory[:5], 2 * X)


@kc.kernel
def lifted(
    x: kc.array(dtype=float, ndim=...),
    y: kc.array(dtype=float, ndim=...),
    z: kc.array(dtype=kc.vec3, ndim=...),
):
    i = kc.tid()
    y[i] = 2.0 * x[i]
    z[i] = kc.vec3(x[i], 1.0, x[i])


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 0, 3), (2, 3, 4)])
@pytest.mark.parametrize("operator", [torch_op(lifted), kc.op(lifted)])
def test_outs_of_any_rank(operator: Callable[..., Any], shape: tuple[int, ...]):
    x = torch.randn(shape)
    axes = tuple(reversed(range(len(shape))))
    for y, z in (
        (torch.zeros(shape), torch.zeros(*shape, 3)),
        (torch.empty(0), torch.empty(0)),
        (torch.zeros(*shape, 2)[..., 0], torch.zeros(*shape, 6)[..., ::2]),
        (torch.zeros(shape[::-1]).permute(axes), torch.zeros(*shape, 3)),
    ):
        version = y._version
        found = operator(x, out=(y, z))
        assert found[0] is y
        assert found[1] is z
        assert y._version > version
        assert torch.equal(y, 2.0 * x)
        assert torch.equal(z, torch.stack([x, torch.ones(shape), x], -1))


def test_graphs_write_to_outs_of_any_rank():
    operator = torch_op(lifted)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def compiled(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        operator(x + 1.0, out=(y, z))
        return y + z[..., 0]

    x, y, z = torch.randn(3, 4), torch.zeros(3, 4), torch.zeros(3, 4, 3)
    found = compiled(x, y, z)
    torch.testing.assert_close(found, 3.0 * (x + 1.0))
    torch.testing.assert_close(y, 2.0 * (x + 1.0))
    z = torch.zeros(3, 4, 3)
    functional = torch.func.functionalize(lambda x, y, z: operator(x, out=(y, z))[0] * 1.0)
    torch.testing.assert_close(functional(x, y, z), 2.0 * x)
    torch.testing.assert_close(z[..., 2], x)


@pytest.mark.parametrize(
    ("outs", "text"),
    [
        ((torch.zeros(12), torch.zeros(3, 4, 3)), r"out 0: expected an out of shape \(3, 4\)"),
        ((torch.zeros(3, 4), torch.zeros(3, 4)), r"out 1: expected an out of shape \(3, 4, 3\)"),
        ((torch.zeros(1).expand(3, 4), torch.zeros(3, 4, 3)), "several that share memory"),
        (
            (torch.zeros(36)[12:24].view(3, 4), torch.zeros(3, 4, 3).double()),
            "found one of float64",
        ),
        (torch.zeros(3, 4), "expected a tuple of 2 tensors as out"),
    ],
)
def test_outs_of_any_rank_that_do_not_fit_are_refused(outs: Any, text: str):
    with pytest.raises(kc.KernelArgumentError, match=text):
        torch_op(lifted)(torch.zeros(3, 4), out=outs)


def test_outs_of_any_rank_that_share_memory_are_refused():
    memory = torch.zeros(36)
    outs = memory[:12].view(3, 4), memory.view(3, 4, 3)
    with pytest.raises(kc.KernelArgumentError, match="two that share memory"):
        torch_op(lifted)(torch.zeros(3, 4), out=outs)


def test_old_contents_do_not_matter():
    state, out = torch.ones(5), torch.full((5,), 7.0)
    assert torch.equal(grown(X, state, out=out), X + 1)
    assert torch.equal(state, torch.ones(5))
    assert torch.equal(summed(X, out=torch.full((1,), 7.0)), X.sum().reshape(1))


def test_every_form_of_a_call_takes_out():
    y = torch.zeros(5)
    for body in ((X, 2.0), {"mass": X, "factor": torch.tensor(2.0)}):
        y.zero_()
        assert weighed(body, out=y) is y
        assert torch.equal(y, 2 * X)
    assert torch.equal(scaled(x=X, factor=torch.tensor(3.0), out=y), 3 * X)
    assert torch.equal(scaled(X, 2.0, out=None), 2 * X)
    # An operand of that name is meant where there is one.
    assert torch.equal(torch_op(grow_out)(X, out=torch.ones(5)), X + 1)


def test_nothing_is_allocated_for_contiguous_outs():
    y = torch.zeros(5)
    scaled(X, 2.0, out=y)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as found:
        scaled(X, 3.0, out=y)
    names = [event.name for event in found.events() or ()]
    assert "outs::scaled" in names
    # On a GPU the result is new, and copied to the out.
    expected = [] if IS_CPU else ["aten::empty_strided", "aten::copy_"]
    assert [n for n in names if n.startswith("aten::") or n == "[memory]"] == expected


def test_without_gradients_and_in_inference():
    leaf, y = X.clone().requires_grad_(), torch.zeros(5)
    with torch.no_grad():
        assert torch.equal(scaled(leaf, 2.0, out=y), 2 * X)
    with torch.inference_mode():
        assert torch.equal(scaled(X, 3.0, out=torch.empty(0)), 3 * X)
        version = y._version  # That of a tensor which autograd may have kept.
        scaled(X, 3.0, out=y)
    assert y._version == version + 1
    product = (leaf * leaf).sum()
    with torch.no_grad():
        scaled(X, 2.0, out=leaf)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_transforms_are_refused_as_torch_does():
    def call(x: torch.Tensor) -> torch.Tensor:
        return scaled(x, 2.0, out=torch.empty(5)).sum()

    for transformed in (torch.func.grad(call), lambda x: torch.func.jvp(call, (x,), (x,))):
        with pytest.raises(kc.KernelError, match="don't support automatic differentiation"):
            transformed(X)
    batched = torch.vmap(lambda x, y: scaled(x, 2.0, out=y))
    with pytest.raises(RuntimeError, match=r"outs::scaled.out; the fallback path doesn't work"):
        batched(torch.ones(3, 5), torch.ones(3, 5))


def test_shapes_without_contents():
    y = torch.empty(5, device="meta")
    assert scaled(X.to("meta"), 2.0, out=y) is y
    with FakeTensorMode():
        y, z = torch.empty(5, device="cuda"), torch.empty(5, 2, dtype=torch.int32, device="cuda")
        assert pair(torch.empty(5, device="cuda"), out=(y, z))[1] is z
        with pytest.raises(kc.KernelArgumentError, match="expected an out on cuda:0"):
            pair(torch.empty(5, device="cuda"), out=(torch.empty(5, device="cpu"), z))


def test_opcheck():
    torch.library.opcheck(torch.ops.outs.scaled.out, (X, 2.0), {"out": torch.empty(5)})


def test_graphs_write_to_outs():
    @torch.compile(backend="aot_eager", fullgraph=True)
    def compiled(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, state: torch.Tensor) -> Any:
        first, _ = pair(x + 1.0, out=(y, z))
        torch.ops.outs.scaled.out(x, 3.0, out=state)
        return first + 1.0, grown(x, state, out=torch.empty_like(x))

    y, z, state = torch.zeros(5), torch.zeros(2, 5, dtype=torch.int32).T, torch.ones(5)
    first, second = compiled(X, y, z, state)
    assert torch.equal(y, 2 * (X + 1))
    assert torch.equal(z, pair(X)[1])
    assert torch.equal(first, y + 1)
    assert torch.equal(second, 4 * X)
    assert torch.equal(state, 3 * X)


def test_inductor_keeps_memory_that_outs_are_read_from():
    @torch.compile(fullgraph=True)
    def compiled(x: torch.Tensor) -> Any:
        first = scaled(x, 5.0, out=torch.empty_like(x))
        second = scaled(x, 6.0, out=torch.empty_like(x))
        return first, second, scaled(second, 2.0, out=torch.empty_like(x))

    for found, factor in zip(compiled(X), (5, 6, 12), strict=True):
        assert torch.equal(found, factor * X)


def test_arrays_updated_in_place_are_not_results():
    updated = torch_op(grow, mutates=["state"])
    with pytest.raises(kc.KernelArgumentError, match="unknown argument 'out'"):
        updated(X, torch.ones(5), out=torch.ones(5))


def refusal(name: str) -> Any:
    y = torch.zeros(5)
    memory = torch.zeros(15)
    calls: dict[str, Callable[[], Any]] = {
        "shape": lambda: scaled(X, 2.0, out=torch.zeros(3)),
        "dtype": lambda: scaled(X, 2.0, out=y.double()),
        "expanded": lambda: scaled(X, 2.0, out=torch.zeros(1).expand(5)),
        "alias": lambda: scaled(memory[:5], 2.0, out=memory[4:9]),
        "in_place": lambda: grown(X, y, out=y),
        "each_other": lambda: pair(
            X, out=(memory[:5], memory[4:14].view(torch.int32).reshape(5, 2))
        ),
        "count": lambda: pair(X, out=y),
        "kind": lambda: pair(X, out=(y, np.zeros((5, 2), np.int32))),
        "gradient": lambda: scaled(X.clone().requires_grad_(), 2.0, out=y),
    }
    return calls[name]()


@pytest.mark.parametrize(
    "name",
    ["shape", "dtype", "expanded", "alias", "in_place", "each_other", "count", "kind", "gradient"],
)
def test_the_text_is(name: str, golden_error: Callable[[str, str], None]) -> None:
    with pytest.raises(kc.KernelError) as caught:
        refusal(name)
    text = re.sub(r'File ".*/([^"/]+)", line \d+', r'File "\1"', str(caught.value))
    golden_error(f"out_{name}", f"{type(caught.value).__name__}: {text}")


def test_inference_mode_refuses_as_well():
    with torch.inference_mode():  # Autograd's rule is not run there.
        memory = torch.zeros(9)
        for out, text in (
            (torch.zeros(3), r"an out of float32 and shape \(5,\), found one of shape \(3,\)"),
            (torch.zeros(5).double(), "an out of float32 .*, found one of float64"),
            (torch.zeros(1).expand(5), "several that share memory"),
            (memory[4:], "apart from all arguments"),
        ):
            with pytest.raises(kc.KernelArgumentError, match=text):
                torch.ops.outs.scaled.out(memory[:5], 2.0, out=out)
