"""torch.func transforms and forward mode in any nesting, eagerly and compiled."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from tests.torch import torch_kernels as k
from tests.torch.matrix import no_default_device
from torch_ext import torch_op

F64 = torch.float64
torch.manual_seed(1)
X = torch.randn(5, dtype=F64)
V = torch.randn(5, dtype=F64)
BATCH = torch.randn(3, 5, dtype=F64)
CUBE = torch.randn(2, 3, 5, dtype=F64)
A = torch.tensor(1.5, dtype=F64)

quadratic = torch_op(k.quadratic)
blend = torch_op(k.blend)
grow = torch_op(k.grow)

OPS = {
    "neighbours": (torch_op(k.neighbours), k.neighbours_torch),
    "blend_self": (
        lambda x: blend(x, 0.3 * x),
        lambda x: k.blend_torch(x, 0.3 * x),
    ),
    "quadratic": (
        lambda x: quadratic(x, 1.5),
        lambda x: k.quadratic_torch(x, 1.5),
    ),
    "grow": (
        lambda x: grow(x, torch.ones_like(x)),
        lambda x: k.grow_torch(x, torch.ones_like(x)),
    ),
    "energy": (torch_op(k.energy, output_dims=1), k.energy_torch),
}


def curved(f, x):
    """A scalar that is nonlinear in ``f`` and in ``x``."""
    return (f(x) ** 2).sum() * x.sum() + (f(f(x)) if f(x).shape == x.shape else f(x)).sum()


def dual(f):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(X, V))).tangent


TRANSFORMS = {
    "grad": lambda f: grad(lambda x: curved(f, x))(X),
    "vjp": lambda f: vjp(f, X)[1](torch.ones_like(f(X)))[0],
    "jvp": lambda f: jvp(f, (X,), (V,)),
    "dual": dual,
    "vmap": lambda f: vmap(f)(BATCH),
    "vmap_in_dim_1": lambda f: vmap(f, in_dims=1, out_dims=1)(BATCH.T),
    "vmap_chunks": lambda f: vmap(f, chunk_size=2)(BATCH),
    "vmap_vmap": lambda f: vmap(vmap(f), in_dims=1)(CUBE),
    "vmap_grad": lambda f: vmap(grad(lambda x: curved(f, x)))(BATCH),
    "grad_vmap": lambda f: grad(lambda x: vmap(f)(x).pow(2).sum())(BATCH),
    "vmap_jvp": lambda f: vmap(lambda x: jvp(f, (x,), (V,))[1])(BATCH),
    "jvp_vmap": lambda f: jvp(vmap(f), (BATCH,), (BATCH.cos(),))[1],
    "jacrev": lambda f: jacrev(f)(X),
    "jacfwd": lambda f: jacfwd(f)(X),
    "hessian": lambda f: hessian(lambda x: curved(f, x))(X),
    "jacrev_jacrev": lambda f: jacrev(jacrev(lambda x: curved(f, x)))(X),
    "jacfwd_jacfwd": lambda f: jacfwd(jacfwd(lambda x: curved(f, x)))(X),
    "jacrev_jacfwd": lambda f: jacrev(jacfwd(lambda x: curved(f, x)))(X),
    "grad_hessian": lambda f: grad(lambda x: hessian(lambda x: curved(f, x))(x).sum())(X),
    "vmap_hessian": lambda f: vmap(hessian(lambda x: curved(f, x)))(BATCH),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", OPS)
def test_transform_agrees_with_plain_torch(name, transform):
    op, reference = OPS[name]
    apply = TRANSFORMS[transform]
    torch.testing.assert_close(apply(op), apply(reference))


@pytest.mark.parametrize(
    "transform", ["grad", "jvp", "dual", "vmap", "vmap_grad", "grad_vmap", "hessian"]
)
def test_compiled_transform_agrees_with_plain_torch(transform):
    op, reference = OPS["neighbours"]
    apply = TRANSFORMS[transform]
    compiled = torch.compile(lambda: apply(op), fullgraph=True, backend="aot_eager")
    with no_default_device():
        found = compiled()
    torch.testing.assert_close(found, apply(reference))


@pytest.mark.parametrize("in_dims", [(0, None), (None, 0), (0, 0), (1, 0)])
def test_vmap_shares_unbatched_operands(in_dims):
    op = torch_op(k.product, launch_dims=("m.shape[0]",))
    shapes = {0: (4, 3, 2), 1: (3, 4, 2), None: (3, 2)}
    m = torch.randn(shapes[in_dims[0]], dtype=F64)
    v = torch.randn((2,) if in_dims[1] is None else (4, 2), dtype=F64)

    def batched(f):
        return vmap(f, in_dims=in_dims)(m, v)

    def derivatives(f):
        return grad(lambda m, v: vmap(f, in_dims=in_dims)(m, v).pow(2).sum(), (0, 1))(m, v)

    torch.testing.assert_close(batched(op), batched(k.product_torch))
    torch.testing.assert_close(derivatives(op), derivatives(k.product_torch))


@pytest.mark.parametrize("in_dims", [(0, None), (None, 0), (0, 0)])
def test_vmap_of_an_in_out_operand(in_dims):
    x, state = (V if d is None else BATCH for d in in_dims)
    f, reference = vmap(grow, in_dims=in_dims), vmap(k.grow_torch, in_dims=in_dims)
    torch.testing.assert_close(f(x, state), reference(x, state))
    torch.testing.assert_close(
        grad(lambda x, s: f(x, s).sum(), (0, 1))(x, state),
        grad(lambda x, s: reference(x, s).sum(), (0, 1))(x, state),
    )


SCALAR_TRANSFORMS = {
    "grad": lambda f: grad(lambda a: f(X, a).pow(2).sum())(A),
    "grad_grad": lambda f: grad(grad(lambda a: f(X, a).pow(2).sum()))(A),
    "jacfwd": lambda f: jacfwd(partial(f, X))(A),
    "jacrev": lambda f: jacrev(partial(f, X))(A),
    "mixed": lambda f: jacfwd(jacrev(lambda x, a: f(x, a).pow(3).sum(), 1), 0)(X, A),
    "hessian": lambda f: hessian(lambda a: f(X, a).pow(3).sum())(A),
    "vmap": lambda f: vmap(f, in_dims=(None, 0))(X, X),
    "vmap_both": lambda f: vmap(f)(BATCH, X[:3]),
    "vmap_grad": lambda f: vmap(grad(lambda a: f(X, a).pow(2).sum()))(X),
    "vmap_vmap": lambda f: vmap(lambda x: vmap(partial(f, x))(X))(BATCH),
}


@pytest.mark.parametrize("transform", SCALAR_TRANSFORMS)
def test_scalar_tensors_are_transformed(transform):
    apply = SCALAR_TRANSFORMS[transform]
    torch.testing.assert_close(apply(quadratic), apply(k.quadratic_torch))


def nested(transform, times, f):
    return f if times == 0 else transform(nested(transform, times - 1, f))


@pytest.mark.parametrize("compile_it", [False, True])
def test_batches_beyond_the_launch_dimensions_run_in_sequence(compile_it):
    x = torch.randn((1, 2, 1, 1, 1, 1, 1, 2, 3, 2), dtype=F64)
    state = torch.randn((2, 3, 2), dtype=F64)

    def both(quadratic, grow):
        f = nested(vmap, 9, lambda x: quadratic(x, 1.5))
        g = nested(partial(vmap, in_dims=(0, None)), 7, nested(vmap, 2, grow))
        d = grad(lambda x: f(x).pow(2).sum())
        return f(x), g(x, state), d(x), f(x[:, :0])

    expected = both(k.quadratic_torch, k.grow_torch)
    f = torch.compile(both, fullgraph=True, backend="aot_eager") if compile_it else both
    torch.testing.assert_close(f(quadratic, grow), expected)


def test_eight_nested_jacobians():
    x = torch.randn(1, dtype=F64)
    found = nested(jacfwd, 8, torch_op(k.quartic))(x)
    assert found.shape == (1,) * 9
    assert found.item() == 0.0


def test_numbers_beside_scalar_tensors():
    op = torch_op(k.scaled)
    for f in (
        lambda g: grad(lambda a: g(X, a, 3).sum())(A),
        lambda g: vmap(g, (0, 0, None))(BATCH, X[:3], 2),
    ):
        torch.testing.assert_close(f(op), f(k.scaled_torch))
    compiled = torch.compile(lambda x, a: op(x, n=3, a=a), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(X, A), k.scaled_torch(X, A, 3))


def test_operator_of_scalars_only():
    op = torch_op(k.powers, launch_dims=4)
    for f in (vmap, lambda f: vmap(jacrev(f)), lambda f: vmap(jacfwd(jacfwd(f)))):
        torch.testing.assert_close(f(op)(X), f(k.powers_torch)(X))
    # No tensor says where: it runs on the CPU, whatever torch's default device is. Torch gives that
    # device to its own factories only, and the operator has no argument for another one.
    compiled = torch.compile(lambda: op(3.0), fullgraph=True, backend="aot_eager")
    with torch.device("cpu"):
        expected = k.powers_torch(3.0).double()
    torch.testing.assert_close(op(3.0), expected)
    torch.testing.assert_close(compiled(), expected)


def test_integer_operands_have_no_derivative():
    op = torch_op(k.take, launch_dims="index")
    index = torch.tensor([1, 0, 1, 3], dtype=torch.int32)

    def f(op):
        return vmap(jacrev(lambda x: op(x, index, 1, False)))(BATCH)

    torch.testing.assert_close(f(op), f(k.take_torch))


def test_several_results_are_transformed():
    op, reference = torch_op(k.polar), k.polar_torch

    def both(f):
        g = vmap(jacfwd(lambda x: f(x, V)))(BATCH)
        h = vmap(jacrev(lambda x: f(x, x * V)))(BATCH)
        return g, h, jvp(vmap(f, in_dims=(0, None)), (BATCH, V), (BATCH, X))

    torch.testing.assert_close(both(op), both(reference))


def test_module_parameters_go_through_functional_call():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(V.clone())

        def forward(self, x):
            return blend(x, self.weight).sum()

    model = Model()
    params = dict(model.named_parameters())
    found = vmap(grad(lambda p, x: functional_call(model, p, (x,))), (None, 0))(params, BATCH)
    expected = vmap(grad(lambda w, x: k.blend_torch(x, w).sum()), (None, 0))(V, BATCH)
    torch.testing.assert_close(found["weight"], expected)
