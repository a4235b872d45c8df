"""Elementwise operations as code of XLA's own, which it fuses with the program around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.interpreters import mlir

from jax_ffi.primitive import Launch
from kernelcore.operators import (
    SCALARS,
    Arithmetic,
    Fuse,
    Operation,
    Scalar,
    computed,
    fits,
    is_fused,
    require_fusable,
)

# XLA contracts products and sums, divides by constants as it multiplies, and takes denormals for
# zeros: in these operations as in those of the program around them, whose arithmetic it is. Its
# elementary functions take longer than a launch does.
_WIDE = Arithmetic()
# Without jax_enable_x64, programs have no types of 64 bits, which are the first to be asked for.
_NARROW = Arithmetic(frozenset(s for s in SCALARS if s.bits < 64))


def _arithmetic() -> Arithmetic:
    return _WIDE if jax.dtypes.canonicalize_dtype(np.int64) == np.int64 else _NARROW


def require_arithmetic(operation: Operation, fuse: Fuse) -> None:
    """Refuse an operation that is to be fused and that XLA cannot compute.

    Raises:
        KernelArgumentError: Naming the line and the reason.
    """
    require_fusable(operation, fuse, _WIDE)


def lower_fused(ctx: mlir.LoweringRuleContext, operands: Sequence[Any], launch: Launch) -> Any:
    """The lowering of ``launch`` as operations of XLA; None where it is a launch."""
    operation = launch.operation
    if launch.has_side_effect or not is_fused(operation, launch.fuse, _arithmetic()):
        return None
    if not fits(operation, ctx.avals_in):
        return None

    def whole(*values: Any) -> list[Any]:
        return computed(operation, _FUNCTIONS, values)

    # Where shardings are part of types, those of operands may differ; results are replicated.
    avals: Sequence[Any] = ctx.avals_in
    plain = ctx.replace(avals_in=[ShapedArray(a.shape, a.dtype) for a in avals])
    return mlir.lower_fun(whole, multiple_results=True)(plain, *operands)


class _Functions:
    """Functions of the Python array API on values of JAX."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return getattr(jnp, name)

    def scalar(self, t: Scalar, value: float) -> Any:
        # XLA combines constants of a chain of sums or products, which rounds otherwise, and loses
        # what cancels. It does not look through barriers.
        return lax.optimization_barrier(jnp.full((), value, t.numpy))

    def value(self, t: Scalar, given: Any) -> Any:
        return lax.optimization_barrier(jnp.asarray(given, t.numpy))

    def astype(self, x: Any, t: Scalar) -> Any:
        return x.astype(t.numpy)

    def indices(self, count: int) -> Any:
        return jnp.arange(count, dtype=jnp.int32)

    def result(self, x: Any, shape: Sequence[int], is_new: bool) -> Any:
        return jnp.broadcast_to(x, tuple(shape))


_FUNCTIONS = _Functions()
