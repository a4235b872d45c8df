"""The table of the transform matrix: kernels beside plain torch, transforms, ways to run them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

import kernelcore as kc
from tests.helpers.environment import DEVICE, IS_CPU
from tests.torch import torch_kernels as k
from torch_ext import torch_callable, torch_op

F64 = kc.float64
Array = kc.array(dtype=F64)
Vectors = kc.array(dtype=kc.vec3d)
Function = Callable[[torch.Tensor], Any]


@kc.struct
class Spring:
    rest: kc.vec3d
    stiffness: kc.float64


@kc.kernel
def scatter(x: Array, index: kc.array(dtype=int), y: Array):
    i = kc.tid()
    kc.atomic_add(y, index[i], x[index[i]] * x[i])


@kc.kernel
def force(s: Spring, x: Vectors, y: Vectors):
    i = kc.tid()
    d = x[i] - s.rest
    y[i] = s.stiffness * kc.dot(d, d) * d


@kc.kernel
def turned(x: Vectors, y: Vectors):
    i = kc.tid()
    y[i] = kc.cross(x[i], x[(i + 1) % x.shape[0]]) * kc.length(x[i])


@kc.func
def softened(v: F64):
    return v * v * v


@kc.func_grad(softened)
def adj_softened(v: F64, ct: F64):
    kc.adjoint[v] += F64(3.0) * v * v * ct


@kc.kernel
def ruled(x: Array, y: Array):
    i = kc.tid()
    y[i] = softened(x[i]) * x[i]


@kc.kernel
def squared(x: Array, a: F64, y: Array):
    i = kc.tid()
    y[i] = a * x[i] * x[i]


def two_launches(x: Array, a: F64, y: Array):
    t = kc.empty_like(x)
    kc.launch(squared, x.shape, [x, a], [t])
    kc.launch(k.neighbours, x.shape, [t], [y])


INDEX = torch.tensor([1, 0, 1, 3, 2], dtype=torch.int32)


class Case(NamedTuple):
    """A function of one tensor, the same in plain torch, and the shape of the tensor."""

    op: Function
    reference: Function
    shape: tuple[int, ...] = (5,)


def _rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[:3], x[3]


def _scatter_torch(x: torch.Tensor) -> torch.Tensor:
    index = INDEX.long()
    return torch.zeros_like(x).index_add(0, index, x[index] * x)


def _force_torch(x: torch.Tensor) -> torch.Tensor:
    d = x - x[0] * x[1]
    return x[0, 0] * (d * d).sum(-1, keepdim=True) * d


def _turned_torch(x: torch.Tensor) -> torch.Tensor:
    length = (x * x).sum(-1, keepdim=True).sqrt()
    return torch.linalg.cross(x, torch.roll(x, -1, 0)) * length


_quadratic, _product, _polar = (
    torch_op(k.quadratic),
    torch_op(k.product, launch_dims=3),
    torch_op(k.polar),
)
_scatter, _grow, _force = torch_op(scatter, output_dims="x"), torch_op(k.grow), torch_op(force)
two_op = torch_callable(two_launches)

CASES: dict[str, Case] = {
    "elementwise": Case(lambda x: _quadratic(x, 1.5), lambda x: 1.5 * x * x),
    "matmul": Case(lambda x: _product(*_rows(x)), lambda x: k.product_torch(*_rows(x)), (4, 2)),
    "neighbour": Case(torch_op(k.neighbours), k.neighbours_torch),
    "gather_scatter": Case(lambda x: _scatter(x, INDEX), _scatter_torch),
    "atomic_sum": Case(torch_op(k.energy, output_dims=1), k.energy_torch),
    "multi_output": Case(lambda x: _polar(x, x * x), lambda x: k.polar_torch(x, x * x)),
    "in_place": Case(lambda x: _grow(x, 2 * x), lambda x: k.grow_torch(x, 2 * x)),
    "struct": Case(
        lambda x: _force({"rest": x[0] * x[1], "stiffness": x[0, 0]}, x), _force_torch, (4, 3)
    ),
    "vec3": Case(torch_op(turned), _turned_torch, (4, 3)),
    "func_grad": Case(torch_op(ruled), lambda x: x**4),
    "callable": Case(
        lambda x: two_op(x, x[0] * 0.5), lambda x: k.neighbours_torch(x[0] * 0.5 * x * x)
    ),
}


def curved(f: Function) -> Function:
    """A scalar that is nonlinear in the results of ``f``."""

    def scalar(x: torch.Tensor) -> torch.Tensor:
        found = f(x)
        found = found if isinstance(found, tuple) else (found,)
        return sum(((one + one**3).sum() for one in found), x.sum() * 0.5)

    return scalar


def _tangent(f: Function, x: torch.Tensor) -> Any:
    with forward_ad.dual_level():
        found = f(forward_ad.make_dual(x, torch.cos(x)))
        found = found if isinstance(found, tuple) else (found,)
        return [forward_ad.unpack_dual(one).tangent for one in found]


def _nested(f: Function, times: int) -> Function:
    scalar = curved(f)

    def derivative(x: torch.Tensor) -> Any:
        x = x.detach().requires_grad_()
        found = scalar(x)
        for n in range(times):
            (found,) = torch.autograd.grad(found.sum(), x, create_graph=n + 1 < times)
        return found

    return derivative


def _checkpointed(f: Function, x: torch.Tensor) -> Any:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(curved(lambda x: checkpoint(f, x, use_reentrant=False))(x), x)


def _pair(x: torch.Tensor) -> torch.Tensor:
    return torch.stack((x, x.sin()))


def _quad(x: torch.Tensor) -> torch.Tensor:
    return torch.stack((_pair(x), _pair(x.cos()), _pair(2 * x)))


# Each takes a function and a tensor.
TRANSFORMS: dict[str, Callable[[Function, torch.Tensor], Any]] = {
    "call": lambda f, x: f(x),
    "grad": lambda f, x: grad(curved(f))(x),
    "vjp": lambda f, x: vjp(curved(f), x)[1](torch.ones_like(x.sum())),
    "jvp": lambda f, x: jvp(f, (x,), (x.cos(),)),
    "jacrev": lambda f, x: jacrev(f)(x),
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "hessian": lambda f, x: hessian(curved(f))(x),
    "grad_grad": lambda f, x: grad(lambda x: grad(curved(f))(x).pow(2).sum())(x),
    "vmap": lambda f, x: vmap(f)(_pair(x)),
    "vmap_last": lambda f, x: vmap(f, in_dims=-1, out_dims=-1)(_pair(x).movedim(0, -1)),
    "vmap_vmap": lambda f, x: vmap(vmap(f), in_dims=1)(_quad(x)),
    "vmap_grad": lambda f, x: vmap(grad(curved(f)))(_pair(x)),
    "grad_vmap": lambda f, x: grad(lambda x: vmap(curved(f))(x).pow(2).sum())(_pair(x)),
    "vmap_hessian": lambda f, x: vmap(hessian(curved(f)))(_pair(x)),
    "jvp_vmap": lambda f, x: jvp(vmap(f), (_pair(x),), (_pair(x.cos()),))[1],
    "dual": _tangent,
}
# These call autograd themselves, so torch.compile sees the function alone.
BACKWARD: dict[str, Callable[[Function, torch.Tensor], Any]] = {
    "backward": lambda f, x: _nested(f, 1)(x),
    "double_backward": lambda f, x: _nested(f, 2)(x),
    "triple_backward": lambda f, x: _nested(f, 3)(x),
    "checkpoint": _checkpointed,
}

# What torch cannot do while it compiles, with its own operators neither, and what it says.
_NO_SECOND_BACKWARD = "not currently support double backward|requires create_graph=False"
REFUSED = {
    "double_backward": _NO_SECOND_BACKWARD,
    "triple_backward": _NO_SECOND_BACKWARD,
    "vmap_hessian": "RuntimeError when making fake tensor call",
}


# Atomics of a GPU add in no fixed order, which gradcheck sees in the last bits of derivatives.
ROUNDING = 0.0 if IS_CPU else 1e-12


class Mode(NamedTuple):
    """How a function is compiled; None for eager."""

    backend: str | None
    dynamic: bool | None = None


MODES = {
    "eager": Mode(None),
    "aot_eager": Mode("aot_eager"),
    "inductor": Mode("inductor"),
    "inductor_dynamic": Mode("inductor", dynamic=True),
}


def compiled(function: Callable[..., Any], mode: Mode) -> Callable[..., Any]:
    """``function`` as ``mode`` runs it, in one graph."""
    if mode.backend is None:
        return function
    return torch.compile(function, backend=mode.backend, dynamic=mode.dynamic, fullgraph=True)


def outcome(name: str, function: Function, x: torch.Tensor, mode: Mode) -> Any:
    """What transform ``name`` of ``function`` gives in ``mode``."""
    if name not in BACKWARD:
        return outcomes((name,), function, x, mode)[name]
    torch._dynamo.reset()
    return BACKWARD[name](compiled(function, mode), x)


def outcomes(
    names: Iterable[str], function: Function, x: torch.Tensor, mode: Mode
) -> dict[str, Any]:
    """What each of the transforms ``names`` of ``function`` gives in one graph."""
    torch._dynamo.reset()
    run = compiled(lambda x: {n: TRANSFORMS[n](function, x) for n in names}, mode)
    with no_default_device():
        return run(x)


@contextmanager
def no_default_device() -> Iterator[None]:
    """Torch without the default device that suites on a GPU set.

    Dynamo of torch 2.11 cannot trace ``Tensor.unflatten``, which jacfwd calls, where there is one.
    """
    torch.set_default_device(None)
    try:
        yield
    finally:
        if "KC_TORCH_DEFAULT" in os.environ:
            torch.set_default_device(DEVICE)


def argument(case: Case) -> torch.Tensor:
    """Numbers of the shape of a case, the same on every device."""
    return randn(*case.shape, seed=2)


def randn(*shape: int, seed: int) -> torch.Tensor:
    """Numbers in float64 on torch's default device, which are those of the CPU's generator."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(shape, dtype=torch.float64, generator=generator, device="cpu")
    return drawn.to(torch.get_default_device())
