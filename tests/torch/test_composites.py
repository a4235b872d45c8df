"""Operators on elements with components, and on every scalar type."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

import kernelcore as kc
from kernelcore.language.types import SCALARS, uint64
from tests.helpers import composites
from tests.helpers.patterns import structs
from torch_ext import dtype_to_torch, overload, torch_op

cross = torch_op(composites.cross())
apply = torch_op(composites.apply())
gather_sum = torch_op(composites.gather_sum(), output_dims={"total": 1})

DTYPES = pytest.mark.parametrize("dtype", SCALARS, ids=str)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def cross_torch(s: Any, axis: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return s * torch.linalg.cross(axis.expand(x.shape), x)


def test_components_are_the_last_axes() -> None:
    x, axis = random(5, 3), random(3)
    for given in (x, random(3, 5).T, random(5, 6)[:, ::2], x.flip(1)):
        torch.testing.assert_close(cross(2.0, axis, given), cross_torch(2.0, axis, given))
    m = random(5, 3, 2).mT
    torch.testing.assert_close(apply(m, x), torch.einsum("irc,ic->ir", m, x))
    total, squares = gather_sum(x)
    torch.testing.assert_close(total, x.sum(0, keepdim=True))
    torch.testing.assert_close(squares, (x * x).sum(1))
    assert cross(2.0, axis, random(0, 3)).shape == (0, 3)


def test_components_that_are_not_stored_are_zero() -> None:
    x = random(400, 3)
    for _ in range(3):
        out = torch_op(composites.first_only())(x)
        assert torch.equal(out[:, 0], x[:, 0])
        assert not out[:, 1:].any()


def test_a_composite_value_is_a_sequence_or_a_tensor() -> None:
    x, axis = random(5, 3), [0.5, -1.0, 2.0]
    expected = cross_torch(2.0, torch.tensor(axis, dtype=torch.float64), x)
    for given in (axis, tuple(axis), np.array(axis), np.array(axis, np.float32)):
        torch.testing.assert_close(cross(2.0, given, x), expected)
    torch.testing.assert_close(cross(s=2.0, p_axis=axis, x=x), expected)
    compiled = torch.compile(cross, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(2.0, tuple(axis), x), expected)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (
            (1.0, random(3), random(5, 4)),
            "argument 'x': expected array of elements of 3 float64 components: shape (n, 3), "
            "found shape (5, 4)",
        ),
        ((1.0, random(4), random(5, 3)), "argument 'p.axis': expected array of the 3 float64"),
        ((1.0, (1.0, 2.0), random(5, 3)), "argument 'p.axis': expected 3 components, found 2"),
        ((1.0, ("a", 1, 2), random(5, 3)), "argument 'p.axis': expected float64"),
        ((1.0, random(3), random(5)), "argument 'x': expected"),
    ],
)
@pytest.mark.parametrize("route", ["eager", "grad", "operator", "meta"])
def test_other_components_are_refused(args: tuple[Any, ...], text: str, route: str) -> None:
    call = cross
    if route == "grad":
        args = (*args[:2], args[2].clone().requires_grad_())
    elif route == "meta":
        args = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    elif route == "operator":
        if not isinstance(args[1], torch.Tensor):
            return
        call = overload(cross)
    with pytest.raises((kc.KernelArgumentError, RuntimeError)) as caught:
        call(*args)
    assert text in str(caught.value)


def test_derivatives_match_differences() -> None:
    s, axis, x = random(1)[0].requires_grad_(), random(3).requires_grad_(), random(4, 3)
    x.requires_grad_()
    assert gradcheck(cross, (s, axis, x), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(cross, (s, axis, x))
    m = random(4, 2, 3).requires_grad_()
    assert gradcheck(apply, (m, x), check_forward_ad=True)
    assert gradgradcheck(apply, (m, x))
    assert gradcheck(gather_sum, (x,), check_forward_ad=True)
    assert gradgradcheck(gather_sum, (x,))


def test_transforms_compose() -> None:
    s, axis, x = random(1)[0], random(2, 3), random(2, 5, 3)
    for dims in ((None, 0, 0), (None, None, 0), (None, 0, None)):
        given = [a if d == 0 else a[0] for a, d in zip((axis, x), dims[1:], strict=True)]
        found = torch.vmap(cross, dims)(s, *given)
        expected = torch.vmap(cross_torch, dims)(s, *given)
        torch.testing.assert_close(found, expected)
    columns = torch.vmap(cross, (None, 1, 2), 1)(s, axis.T, x.permute(1, 2, 0))
    torch.testing.assert_close(columns, torch.vmap(cross_torch, (None, 0, 0), 1)(s, axis, x))
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        found = transform(cross, (1, 2))(s, axis[0], x[0])
        expected = transform(cross_torch, (1, 2))(s, axis[0], x[0])
        torch.testing.assert_close(found, expected)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x[0], x[1])
        tangent = forward_ad.unpack_dual(cross(s, axis[0], dual)).tangent
    torch.testing.assert_close(tangent, cross_torch(s, axis[0], x[1]))


def test_compiled_with_dynamic_shapes() -> None:
    compiled = torch.compile(
        lambda a, x: cross(2.0, a, x).sin(), fullgraph=True, dynamic=True, backend="inductor"
    )
    for n in (3, 7, 4):
        axis, x = random(3).requires_grad_(), random(n, 3).requires_grad_()
        found = torch.autograd.grad(compiled(axis, x).sum(), (axis, x))
        expected = torch.autograd.grad(cross_torch(2.0, axis, x).sin().sum(), (axis, x))
        torch.testing.assert_close(found, expected)


def test_operators_pass_opcheck() -> None:
    args = (2.0, random(3).requires_grad_(), random(4, 3).requires_grad_())
    torch.library.opcheck(overload(cross), args)


def test_shapes_of_outputs_have_components_or_leave_them_out() -> None:
    x, axis = random(5, 3), random(3)
    for dims in (5, (5,), (5, 3), "x", ("x.shape[0]",), ("x.shape[0]", "x.shape[1]")):
        op = torch_op(composites.cross(), output_dims=dims)
        torch.testing.assert_close(op(1.0, axis, x), cross(1.0, axis, x))
    for dims in ((5, 4), ("x.shape[0]", 2), (5, 3, 1), ("x.shape[0]", "x.shape[0]")):
        with pytest.raises(kc.KernelArgumentError, match="output 'out'"):
            torch_op(composites.cross(), output_dims=dims)
    with pytest.raises(kc.KernelArgumentError, match="launch shape of rank 1"):
        torch_op(composites.cross(), launch_dims=("x.shape[0]", "x.shape[1]"))


rigid = torch_op(composites.rigid, output_dims={"energy": 1})


def rigid_torch(m: torch.Tensor, t: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x @ m.T + t
    return y, 0.5 * (y * y).sum().reshape(1)


def test_kernels_from_source_agree_with_reference() -> None:
    m, t, x = (a.requires_grad_() for a in (random(3, 3), random(3), random(4, 3)))
    torch.testing.assert_close(rigid(m, t, x), rigid_torch(m, t, x))
    assert gradcheck(rigid, (m, t, x), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(rigid, (m, t, x))
    batches = (random(2, 3, 3), random(2, 3), random(2, 4, 3))
    for dims in ((0, 0, 0), (0, None, None), (None, 0, None)):
        given = [a if d == 0 else a[0] for a, d in zip(batches, dims, strict=True)]
        found = torch.vmap(rigid, dims)(*given)
        torch.testing.assert_close(found, torch.vmap(rigid_torch, dims)(*given))
        found = torch.func.jacrev(lambda *a, d=dims: torch.vmap(rigid, d)(*a), (0, 1, 2))(*given)
        expected = torch.func.jacrev(lambda *a, d=dims: torch.vmap(rigid_torch, d)(*a), (0, 1, 2))(
            *given
        )
        torch.testing.assert_close(found, expected)


def test_values_of_the_language_are_taken() -> None:
    x = random(4, 3)
    m, t = kc.mat33d(0, 1, 0, 0, 0, 1, 1, 0, 0), kc.vec3d(1, 2, 3)
    expected = x[:, [1, 2, 0]] + torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    rows = ([0, 1, 0], (0.0, 0.0, 1.0), [1, 0, 0])
    torch._dynamo.reset()
    for call in (rigid, torch.compile(rigid, fullgraph=True, backend="aot_eager")):
        for given in ((m, t), (rows, (1, 2.0, 3)), (np.array(m), np.float32(t))):
            torch.testing.assert_close(call(*given, x)[0], expected)
        with pytest.raises(Exception, match="'t': expected"):
            call(m, (1, "2", 3), x)


def test_arrays_of_elements_are_updated_in_a_copy() -> None:
    op = torch_op(composites.gather_sum(), outputs=("n2",), in_out=("total",))
    x, start = random(5, 3).requires_grad_(), random(1, 3).requires_grad_()
    total, squares = op(x, start)
    torch.testing.assert_close(total, start + x.sum(0))
    torch.testing.assert_close(squares, (x * x).sum(1))
    assert gradgradcheck(op, (x, start))


def test_structs_are_passed_as_flattened_arguments() -> None:
    op = torch_op(composites.pull)
    names = ["p_position", "p_mass_", "others_position", "others_mass", "p_mass"]
    assert list(inspect.signature(op).parameters) == ["p", "others", "p_mass"]
    assert [a.name for a in overload(op)._schema.arguments] == names
    position, others, mass = random(3), random(4, 3), random(4)
    expected = 6.0 * mass[:, None] * (others - position)
    torch.testing.assert_close(op(position, 2.0, others, mass, 3.0), expected)
    named = dict(zip(names, (position, 2.0, others, mass, 3.0), strict=True))
    torch.testing.assert_close(op(**named), expected)
    leaves = [a.requires_grad_() for a in (position, random(1)[0], others, mass, random(1)[0])]
    assert gradcheck(op, leaves)
    for call in (op, torch.compile(op, fullgraph=True, backend="aot_eager")):
        position, mass_, *arrays, factor = (a.detach() for a in leaves)
        for p, fields in (
            ({"position": position, "mass": mass_}, {"mass": arrays[1], "position": arrays[0]}),
            ((position, mass_), SimpleNamespace(position=arrays[0], mass=arrays[1])),
        ):
            torch.testing.assert_close(call(p, fields, factor), op(*(a.detach() for a in leaves)))
        torch._dynamo.reset()
    # Fields of an array of structs are strided views of one memory.
    records = np.zeros(4, [("position", "f8", 3), ("tag", "i1", 8), ("mass", "f8")])
    records["position"], records["mass"] = others.detach(), mass.detach()
    views = [torch.from_numpy(records[n]) for n in ("position", "mass")]
    torch.testing.assert_close(op(position.detach(), 2.0, *views, 3.0), expected.detach())


def test_a_struct_that_is_a_result_is_named_whole_or_field_by_field() -> None:
    fields = [f"out.{name}" for name in ("position", "velocity", "mass")]
    given = random(3, 3), random(3, 3), random(3)
    expected = torch_op(structs.struct_stored_whole, outputs=fields)(*given)
    for outputs in (["out"], "out", None):
        found = torch_op(structs.struct_stored_whole, outputs=outputs)(*given)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    with pytest.raises(kc.KernelArgumentError, match=r"outputs: no parameter is named 'out\.spin'"):
        torch_op(structs.struct_stored_whole, outputs=[*fields, "out.spin"])


def test_elements_outside_of_the_grid_are_zero() -> None:
    x, axis = random(5, 3), random(3)
    op = torch_op(composites.cross(), output_dims=9)
    for _ in range(3):
        out = op(2.0, axis, x)
        torch.testing.assert_close(out[:5], cross(2.0, axis, x))
        assert out.shape == (9, 3)
        assert not out[5:].any()


def numbers(dtype: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """Some elements of ``dtype``, and its largest number."""
    if dtype.kind == "bool":
        return np.array([True, False, True]), True
    array = np.array([1, 0, 5], dtype.numpy)
    top = float(ml_dtypes.finfo(dtype.numpy).max) if dtype.is_float else dtype.limits[1]
    return array, top


@DTYPES
def test_every_dtype_passes_through(dtype: Any) -> None:
    op = torch_op(composites.copies(dtype))
    array, top = numbers(dtype)
    x = torch.tensor(array.tolist(), dtype=dtype_to_torch(dtype))
    tensor = (
        torch.from_numpy(np.full((), top, np.uint64)) if dtype == uint64 else x.new_full((), top)
    )
    torch._dynamo.reset()  # All operators share one code object, which has a limit of its own.
    routes = [op, torch.compile(op, fullgraph=True, backend="aot_eager")]
    for call in routes:
        for value in (top, tensor):
            out, same = call(x, value)
            assert out.dtype == same.dtype == x.dtype
            assert out.tolist() == x.tolist()
            assert same.tolist() == [top] * 3
    out, same = torch.vmap(op, (0, None))(x[None].repeat(2, 1), tensor)
    assert out.tolist() == [x.tolist()] * 2
    assert same.tolist() == [[top] * 3] * 2


@pytest.mark.parametrize("dtype", [s for s in SCALARS if s.is_integer], ids=str)
@pytest.mark.parametrize("compiled", [False, True])
def test_integers_out_of_range_are_refused(dtype: Any, compiled: bool) -> None:
    op = torch_op(composites.copies(dtype))
    torch._dynamo.reset()
    call = torch.compile(op, fullgraph=True, backend="aot_eager") if compiled else op
    x = torch.zeros(3, dtype=dtype_to_torch(dtype))
    low, high = dtype.limits
    for value in (low - 1, high + 1):
        with pytest.raises(Exception, match="value") as caught:
            call(x, value)
        assert compiled or isinstance(caught.value, kc.KernelArgumentError)


@pytest.mark.parametrize("dtype", [s for s in SCALARS if s.is_float], ids=str)
def test_every_float_type_is_differentiable(dtype: Any) -> None:
    op = torch_op(composites.copies(dtype))
    x = torch.tensor([1.0, 0.5, 2.0], dtype=dtype_to_torch(dtype), requires_grad=True)
    value = torch.tensor(3.0, dtype=x.dtype, requires_grad=True)
    out, same = op(x, value)
    weight = torch.tensor([1.0, 2.0, 4.0], dtype=x.dtype)
    gx, gv = torch.autograd.grad((out * weight).sum() + (same * weight).sum(), (x, value))
    assert torch.equal(gx, weight)
    assert gv.item() == 7.0
