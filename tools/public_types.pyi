# The types of kernelcore's annotations and values that no source declares. The stub begins with
# this text; ``tools/public_stub.py`` adds composites, built-ins and exports.
#
# Scalars are Python's numbers to type checkers: literals take the type of what they meet, which
# Python's types cannot say. The compiler checks dtypes.
# pyright: basic, reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# pyright: reportOverlappingOverload=false, reportInvalidTypeVarUse=false
# pyright: reportInconsistentOverload=false
# mypy: ignore-errors
import builtins as _builtins
from collections.abc import Callable as _Callable
from collections.abc import Iterator as _Iterator
from collections.abc import Sequence as _Sequence
from types import EllipsisType as _EllipsisType
from typing import Annotated as _Annotated
from typing import Any as _Any
from typing import Generic as _Generic
from typing import Literal as _Literal
from typing import ParamSpec as _ParamSpec
from typing import Self as _Self
from typing import TypeVar as _TypeVar
from typing import dataclass_transform as _dataclass_transform
from typing import overload as _overload

from numpy.typing import NDArray as _NDArray  # noqa: F401
from typing_extensions import TypeVar as _WithDefault

from kernelcore.language.composite import Composite as _Composite
from kernelcore.language.function import Function as _Function
from kernelcore.launch.kernel import Kernel as Kernel
from kernelcore.runtime.array.array import Array as Array
from kernelcore.runtime.array.indexed_array import IndexedArray as IndexedArray

__version__: str
__all__: list[str]

boolean = _builtins.bool
bool = _builtins.bool
int = _builtins.int
float = _builtins.float
int8 = int
int16 = int
int32 = int
int64 = int
uint8 = int
uint16 = int
uint32 = int
uint64 = int
float16 = float
bfloat16 = float
float32 = float
float64 = float

_P = _ParamSpec("_P")
_R = _TypeVar("_R", covariant=True)
_T = _TypeVar("_T")
_N = _WithDefault("_N", default=_Literal[1])
_S = _TypeVar("_S", bound=float)
_U = _TypeVar("_U", bound=float)

# Arrays, in annotations and in kernels.

class _ArrayOf(Array, _Generic[_T]):
    def __new__(
        cls,
        data: _Any = None,
        dtype: _Any = None,
        shape: _Any = None,
        *,
        ndim: int | _EllipsisType | None = None,
        copy: _builtins.bool = True,
        device: _Any = None,
        requires_grad: _builtins.bool = False,
        **options: _Any,
    ) -> Array: ...
    def __set__(self, instance: _Any, value: _Any) -> None: ...

class array(_ArrayOf[_T], _Generic[_T, _N]):
    """An array with elements of a type: ``array[float]``, or ``array[float, Literal[2]]``."""

    @_overload
    def __getitem__(self: array1d[_T], index: int) -> _T: ...
    @_overload
    def __getitem__(self: array1d[_T], index: slice) -> array1d[_T]: ...
    @_overload
    def __getitem__(self: array1d[_T], index: array1d[int]) -> _Any: ...
    @_overload
    def __getitem__(self: array[_T, _Literal[2]], index: tuple[int, int]) -> _T: ...
    @_overload
    def __getitem__(self: array[_T, _Literal[2]], index: int) -> array1d[_T]: ...
    @_overload
    def __getitem__(self: array[_T, _Literal[3]], index: tuple[int, int, int]) -> _T: ...
    @_overload
    def __getitem__(self: array[_T, _Literal[4]], index: tuple[int, int, int, int]) -> _T: ...
    @_overload
    def __getitem__(self: _Several[_T], index: int | slice | tuple[int | slice, ...]) -> _Any: ...
    @_overload
    def __setitem__(self: array1d[_T], index: int, value: _T) -> None: ...
    @_overload
    def __setitem__(self: array1d[_T], index: slice, value: _Any) -> None: ...
    @_overload
    def __setitem__(self: array[_T, _Literal[2]], index: tuple[int, int], value: _T) -> None: ...
    @_overload
    def __setitem__(
        self: array[_T, _Literal[2]],
        index: int | slice | tuple[int, slice] | tuple[slice, int] | tuple[slice, slice],
        value: _Any,
    ) -> None: ...
    @_overload
    def __setitem__(
        self: array[_T, _Literal[3]] | array[_T, _Literal[4]],
        index: int | slice | tuple[int | slice, ...],
        value: _Any,
    ) -> None: ...
    @_overload
    def __iter__(self: array1d[_T]) -> _Iterator[_T]: ...
    @_overload
    def __iter__(self: array[_T, _Literal[2]]) -> _Iterator[array1d[_T]]: ...
    @_overload
    def __iter__(self: _Several[_T]) -> _Iterator[_Any]: ...

array1d = array[_T, _Literal[1]]
_Several = array[_T, _Literal[2]] | array[_T, _Literal[3]] | array[_T, _Literal[4]]

class array2d(_ArrayOf[_T]):
    """An array of two dimensions with elements of a type: ``array2d[kc.vec3]``."""

    @_overload
    def __getitem__(self, index: tuple[int, int]) -> _T: ...
    @_overload
    def __getitem__(self, index: int) -> array1d[_T]: ...
    @_overload
    def __getitem__(self, index: tuple[int, slice] | tuple[slice, int]) -> array1d[_T]: ...
    @_overload
    def __getitem__(self, index: slice | tuple[slice, slice]) -> array2d[_T]: ...
    @_overload
    def __setitem__(self, index: tuple[int, int], value: _T) -> None: ...
    @_overload
    def __setitem__(
        self,
        index: int | slice | tuple[int, slice] | tuple[slice, int] | tuple[slice, slice],
        value: _Any,
    ) -> None: ...
    def __iter__(self) -> _Iterator[array1d[_T]]: ...

class array3d(_ArrayOf[_T]):
    """An array of three dimensions with elements of a type."""

    @_overload
    def __getitem__(self, index: tuple[int, int, int]) -> _T: ...
    @_overload
    def __getitem__(self, index: int) -> array2d[_T]: ...
    @_overload
    def __getitem__(self, index: tuple[int, int]) -> array1d[_T]: ...
    @_overload
    def __getitem__(self, index: slice | tuple[int | slice, ...]) -> _Any: ...
    @_overload
    def __setitem__(self, index: tuple[int, int, int], value: _T) -> None: ...
    @_overload
    def __setitem__(self, index: int | slice | tuple[int | slice, ...], value: _Any) -> None: ...
    def __iter__(self) -> _Iterator[array2d[_T]]: ...

class array4d(_ArrayOf[_T]):
    """An array of four dimensions with elements of a type."""

    @_overload
    def __getitem__(self, index: tuple[int, int, int, int]) -> _T: ...
    @_overload
    def __getitem__(self, index: int) -> array3d[_T]: ...
    @_overload
    def __getitem__(self, index: tuple[int, int]) -> array2d[_T]: ...
    @_overload
    def __getitem__(self, index: tuple[int, int, int]) -> array1d[_T]: ...
    @_overload
    def __getitem__(self, index: slice | tuple[int | slice, ...]) -> _Any: ...
    @_overload
    def __setitem__(self, index: tuple[int, int, int, int], value: _T) -> None: ...
    @_overload
    def __setitem__(self, index: int | slice | tuple[int | slice, ...], value: _Any) -> None: ...
    def __iter__(self) -> _Iterator[array3d[_T]]: ...

class arraynd(array1d[_T]):
    """Arrays of any rank and of one shape, whose elements a kernel sees as one dimension."""

class _Indexed(IndexedArray):
    def __new__(
        cls,
        data: _Any = None,
        indices: _Sequence[_Any] | None = None,
        *,
        dtype: _Any = None,
        ndim: int | _EllipsisType | None = None,
    ) -> IndexedArray: ...
    def __set__(self, instance: _Any, value: _Any) -> None: ...

class indexedarray1d(_Indexed, _Generic[_T]):
    """An array of one dimension that is looked up through indices: ``indexedarray1d[float]``."""

    def __getitem__(self, index: int) -> _T: ...
    def __setitem__(self, index: int, value: _T) -> None: ...

indexedarray = indexedarray1d

class indexedarray2d(_Indexed, _Generic[_T]):
    """An array of two dimensions that is looked up through indices."""

    @_overload
    def __getitem__(self, index: tuple[int, int]) -> _T: ...
    @_overload
    def __getitem__(self, index: _Any) -> _Any: ...
    def __setitem__(self, index: tuple[int, int], value: _T) -> None: ...

class indexedarray3d(_Indexed, _Generic[_T]):
    """An array of three dimensions that is looked up through indices."""

    @_overload
    def __getitem__(self, index: tuple[int, int, int]) -> _T: ...
    @_overload
    def __getitem__(self, index: _Any) -> _Any: ...
    def __setitem__(self, index: tuple[int, int, int], value: _T) -> None: ...

class indexedarray4d(_Indexed, _Generic[_T]):
    """An array of four dimensions that is looked up through indices."""

    @_overload
    def __getitem__(self, index: tuple[int, int, int, int]) -> _T: ...
    @_overload
    def __getitem__(self, index: _Any) -> _Any: ...
    def __setitem__(self, index: tuple[int, int, int, int], value: _T) -> None: ...

# Functions, kernels and structs.

class Function(_Function, _Generic[_P, _R]):
    """A function that kernels call, with the signature of its definition."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...

@_overload
def func(pyfunc: _Callable[_P, _R]) -> Function[_P, _R]: ...
@_overload
def func() -> _Callable[[_Callable[_P, _R]], Function[_P, _R]]: ...
@_overload
def func(*, source: str, globals: dict[str, _Any] | None = None) -> Function[..., _Any]: ...
@_dataclass_transform(kw_only_default=True, eq_default=True)
def struct(cls: type[_T]) -> type[_T]: ...

# A parameter that a call assigns.
ref = _Annotated[_T, "ref"]

# What kernels alone can call.

class _ThreadIndex(int):
    """One index, or as many as it is assigned to: ``i = tid()``, ``i, j = tid()``."""

    def __iter__(self) -> _Iterator[int]: ...

def tid() -> _ThreadIndex: ...
def address_of(place: _T) -> _T: ...
def bitcast(x: _Any, dtype: _Any) -> _Any: ...
def printf(text: str, *values: float) -> None: ...

# Values of several numbers.

class _Value(_Composite, _Generic[_S]):
    def __add__(self, other: _Self) -> _Self: ...
    def __sub__(self, other: _Self) -> _Self: ...
    def __neg__(self) -> _Self: ...
    def __pos__(self) -> _Self: ...
    @_overload
    def __mul__(self, other: float) -> _Self: ...
    @_overload
    def __mul__(self, other: _Composite) -> _Any: ...
    def __rmul__(self, other: float) -> _Self: ...
    def __matmul__(self, other: _Composite) -> _Any: ...
    def __truediv__(self, other: float) -> _Self: ...
    def __rtruediv__(self, other: float) -> _Self: ...
    def __mod__(self, other: _Self | float) -> _Self: ...
    def __rmod__(self, other: float) -> _Self: ...
    def __floordiv__(self, other: _Self | float) -> _Self: ...
    def __rfloordiv__(self, other: float) -> _Self: ...
    def __pow__(self, other: _Self | float) -> _Self: ...
    def __rpow__(self, other: float) -> _Self: ...

class _Line(_Value[_S]):
    @_overload
    def __getitem__(self, index: int) -> _S: ...
    @_overload
    def __getitem__(self, index: slice) -> _Any: ...
    @_overload
    def __setitem__(self, index: int, value: _S) -> None: ...
    @_overload
    def __setitem__(self, index: slice, value: _Any) -> None: ...
    def __iter__(self) -> _Iterator[_S]: ...

class _Vector(_Line[_S]): ...
class _Matrix(_Value[_S]): ...
class _Quaternion(_Line[float]): ...
class _Transform(_Line[float]): ...

_C = _TypeVar("_C", bound=_Composite)
_V = _TypeVar("_V", bound=_Vector[_Any])
_M = _TypeVar("_M", bound=_Matrix[_Any])
_Q = _TypeVar("_Q", bound=_Quaternion)
_X = _TypeVar("_X", bound=_Transform)
