"""Recording: runs a Python function once and makes a Program of its launches."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np

from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelArgumentError, KernelError
from kernelcore.ir.core import Func
from kernelcore.language.bound_names import BoundNames
from kernelcore.language.conversion import describe, take_array, take_scalar
from kernelcore.language.flatten import leaf_names, leaf_types
from kernelcore.language.types import (
    ArrayOf,
    ArrayType,
    Dense,
    Scalar,
    SourceType,
    StructType,
    int32,
)
from kernelcore.launch.dispatch import Dims, check_count
from kernelcore.launch.infer_types import Parameter
from kernelcore.launch.kernel import Kernel
from kernelcore.operators.operation import Extent, Operand, Result, Shape, own_shape
from kernelcore.operators.primal import primal_operation
from kernelcore.operators.traced.default_shapes import (
    assumed_name,
    covered_axes,
    require_default_shapes,
)
from kernelcore.operators.traced.fill_kernels import copied, filled
from kernelcore.operators.traced.interface import Interface
from kernelcore.operators.traced.program import (
    Given,
    Literal,
    Program,
    ProgramStep,
    Slot,
    with_lifetimes,
)
from kernelcore.operators.traced.shared_arrays import refuse_shared
from kernelcore.operators.traced.tracers import (
    Leaf,
    RecordedArray,
    RecordedNumber,
    RecordedValue,
    input_is_written,
    recorded_leaves,
    refuse,
)
from kernelcore.passes.access.effects import AccessMap, effects
from kernelcore.runtime.array.element_layout import element_of
from kernelcore.runtime.flatten_arguments import leaves
from kernelcore.runtime.hooks import capture_sink, observer


def record(interface: Interface, values: Sequence[Any]) -> Program:
    """The program of a function.

    Args:
        interface: The function.
        values: Per operand an object with a ``shape``, or a number; None for a scalar whose value
            is known only when the program runs.

    Raises:
        KernelError: The function does something that a program cannot hold; names the line.
    """
    recording = _Recording(interface, values)
    token = observer.set(recording)
    try:
        returned = interface.function(*recording.arguments)
    finally:
        observer.reset(token)
    if returned is not None:
        raise KernelArgumentError(
            f"{interface.name}: expected a function that returns nothing, found "
            f"{describe(returned)}",
            remedy="write results to the arrays that are named as outputs",
        )
    return recording.program()


class _Recording:
    """The LaunchObserver that makes a Program."""

    has_elements = False

    def __init__(self, interface: Interface, values: Sequence[Any]) -> None:
        self.interface = interface
        self.values = values
        self.sink = capture_sink()
        self.operands = interface.operands
        self.num_slots = len(self.operands)
        self.steps: list[ProgramStep] = []
        self.fixed: dict[int | Extent, Any] = {}
        self.names: dict[BoundNames, None] = {}
        # Name, contents and first slot of each result.
        self.returned: list[tuple[str, Leaf, int | None]] = []
        self.arguments: list[Any] = []
        count = iter(range(len(self.operands)))
        for parameter, type_ in interface.parameters:
            name = parameter.name
            if name in interface.outputs:
                assert isinstance(type_, ArrayOf)
                made = self._new_array(name, type_, interface.shapes[name])
            else:
                made = self._argument(name, type_, count)
            self.arguments.append(made)
            if name in interface.outputs or name in interface.in_out:
                for leaf_name, leaf in zip(
                    leaf_names(name, type_), recorded_leaves(made), strict=True
                ):
                    assert isinstance(leaf, Leaf)
                    self.returned.append((leaf_name, leaf, leaf.slot))

    # Arguments

    def _argument(self, name: str, type_: SourceType, count: Iterator[int]) -> Any:
        if isinstance(type_, Scalar):
            index = next(count)
            return RecordedNumber(self, name, type_, index, self.values[index])
        if isinstance(type_, StructType):
            members = {n: self._argument(f"{name}.{n}", m, count) for n, m in type_.fields}
            return RecordedValue(name, type_, members)
        is_updated = name in self.interface.in_out
        found: list[Leaf] = []
        for leaf in leaf_types(type_):
            assert isinstance(leaf, ArrayType)
            slot = next(count)
            found.append(Leaf(name, leaf, own_shape(slot, leaf), slot, is_writable=is_updated))
        if isinstance(type_, Dense):
            return RecordedValue(name, type_, {}, found[0])
        assert isinstance(type_, ArrayOf)
        return self._array(name, type_, found)

    def _new_array(
        self, name: str, type_: ArrayOf, shape: Shape, *, is_zero: bool = False
    ) -> RecordedArray:
        """An array that nothing was written to."""
        found: list[Leaf] = []
        is_assumed = name in self.interface.assumed
        for leaf in leaf_types(type_):
            assert isinstance(leaf, ArrayType)
            inner = map(Extent.literal, leaf.components)
            extents = (*shape[: type_.ndim], *inner)
            found.append(Leaf(name, leaf, extents, None, is_zero, is_assumed=is_assumed))
        return self._array(name, type_, found)

    def _array(self, name: str, type_: ArrayOf, found: Sequence[Leaf]) -> RecordedArray:
        element: Any = type_.element
        dtype = (element, element) if isinstance(element, StructType) else element_of(element)
        outer = found[0].shape[: type_.ndim]
        numbers = [self._number(f"{name}.shape[{k}]", extent) for k, extent in enumerate(outer)]
        return RecordedArray(self, name, dtype, numbers, found)

    def _number(self, name: str, extent: Extent) -> Any:
        if extent.operand < 0:
            return extent.value
        value = self.values[extent.operand].shape[extent.axis]
        return RecordedNumber(self, name, int32, extent, value)

    def _shape(self, given: Any) -> Shape:
        """Extents as the function gave them."""
        is_number = isinstance(given, SupportsIndex)
        entries: Sequence[Any] = (given,) if is_number else tuple(given)
        return tuple(
            e.source
            if isinstance(e, RecordedNumber) and isinstance(e.source, Extent)
            else Extent.literal(operator.index(e))
            for e in entries
        )

    # Requests of recorded values

    def fix(self, source: int | Extent, value: Any) -> Any:
        number = int(value) if isinstance(source, Extent) else plain_number(value)
        self.fixed[source] = number
        return number

    def fill(self, array: RecordedArray, value: Any) -> None:
        if isinstance(array.element, StructType):
            raise refuse("an array of structs is filled with a value", "use zero_, or a kernel")
        (leaf,) = array.leaves
        type_ = leaf.type
        whole = isinstance(value, int | float | np.generic)
        given = np.full(type_.components, value) if whole else value
        components = take_array(type_.dtype, given, type_.components)
        leaf.slot = None
        self._step(filled(type_, components), [leaf], leaf.shape[: type_.outer_ndim])

    # LaunchObserver

    def record_copy(self, target: Any, source: Any, write: Callable[[], None]) -> None:
        raise refuse(
            "an array that is no argument is written while the launches are recorded",
            "make it with kc.zeros or kc.empty in the function, or pass it as an argument",
        )

    def make_array(self, shape: Any, dtype: Any, is_zero: bool) -> RecordedArray:
        element = dtype if isinstance(dtype, StructType) else element_of(dtype)[0]
        extents = self._shape(shape)
        type_ = ArrayOf(element, len(extents))
        return self._new_array("a temporary", type_, extents, is_zero=is_zero)

    def record_launch(self, kernel: Kernel, dim: Dims, args: Sequence[Any]) -> None:
        check_count(kernel, len(args))
        kernel = kernel.for_arguments(args)
        self.names[kernel.names] = None
        pairs = zip(kernel.parameters, args, strict=True)
        given = [leaf for parameter, arg in pairs for leaf in _leaves(kernel, parameter, arg)]
        grid = self._shape(dim)
        if len(grid) != kernel.func.rank:
            raise refuse(
                f"{kernel.name}(): expected a launch shape of rank {kernel.func.rank}, "
                f"found rank {len(grid)}",
                "give as many as the kernel asks tid for",
            )
        refuse_shared(kernel, given)
        require_default_shapes(self.interface.name, kernel, map(assumed_name, given))
        self._step(kernel.func, given, grid)

    # Steps

    def _step(self, func: Func, given: Sequence[Any], grid: Shape) -> None:
        outputs, in_out = self._roles(func, given, grid)
        taken = [(p, g) for p, g in zip(func.params, given, strict=True) if p.name not in outputs]
        places = _Places(self.operands, [g for _, g in taken])
        shapes = {
            param.name: places.shape(leaf.shape)
            for param, leaf in zip(func.params, given, strict=True)
            if param.name in outputs
        }
        operation = primal_operation(func, outputs, in_out, places.shape(grid), shapes)
        if covered := covered_axes(func, given, grid, (*outputs, *in_out)):
            operation = replace(operation, covered=covered, derived={})
        if places.extra:
            extra = [replace(self.operands[i], shape=None) for i in places.extra]
            operation = replace(operation, operands=(*operation.operands, *extra), derived={})
        sources = (*(_given(g) for _, g in taken), *map(Slot, places.extra))
        self.steps.append(ProgramStep(operation, sources))
        for param, leaf in zip(func.params, given, strict=True):
            if param.name in outputs or param.name in in_out:
                leaf.slot = self.num_slots
                self.num_slots += 1

    def _roles(
        self, func: Func, given: Sequence[Any], grid: Shape
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Parameters that are results only, and those whose old elements matter too."""
        outputs: list[str] = []
        in_out: list[str] = []
        accesses = AccessMap(func)
        for param, effect, leaf in zip(func.params, effects(func), given, strict=True):
            if not isinstance(leaf, Leaf):
                continue
            is_needed = effect.loads
            if effect.writes:
                if not leaf.is_writable:
                    raise input_is_written(leaf.name)
                is_same = leaf.shape[: leaf.type.outer_ndim] == grid
                is_whole = is_same and not effect.accumulates and accesses.covers_grid(param)
                is_needed |= not (leaf.slot is None or is_whole)
                (in_out if is_needed else outputs).append(param.name)
            if leaf.slot is None and (is_needed or not effect.writes):
                self._make_zeros(leaf)
        return outputs, in_out

    def _make_zeros(self, leaf: Leaf) -> None:
        if not leaf.is_zero:
            raise refuse(
                f"'{leaf.name}' is read before it was written",
                "make it with kc.zeros, call zero_ first, or name it as in-out",
            )
        zeros = np.zeros(leaf.type.components, leaf.type.dtype.numpy)
        self._step(filled(leaf.type, zeros), [leaf], leaf.shape[: leaf.type.outer_ndim])

    def program(self) -> Program:
        """The recorded program."""
        results: list[Result] = []
        outputs: list[int] = []
        for name, leaf, first in self.returned:
            if leaf.slot == first and not leaf.is_zero:
                raise KernelArgumentError(
                    f"{self.interface.name}: output '{name}' is never written",
                    remedy="launch a kernel that writes it, or do not name it as an output",
                )
            if leaf.slot is None:
                self._make_zeros(leaf)
            assert leaf.slot is not None
            if leaf.slot in outputs or leaf.slot < len(self.operands):
                leaf = self._copied(leaf)
            assert leaf.slot is not None
            outputs.append(leaf.slot)
            results.append(Result(name, leaf.type, leaf.shape))
        return Program(
            self.interface.name,
            self.operands,
            tuple(results),
            tuple(with_lifetimes(self.steps, len(self.operands), outputs)),
            tuple(outputs),
            self.fixed,
            (BoundNames.of_function(self.interface.function), *filter(None, self.names)),
        )

    def _copied(self, leaf: Leaf) -> Leaf:
        """A copy: a result is neither an operand nor another result."""
        made = Leaf(leaf.name, leaf.type, leaf.shape, None)
        self._step(copied(leaf.type), [leaf, made], leaf.shape[: leaf.type.outer_ndim])
        return made


class _Places:
    """Finds the extents of the program on axes of a step's own operands."""

    def __init__(self, operands: Sequence[Operand], given: Sequence[Any]) -> None:
        self.known: dict[Extent, Extent] = {}
        self.count = len(given)
        self.extra: list[int] = []
        for position, leaf in enumerate(given):
            if isinstance(leaf, Leaf):
                for axis, extent in enumerate(leaf.shape[: leaf.type.outer_ndim]):
                    self.known.setdefault(extent, Extent.of(position, axis))

    def shape(self, shape: Shape) -> Shape:
        """``shape`` in terms of operands of the step; takes in an operand that is missing."""
        return tuple(map(self._extent, shape))

    def _extent(self, extent: Extent) -> Extent:
        if extent.operand < 0:
            return extent
        if extent not in self.known:
            self.known[extent] = Extent.of(self.count + len(self.extra), extent.axis)
            self.extra.append(extent.operand)
        return self.known[extent]


def _given(given: Any) -> Given:
    if isinstance(given, Leaf):
        assert given.slot is not None
        return Slot(given.slot)
    if isinstance(given, RecordedNumber):
        return Slot(given.source) if isinstance(given.source, int) else given.source
    return Literal(given)


def _leaves(kernel: Kernel, parameter: Parameter, arg: Any) -> list[Any]:
    """A Leaf, a RecordedNumber, a number or an array of components per parameter of the IR."""
    type_ = parameter.type
    assert type_ is not None
    name = f"{kernel.name}(): argument '{parameter.name}'"
    known = getattr(arg, "argument_type", None)
    if known is not None and known != type_ and not isinstance(type_, Scalar):
        raise refuse(f"{name}: expected {type_}, found {known}", "pass what the kernel declares")
    try:
        given = leaves(type_, arg, name) if known is None else recorded_leaves(arg)
    except KernelError as error:
        raise refuse(error.message, error.remedy or "pass what the kernel declares") from None
    return [
        one
        for leaf, wanted in zip(given, leaf_types(type_), strict=True)
        for one in ([leaf] if isinstance(leaf, Leaf) else _checked(name, wanted, leaf))
    ]


def _checked(name: str, wanted: Scalar | ArrayType, given: Any) -> Sequence[Any]:
    """The arguments of a step for a parameter of the IR that is given no Leaf."""
    if isinstance(given, RecordedArray):  # In a field of a struct that the function made.
        return given.leaves
    if isinstance(wanted, ArrayType):
        if wanted.outer_ndim:
            raise refuse(
                f"{name}: found an array that is no argument of the function, {describe(given)}",
                "make it with kc.zeros or kc.empty in the function, or pass it as an argument",
            )
        return [given]
    if isinstance(given, RecordedNumber):
        is_fit = given.argument_type == wanted
        if is_fit or (isinstance(given.source, Extent) and wanted.is_integer):
            return [given]
        given = given.read()
    try:
        return [take_scalar(wanted, given).item()]
    except KernelError as error:
        raise refuse(f"{name}: {error.message}", error.remedy or "pass another number") from None


def plain_number(value: Any) -> bool | int | float:
    """The Python number for one that may be symbolic."""
    match value:
        case bool() | int() | float():
            return value
        case _ if hasattr(value, "__index__"):
            return operator.index(value)
        case _:
            return float(value)
