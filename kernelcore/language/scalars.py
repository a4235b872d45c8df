"""The scalar types of the kernel language, and NumPy's of the same layout."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kernelcore.base.dataclass import dataclass
from kernelcore.base.lazy import Deferred

# Few programs have numbers of its types.
if TYPE_CHECKING:
    import ml_dtypes
else:
    ml_dtypes = Deferred("ml_dtypes")


@dataclass(frozen=True, eq=False, slots=True)
class Scalar:
    """A machine scalar, one object each; ``kind`` is 'bool', 'int', 'uint' or 'float'.

    Calling it converts as a kernel does: a float saturates as an integer, and NaN is 0. It is used
    as a class: ``isinstance(x, float32)`` asks whether ``x`` is a NumPy scalar of this type.
    """

    name: str
    kind: str
    bits: int

    @property
    def size_bytes(self) -> int:
        """Bytes of one element in an array; a bool takes one."""
        return max(self.bits // 8, 1)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same layout."""
        return _numpy(self.name)

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def _type_(self) -> Any:
        """The type of ``ctypes`` of the same layout."""
        is_narrow = self.is_float and self.bits == 16
        return np.ctypeslib.as_ctypes_type(np.uint16 if is_narrow else self.numpy)

    def __instancecheck__(self, value: object) -> bool:
        given: Any = value
        return isinstance(value, np.generic) and given.dtype == self.numpy

    @property
    def index(self) -> int:
        """Its place in ``SCALARS``, by which native code knows it."""
        return _INDICES[self.name]

    @property
    def python(self) -> type[bool | int | float]:
        """The type of its values in Python."""
        return {"bool": bool, "float": float}.get(self.kind, int)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer, signed or not."""
        return self.kind in ("int", "uint")

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest value of an integer."""
        if self.kind == "uint":
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    def __call__(self, value: Any) -> Any:
        is_float = isinstance(value, float | np.floating) or type(value).__name__ == "bfloat16"
        if self.is_integer and is_float:
            low, high = self.limits
            # As a number of Python, which compares with integers exactly.
            number = float(cast("Any", value))
            value = 0 if number != number else int(max(min(number, high), low))
        with np.errstate(all="ignore"):
            return self.numpy.type(value)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.name,)


boolean = Scalar("bool", "bool", 1)
int8 = Scalar("int8", "int", 8)
int16 = Scalar("int16", "int", 16)
int32 = Scalar("int32", "int", 32)
int64 = Scalar("int64", "int", 64)
uint8 = Scalar("uint8", "uint", 8)
uint16 = Scalar("uint16", "uint", 16)
uint32 = Scalar("uint32", "uint", 32)
uint64 = Scalar("uint64", "uint", 64)
float16 = Scalar("float16", "float", 16)
bfloat16 = Scalar("bfloat16", "float", 16)
float32 = Scalar("float32", "float", 32)
float64 = Scalar("float64", "float", 64)

# The position of a scalar is its number in the native ABI.
SCALARS: tuple[Scalar, ...] = (
    boolean,
    int32,
    int64,
    float32,
    float64,
    int8,
    int16,
    uint8,
    uint16,
    uint32,
    uint64,
    float16,
    bfloat16,
)
_INDICES = {s.name: place for place, s in enumerate(SCALARS)}


def _named(name: str) -> Scalar:
    """The scalar of a name, as unpickling finds it."""
    return SCALARS[_INDICES[name]]


@cache
def _numpy(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


@cache
def scalar_of_numpy(dtype: np.dtype[Any]) -> Scalar | None:
    """The scalar type of the same layout, or None."""
    return _named(dtype.name) if dtype.isnative and dtype.name in _INDICES else None


# Python's own types in annotations and casts.
PYTHON_SCALARS: dict[type, Scalar] = {bool: boolean, int: int32, float: float32}
