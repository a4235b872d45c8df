"""Operation: a kernel as a pure function of arrays, described without any framework.

An Operation binds the parameters of a kernel to operands and results. The launch shape and the
shapes of results follow from those of the operands. Its JVP, VJP and batch are Operations
again (``operators/derive.py``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from kernelcore.base import native
from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.disk_cache import key_of
from kernelcore.base.errors import KernelArgumentError, KernelTypeError
from kernelcore.base.threads import cached_property
from kernelcore.compiler.code_store import Compiled
from kernelcore.compiler.describe_launch import describe_launch, operand_reads
from kernelcore.compiler.launch_descriptor import Binding, LaunchDescriptor, Role
from kernelcore.compiler.native_code import compile_func, object_of
from kernelcore.ir.core import Func
from kernelcore.ir.printer import canonical
from kernelcore.language.conversion import take_array
from kernelcore.language.types import MAX_EXTENT, ArrayType, Scalar, as_array
from kernelcore.launch.kernel import Kernel
from kernelcore.operators.array_text import array_text, beyond_launch
from kernelcore.operators.identifiers import identifiers
from kernelcore.operators.whole_results import without_zeros
from kernelcore.passes.access.effects import AccessMap, GridIndexedAxis
from kernelcore.passes.access.elementwise import Part, parts
from kernelcore.passes.access.reads import Reads
from kernelcore.passes.pipeline import optimize


class Extent(NamedTuple):
    """One extent of a shape.

    Axis ``axis`` of operand ``operand``, the value of that operand where ``axis`` is -1, or the
    literal ``value``.
    """

    operand: int
    axis: int
    value: int

    @staticmethod
    def of(operand: int, axis: int) -> Extent:
        """Axis ``axis`` of ``operand``."""
        return Extent(operand, axis, 0)

    @staticmethod
    def size(operand: int) -> Extent:
        """The value of ``operand``, an integer."""
        return Extent(operand, -1, 0)

    @staticmethod
    def literal(value: int) -> Extent:
        """A number."""
        return Extent(-1, 0, value)


Shape = tuple[Extent, ...]


def own_shape(operand: int, type_: ArrayType) -> Shape:
    """The shape of ``operand``, whose components are known."""
    outer = (Extent.of(operand, axis) for axis in range(type_.outer_ndim))
    return (*outer, *map(Extent.literal, type_.components))


def evaluate(shape: Shape, operand_shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """``shape`` for operands of the given shapes, whose extents may be symbolic.

    The shape of an operand whose value is an extent ends in its value (``Operation.shapes``).
    """
    return tuple(operand_shapes[e.operand][e.axis] if e.operand >= 0 else e.value for e in shape)


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument; ``shape`` is known for tangents and cotangents, else None.

    Where ``is_size`` is set, the operand is an integer whose value is an extent of a shape.
    """

    name: str
    type: ArrayType | Scalar
    shape: Shape | None = None
    is_size: bool = False

    def is_number(self, tensor_values: bool) -> bool:
        """Whether a call gives a number for it; with ``tensor_values`` only for an extent."""
        return isinstance(self.type, Scalar) and (self.is_size or not tensor_values)


@dataclass(frozen=True, slots=True)
class Result:
    """A result, or a hidden buffer."""

    name: str
    type: ArrayType
    shape: Shape


@dataclass(frozen=True, eq=False)
class Operation:
    """One pure operation.

    Attributes:
        func: The kernel, normalized.
        operands: In calling order.
        results: The visible ones in order, then the hidden ones.
        visible: How many results are visible.
        bindings: Along ``func.params``.
        grid: The launch shape.
        covered: Axes of arrays that must not be larger than the launch, since no thread touches
            what lies beyond; none where the user chose the launch shape.
        kernel: Whose code it is, which Python mode runs; None of derivatives and batches.
    """

    func: Func
    operands: tuple[Operand, ...]
    results: tuple[Result, ...]
    visible: int
    bindings: tuple[Binding, ...]
    grid: Shape
    covered: tuple[GridIndexedAxis, ...] = ()
    derived: dict[Any, Any] = field(default_factory=dict[Any, Any], repr=False)
    kernel: Kernel | None = field(default=None, repr=False)

    @cached_property
    def key(self) -> str:
        """A hash: equal keys mean equal operations, in every process."""
        shown = self.operands, self.results, self.visible
        described = (*shown, self.bindings, self.grid, self.covered)
        return key_of(canonical(self.func), repr(described))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operation) and self.key == other.key

    def __repr__(self) -> str:
        return f"{self.func.name}@{self.key[:8]}"

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What ``make`` gave when ``key`` was first asked for; it lives as long as this."""
        if key not in self.derived:
            self.derived[key] = make()
        return self.derived[key]

    @property
    def outputs(self) -> tuple[Result, ...]:
        """The visible results."""
        return self.results[: self.visible]

    def param_of_operand(self, operand: int) -> int | None:
        """The kernel parameter that ``operand`` is bound to; None if the kernel ignores it."""
        return next((i for i, b in enumerate(self.bindings) if b.operand == operand), None)

    def param_of_result(self, result: int) -> int:
        """The kernel parameter that holds ``result``."""
        return next(i for i, b in enumerate(self.bindings) if b.result == result)

    @cached_property
    def sizes(self) -> frozenset[int]:
        """The operands whose values are extents of shapes."""
        return frozenset(k for k, o in enumerate(self.operands) if o.is_size)

    def shapes(self, args: Sequence[Any]) -> list[Sequence[Any]]:
        """Per operand the shape of its argument; of one that is an extent, its value alone.

        Raises:
            KernelArgumentError: A value is no extent.
        """
        sizes = self.sizes
        if not sizes:
            return [getattr(a, "shape", ()) for a in args]
        return [
            (self._checked_size(k, a),) if k in sizes else getattr(a, "shape", ())
            for k, a in enumerate(args)
        ]

    def check_sizes(self, operand_shapes: Sequence[Sequence[Any]]) -> None:
        """Refuse values that are no extents.

        Raises:
            KernelArgumentError: Naming the parameter.
        """
        for k in self.sizes:
            self._checked_size(k, operand_shapes[k][-1])

    def _checked_size(self, operand: int, value: Any) -> Any:
        remedy = "give an integer"
        if isinstance(value, SupportsIndex) and isinstance(value, int | np.generic):
            value = operator.index(value)
            if 0 <= value < MAX_EXTENT:
                return value
            too_large = "split the launch: indices of kernels have 32 bits"
            remedy = too_large if value > 0 else "extents are not negative"
        elif not isinstance(value, float | str):
            return value  # A symbol of a captured graph.
        text = f"expected an extent of a shape, 0 to 2**31 - 1, found {value!r}"
        raise self.argument_error(operand, text, remedy)

    def like(self, operand: int) -> Shape:
        """The shape of ``operand``, in terms of operands that are no tangents or cotangents."""
        given = self.operands[operand]
        if given.shape is not None:
            return given.shape
        return own_shape(operand, as_array(given.type))

    @cached_property
    def argument_names(self) -> tuple[str, ...]:
        """The names of the operands as identifiers, all different."""
        return identifiers([o.name for o in self.operands])

    @property
    def single_axes(self) -> frozenset[int]:
        """The axes of the launch that have one point in every call."""
        return frozenset(k for k, e in enumerate(self.grid) if e.operand < 0 and e.value <= 1)

    def owners(self) -> tuple[int, ...]:
        """Operands that the kernel writes, so every instance of a batch needs a copy."""
        return tuple(
            b.operand
            for b in self.bindings
            if b.role in (Role.INOUT, Role.SCRATCH) and b.operand >= 0
        )

    @cached_property
    def _with_components(self) -> tuple[int, ...]:
        return tuple(k for k, o in enumerate(self.operands) if as_array(o.type).components)

    @cached_property
    def grid_indexed_axes(self) -> list[GridIndexedAxis]:
        """The axes of arrays that the launch index indexes."""
        return AccessMap(self.func).grid_indexed_axes()

    def check_extents(self, operand_shapes: Sequence[Sequence[Any]]) -> None:
        """Refuse operands whose shapes do not fit the kernel or the launch; symbols pass.

        Raises:
            KernelArgumentError: Naming the parameter: other components than those of its elements,
                smaller than the launch that indexes it, or larger than a launch by default.
        """
        for operand in self._with_components:
            self.check_components(operand, operand_shapes[operand])
        grid = evaluate(self.grid, operand_shapes)
        for index, axis, grid_axis in self.covered:
            shape, points = self._shape_of(index, operand_shapes), grid[grid_axis]
            if isinstance(shape[axis], int) and isinstance(points, int) and shape[axis] > points:
                found = GridIndexedAxis(index, axis, grid_axis)
                raise beyond_launch(self.func, found, shape[axis], points)
        if 0 in [e for e in grid if isinstance(e, int)]:
            return
        for index, axis, grid_axis in self.grid_indexed_axes:
            found, needed = self._shape_of(index, operand_shapes)[axis], grid[grid_axis]
            if isinstance(found, int) and isinstance(needed, int) and found < needed:
                raise KernelArgumentError(
                    f"{self.func.name}(): argument '{self.func.params[index].name}': expected at "
                    f"least {needed} elements on axis {axis}, which the launch indexes, "
                    f"found {found}",
                    self.func.param_loc(index),
                    "launch over fewer points, or give a larger array",
                )

    def _shape_of(self, param: int, operand_shapes: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """The shape of the array that kernel parameter ``param`` is bound to."""
        bound = self.bindings[param]
        if bound.operand >= 0:
            return operand_shapes[bound.operand]
        return evaluate(self.results[bound.result].shape, operand_shapes)

    def check_components(self, operand: int, shape: Sequence[Any]) -> None:
        """Refuse a shape of ``operand`` that does not end in the components of an element.

        Raises:
            KernelArgumentError: Naming the parameter.
        """
        type_ = as_array(self.operands[operand].type)
        if not type_.components or tuple(shape[type_.outer_ndim :]) == type_.components:
            return
        raise self.argument_error(
            operand,
            f"expected {array_text(type_)}, found shape {tuple(shape)}",
            "the last axes of such an array hold the components of an element",
        )

    def is_composite(self, operand: int) -> bool:
        """Whether ``operand`` is a composite value, an array of its components alone."""
        type_ = as_array(self.operands[operand].type)
        return bool(type_.components) and type_.outer_ndim == 0

    def composite(self, operand: int, given: object) -> npt.NDArray[Any]:
        """``given``, a sequence of numbers or a value of its own, as what ``operand`` takes.

        Raises:
            KernelArgumentError: It has other components, or they are of another type.
        """
        type_ = as_array(self.operands[operand].type)
        try:
            return take_array(type_.dtype, given, type_.components)
        except KernelTypeError as error:
            raise self.argument_error(operand, error.message, error.remedy) from None

    def argument_error(self, operand: int, text: str, remedy: str | None) -> KernelArgumentError:
        """The error for a value of ``operand``."""
        param = self.param_of_operand(operand)
        return KernelArgumentError(
            f"{self.func.name}(): argument '{self.operands[operand].name}': {text}",
            self.func.loc if param is None else self.func.param_loc(param),
            remedy,
        )

    @cached_property
    def optimized(self) -> Func:
        """The kernel, ready for code generation."""
        return optimize(self._without_zeros[0])

    @cached_property
    def _without_zeros(self) -> tuple[Func, tuple[Binding, ...]]:
        return without_zeros(self.func, self.bindings, self.like, self.results, self.grid)

    @cached_property
    def is_elementwise(self) -> bool:
        """Whether a part of the grid needs only the same part of every array."""
        found = parts(self.func)
        arrays = [isinstance(p.type, ArrayType) and p.type.outer_ndim > 0 for p in self.func.params]
        return found is not None and all(
            part is (Part.OWN if is_array else Part.ALL)
            for part, is_array in zip(found, arrays, strict=True)
        )

    @cached_property
    def compiled(self) -> Compiled:
        """The machine code; compiled, or loaded from the cache, on first use."""
        return compile_func(self.optimized)

    def object_code(self, symbol: str) -> bytes:
        """A relocatable object that defines the kernel as ``symbol``."""
        return object_of(self.optimized, symbol)

    @cached_property
    def signature(self) -> native.LaunchDescriptor:
        """The kernel as native launchers take it."""
        return self.described.signature(self.compiled.key, self.compiled.address)

    @cached_property
    def described(self) -> LaunchDescriptor:
        """What launchers know of the kernel as it is compiled, before it is."""
        return describe_launch(self.optimized, self._without_zeros[1], covered=self.covered)

    @cached_property
    def native(self) -> native.Operation:
        """It as native code runs it on arrays in CPU memory."""
        return native_operation(self, self.signature)

    def reads(self) -> list[Reads]:
        """Per operand how often the kernel reads it."""
        return operand_reads(self.optimized, self.bindings, len(self.operands))


def native_operation(
    operation: Operation,
    descriptor: native.LaunchDescriptor,
    scalars_are_arrays: bool = False,
    on_devices: Callable[[int], tuple[native.Operation, native.DeviceKernel]] | None = None,
) -> native.Operation:
    """``operation`` as native code runs it, with the code of ``descriptor``.

    Where a call of torch has tensors on a GPU, it runs what ``on_devices`` makes for that GPU.
    """
    operands = [
        (True, o.type.dtype.index, o.type.ndim)
        if isinstance(o.type, ArrayType)
        else (scalars_are_arrays and not o.is_size, o.type.index, 0)
        for o in operation.operands
    ]
    results = [(r.type.dtype.index, r.shape) for r in operation.results]
    visible, grid, reads = operation.visible, operation.grid, operation.reads()
    return native.Operation(descriptor, operands, results, visible, grid, on_devices, reads)
