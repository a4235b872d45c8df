"""Tracers: stand for arrays and numbers while the launches of a function are recorded."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelArgumentError, KernelAttributeError
from kernelcore.language.types import ArrayOf, ArrayType, Dense, Element, Scalar, StructType
from kernelcore.operators.operation import Extent, Shape
from kernelcore.runtime.call_site import call_site, whole_line

# Typed loosely: its functions take whatever numbers do.
_op: Any = operator

_IN_A_KERNEL = "do that in a kernel, and launch it"


class Recording(Protocol):
    """The recording that tracers belong to."""

    def fix(self, source: int | Extent, value: Any) -> Any:
        """``value`` as a Python number, which fixes the program to it."""
        ...

    def fill(self, array: RecordedArray, value: Any) -> None:
        """Overwrite all elements of ``array``."""
        ...


@dataclass(eq=False, slots=True)
class Leaf:
    """One array of the IR, whose elements are in a slot.

    Attributes:
        name: Its name in errors.
        type: Its type.
        shape: Its extents in terms of the operands of the program.
        slot: The slot of the current elements; None if nothing was written.
        is_zero: Whether elements that were never written are zeros; else reads are refused.
        is_writable: Whether launches may write it.
        is_assumed: Whether the shape is the default of an output, and not given.
    """

    name: str
    type: ArrayType
    shape: Shape
    slot: int | None
    is_zero: bool = False
    is_writable: bool = True
    is_assumed: bool = False


def refuse(text: str, remedy: str = _IN_A_KERNEL) -> KernelArgumentError:
    """The error for a line of a function whose launches are recorded."""
    return KernelArgumentError(text, whole_line(call_site()), remedy)


class RecordedNumber:
    """A scalar argument, or an extent of an array.

    Launches and shapes keep it symbolic. All other uses in Python read its value; the program is
    then recorded again for other values.
    """

    __slots__ = ("_recording", "argument_type", "name", "source", "value")

    def __init__(
        self, recording: Recording, name: str, type_: Scalar, source: int | Extent, value: Any
    ) -> None:
        self._recording = recording
        self.name = name
        self.argument_type = type_
        self.source = source
        self.value = value

    def read(self) -> Any:
        """The value, as a number of Python.

        Raises:
            KernelArgumentError: It is known only when the program runs.
        """
        if self.value is None:
            raise refuse(
                f"the value of '{self.name}' is read while the launches are recorded, but it is "
                "an array or is traced",
                "give it to a kernel as it is, or pass a Python number",
            )
        return self._recording.fix(self.source, self.value)

    def is_same(self, other: object) -> bool:
        """Whether ``other`` is the same number for any value."""
        return isinstance(other, RecordedNumber) and other.source == self.source

    def __eq__(self, other: object) -> bool:
        return self.is_same(other) or bool(self.read() == other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.read())

    def __index__(self) -> int:
        return operator.index(self.read())

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _reading(function: Callable[..., Any], *, is_reflected: bool = False) -> Callable[..., Any]:
    """A method that reads the number, and calls ``function`` on it and the other operand."""

    def method(self: RecordedNumber, *others: object) -> Any:
        return function(*others, self.read()) if is_reflected else function(self.read(), *others)

    return method


# By the names of their methods.
_ARITHMETIC = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]
_BITS = ["and", "or", "xor", "lshift", "rshift"]
_COMPARISONS = ["lt", "le", "gt", "ge"]
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{n: getattr(_op, f"__{n}__") for n in ("neg", "pos", *_ARITHMETIC, *_BITS, *_COMPARISONS)},
    **{f.__name__: f for f in (int, float, bool, abs, divmod, round, format)},
    **{f.__name__: f for f in (math.floor, math.ceil)},
}
for _name, _function in _FUNCTIONS.items():
    setattr(RecordedNumber, f"__{_name}__", _reading(_function))
for _name in (*_ARITHMETIC, "divmod"):
    setattr(RecordedNumber, f"__r{_name}__", _reading(_FUNCTIONS[_name], is_reflected=True))


class RecordedArray:
    """An array argument, or an array that the function made.

    Attributes:
        element: The type of an element.
        dtype: The type of an element as users write it.
        shape: The extents: numbers, recorded or not.
        leaves: The arrays of the IR; one per field of structs.
        requires_grad: Ignored: the framework knows what it differentiates.
    """

    def __init__(
        self,
        recording: Recording,
        name: str,
        dtype: tuple[Element, Any],
        shape: Sequence[Any],
        leaves: Sequence[Leaf],
    ) -> None:
        self._recording = recording
        self._name = name
        self.element, self.dtype = dtype
        self.shape = tuple(shape)
        self.leaves = tuple(leaves)
        self.requires_grad = False

    @property
    def argument_type(self) -> ArrayOf:
        """The type in the kernel language."""
        return ArrayOf(self.element, len(self.shape))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self.shape[0] if self.ndim == 1 else math.prod(int(n) for n in self.shape)

    @property
    def device(self) -> str:
        """Always 'cpu': the framework decides where launches run."""
        return "cpu"

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"<array '{self._name}' of {self.element}, shape {self.shape}, while recording>"

    def assign(self, source: Any) -> None:
        """Overwrite the elements with those of an array of the same shape, or with a value.

        Raises:
            KernelArgumentError: Another shape or dtype, or an array that is not recorded.
        """
        self._check_writable()
        if not isinstance(source, RecordedArray):
            self._recording.fill(self, source)
            return
        if source.argument_type != self.argument_type or source.shape != self.shape:
            raise refuse(
                f"'{self._name}': expected {self.argument_type} of shape {self.shape}, found "
                f"{source.argument_type} of shape {source.shape}",
                "launch a kernel that copies what you need",
            )
        # Slots are bound once, so sharing one is a copy.
        for mine, other in zip(self.leaves, source.leaves, strict=True):
            mine.slot, mine.is_zero = other.slot, other.is_zero

    def fill_(self, value: Any) -> RecordedArray:
        """Set every element to ``value``."""
        self.assign(value)
        return self

    def zero_(self) -> RecordedArray:
        """Set every element to zero."""
        self._check_writable()
        for leaf in self.leaves:
            leaf.slot, leaf.is_zero = None, True
        return self

    def _check_writable(self) -> None:
        if not all(leaf.is_writable for leaf in self.leaves):
            raise input_is_written(self._name)

    def _read(self, *_: object, **__: object) -> NoReturn:
        raise refuse(f"the elements of '{self._name}' are read while the launches are recorded")

    numpy = list = __array__ = __iter__ = __dlpack__ = __bool__ = __float__ = _read
    clone = copy = contiguous = to = _read

    def _view(self, *_: object, **__: object) -> NoReturn:
        raise refuse(
            f"'{self._name}': views of arrays are not recorded",
            "launch over the whole array, and index in the kernel",
        )

    reshape = flatten = transpose = view = _view

    def __getitem__(self, index: Any) -> NoReturn:
        parts: tuple[Any, ...] = index if isinstance(index, tuple) else (index,)  # pyright: ignore[reportUnknownVariableType]
        if len(parts) == self.ndim and all(isinstance(part, int) for part in parts):
            self._read()
        self._view()

    def __setitem__(self, index: object, value: object) -> None:
        if index not in (Ellipsis, slice(None)):
            self._read()
        self.assign(value)

    def __getattr__(self, name: str) -> NoReturn:
        raise KernelAttributeError(
            f"'{name}' of array '{self._name}' is not known while the launches are recorded",
            whole_line(call_site()),
            "use its shape, dtype, assign, fill_ and zero_, and launch kernels for the rest",
        )


@dataclass(frozen=True, eq=False)
class RecordedValue:
    """A vector, matrix or struct that is passed by value: kernels take it as a whole.

    Attributes:
        name: Its name in errors.
        argument_type: Its type.
        members: Of a struct, by field.
        leaf: Of others, the array of the components.
    """

    name: str
    argument_type: Dense | StructType
    members: Mapping[str, Any]
    leaf: Leaf | None = None

    def __getattr__(self, name: str) -> Any:
        if name in self.members:
            return self.members[name]
        raise KernelAttributeError(
            f"'{name}' of '{self.name}' is not known while the launches are recorded",
            whole_line(call_site()),
            _IN_A_KERNEL,
        )

    def __getitem__(self, index: object) -> NoReturn:
        raise refuse(f"a component of '{self.name}' is read while the launches are recorded")

    __iter__ = __getitem__


def input_is_written(name: str) -> KernelArgumentError:
    """The error for a write to an argument that is no result."""
    return refuse(
        f"'{name}' is written, but it is neither an output nor in-out",
        "name it as an output, or as in-out if it is to be updated",
    )


def recorded_leaves(value: Any) -> Iterator[Leaf | RecordedNumber]:
    """The leaves of a recorded value, one per parameter of the IR."""
    match value:
        case RecordedArray():
            yield from value.leaves
        case RecordedValue(leaf=Leaf() as leaf):
            yield leaf
        case RecordedValue(members=members):
            for member in members.values():
                yield from recorded_leaves(member)
        case _:
            yield value
