"""The bits of a float as an integer, and back; ``bitcast`` of the language is made of these."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kernelcore.builtins import float16
from kernelcore.builtins.declare import Builtin, builtin
from kernelcore.builtins.lowering import Emit
from kernelcore.builtins.reference import is_narrow, nearest, on_scalars
from kernelcore.ir.op import Op
from kernelcore.language.types import FLOATS, Scalar, unsigned

_INTEGER = "result is an integer"


def _to_bits(dtype: Scalar) -> Builtin[[Any], Any]:
    def lower(e: Emit, t: Scalar, x: str) -> str:
        if is_narrow(dtype):
            return float16.encode(e, dtype, x)
        return e.op(f"bitcast {e.type(t)} {x} to {e.type(unsigned(dtype.bits))}")

    @on_scalars
    def ref(x: Any) -> Any:
        # Floats of 16 bits are given as float32.
        return nearest(x, dtype).view(unsigned(dtype.bits).numpy)

    return builtin(lower=lower, ref=ref, no_grad=_INTEGER)(
        _stub(f"{dtype}_to_bits", dtype, unsigned(dtype.bits), f"The bits of a {dtype}.")
    )


def _from_bits(dtype: Scalar) -> Builtin[[Any], Any]:
    def lower(e: Emit, t: Scalar, x: str) -> str:
        if is_narrow(dtype):
            return float16.decode(e, dtype, x)
        return e.op(f"bitcast {e.type(t)} {x} to {e.type(dtype)}")

    @on_scalars
    def ref(x: Any) -> Any:
        return unsigned(dtype.bits).numpy.type(x).view(dtype.numpy)

    # Integers do not vary.
    return builtin(lower=lower, ref=ref, grad={})(
        _stub(f"{dtype}_from_bits", unsigned(dtype.bits), dtype, f"The {dtype} of these bits.")
    )


def _stub(name: str, source: Scalar, target: Scalar, doc: str) -> Any:
    """What ``builtin`` enters: a signature of single types."""

    def stub(x: Any) -> Any: ...

    stub.__name__, stub.__doc__ = name, doc
    stub.__annotations__ = {"x": source.name, "return": target.name}
    return stub


TO_BITS: Mapping[Scalar, Op] = MappingProxyType({f: _to_bits(f).op for f in FLOATS})
FROM_BITS: Mapping[Scalar, Op] = MappingProxyType({f: _from_bits(f).op for f in FLOATS})
