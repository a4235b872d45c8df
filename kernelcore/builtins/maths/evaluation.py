"""Elementary functions as NumPy numbers: what constant folding and host calls evaluate."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from kernelcore.base import native
from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.language.types import FLOATS, Scalar, float32, float64


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Computes with NumPy scalars, or with arrays of them: a lane is an element."""

    fused: bool
    estimates = False
    scales = False

    def const(self, scalar: Scalar, value: float) -> Any:
        """``value``, rounded to ``scalar``."""
        # The zeros are equal, and differ.
        return _constant(scalar, value) if value else scalar(value)

    def unary(self, name: str, scalar: Scalar, x: Any) -> Any:
        """See ``Arithmetic``."""
        del scalar
        return _UNARY[name](x)

    def binary(self, name: str, scalar: Scalar, x: Any, y: Any) -> Any:
        """See ``Arithmetic``."""
        del scalar
        return _BINARY[name](x, y)

    def fused_multiply_add(self, scalar: Scalar, x: Any, y: Any, z: Any) -> Any:
        """``x * y + z``, rounded once."""
        one: Callable[[Any, Any, Any], float] = native.fma if scalar == float64 else native.fmaf
        if isinstance(x, np.ndarray) or isinstance(y, np.ndarray) or isinstance(z, np.ndarray):
            every = cast("Callable[..., Any]", np.frompyfunc(one, 3, 1))
            return every(x, y, z).astype(scalar.numpy)
        return scalar.numpy.type(one(x, y, z))

    def scaled(self, scalar: Scalar, x: Any, exponent: Any) -> Any:
        """See ``Arithmetic``."""
        raise NotImplementedError

    def select(self, scalar: Scalar, condition: Any, x: Any, y: Any) -> Any:
        """``x`` where ``condition`` holds, else ``y``."""
        del scalar
        if np.ndim(condition) == 0:
            return x if condition else y
        return cast("Any", np.where(condition, x, y))

    def reinterpret(self, source: Scalar, target: Scalar, x: Any) -> Any:
        """The bits of ``x`` as another type of the same width."""
        del source
        return x.view(target.numpy)

    def convert(self, source: Scalar, target: Scalar, x: Any) -> Any:
        """``x`` as another type: floats round to nearest, integers wrap and keep their sign."""
        del source
        return x.astype(target.numpy)

    def lookup(self, table: Sequence[int], index: Any) -> Any:
        """The int64 at ``index``."""
        return np.array(table, np.int64)[index]

    def beyond(
        self, limit: float, function: Callable[[Value], Value], x: Value, usual: Value
    ) -> Any:
        """``usual`` where ``abs(x) <= limit``, else ``function(x)``."""
        is_usual = np.abs(x.raw) <= limit
        if np.all(is_usual):
            return usual.raw
        return self.select(usual.type, is_usual, usual.raw, function(x).raw)

    def shortened(self, is_usual: Value, usual: Value, whole: Callable[[], Value]) -> Any:
        """``whole()``, which equals ``usual`` where ``is_usual`` holds."""
        del is_usual, usual
        return whole().raw


@lru_cache(maxsize=1024, typed=True)
def _constant(scalar: Scalar, value: float) -> Any:
    return scalar(value)


def _lshr(x: Any, y: Any) -> Any:
    unsigned = np.uint64 if x.dtype == np.int64 else np.uint32
    return np.right_shift(x.view(unsigned), y.view(unsigned)).view(x.dtype)


# Python's operators on scalars of NumPy are ten times faster than its functions.
_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg,
    "abs": operator.abs,
    "sqrt": np.sqrt,
    "not": np.logical_not,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, function)
    for name, function in {
        "add": "add",
        "sub": "sub",
        "mul": "mul",
        "div": "truediv",
        "and": "and_",
        "or": "or_",
        "xor": "xor",
        "shl": "lshift",
        "ashr": "rshift",
        "lt": "lt",
        "le": "le",
        "eq": "eq",
        "ne": "ne",
    }.items()
} | {"lshr": _lshr}
_FLOATS = {f.numpy: f for f in FLOATS}


def evaluated(function: Callable[..., Value], fused: bool = native.has_fma) -> Callable[..., Any]:
    """``function`` on NumPy scalars or arrays of one type, which its result has too.

    Numbers of Python take the type of the others, or are float64. Floats of 16 bits are computed
    in float32 and rounded.
    """
    on = Evaluation(fused)

    def evaluate(*operands: Any) -> Any:
        dtype = np.result_type(*operands)
        target = dtype if dtype in _FLOATS else np.dtype(np.float64)
        scalar = float64 if target == np.float64 else float32
        values = [np.asarray(x).astype(scalar.numpy)[()] for x in operands]
        shape = np.broadcast_shapes(*(np.shape(v) for v in values))
        if shape:
            values = [np.broadcast_to(v, shape) for v in values]
        with np.errstate(all="ignore"):
            result = function(*(Value(on, scalar, v) for v in values)).raw
        return result if target == scalar.numpy else result.astype(target)

    return evaluate
