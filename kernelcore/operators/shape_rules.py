"""Operations of kernels, with launch and output shapes as users write them.

A shape is None (a default), a number, the name of a parameter ('x', its shape), or a tuple whose
entries are numbers, extents of parameters ('x.shape[0]') or integer parameters ('n', its value).
Elements with components add these to the shape of an array: they may be left out of that of an
output, and are no part of a launch.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import SupportsIndex

from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelArgumentError, SrcLoc
from kernelcore.ir.core import Var
from kernelcore.language.flatten import leaf_names
from kernelcore.language.types import MAX_EXTENT, ArrayOf, ArrayType, Scalar, StructType
from kernelcore.launch.declare import not_a_kernel
from kernelcore.launch.kernel import Kernel
from kernelcore.operators.array_text import array_text
from kernelcore.operators.operation import Extent, Operation, Shape, own_shape
from kernelcore.operators.primal import primal_operation
from kernelcore.passes.access.effects import AccessMap, GridIndexedAxis

ShapeSpec = SupportsIndex | str | Sequence[SupportsIndex | str] | None

_EXTENT = re.compile(r"\s*(\w+(?:\.\w+(?:\[\d+\])?)*?)\s*\.\s*shape\s*\[\s*(\d+)\s*\]\s*")


def kernel_operation(
    kernel: Kernel,
    outputs: Sequence[str] | None = None,
    in_out: Sequence[str] = (),
    launch_dims: ShapeSpec = None,
    output_dims: ShapeSpec | Mapping[str, ShapeSpec] = None,
    sizes: Sequence[str] = (),
) -> Operation:
    """The Operation of ``kernel``.

    Args:
        kernel: The kernel.
        outputs: Parameters that are results. Default: the arrays that it writes and never loads.
        in_out: Parameters that are operands, and results that start as copies of them. Default,
            where ``outputs`` is not given: the other arrays that it writes.
        launch_dims: The launch shape. Default: that of the first array operand, without the
            components of its elements; a composite value is none. Calls with larger arrays that
            threads access at their launch index alone are refused then.
        output_dims: The shape of every output, or a mapping by name. Default: the launch shape, of
            outputs that threads write at their launch index.
        sizes: Names of further operands, integers that the kernel ignores; shapes may name them.

    Raises:
        KernelArgumentError: The parameters are not as described, or an output without a shape is
            written elsewhere than at the launch index.
    """
    require_kernel(kernel)
    kernel = kernel.current()
    func = kernel.func
    results, updated = roles(kernel, outputs, in_out)
    position = {p.name: i for i, p in enumerate(p for p in func.params if p.name not in results)}
    arrays = {p.name: p.type for p in func.params if isinstance(p.type, ArrayType)}
    integers = {
        p.name: position[p.name]
        for p in func.params
        if isinstance(p.type, Scalar) and p.type.is_integer
    }
    integers |= {name: len(position) + k for k, name in enumerate(sizes)}
    rules = ShapeRules(func.name, func.loc, arrays, position, integers, _struct_arrays(kernel))
    rank = func.rank
    grid = rules.grid(launch_dims, rank)
    accesses = AccessMap(func)

    def of_launch(name: str) -> Shape:
        param = next(p for p in func.params if p.name == name)
        if isinstance(param.type, ArrayType) and param.type.outer_ndim == rank:
            require_launch_index(accesses, param, func.name, name)
        return grid

    shapes = rules.outputs(results, output_dims, of_launch)
    operation = primal_operation(func, results, updated, grid, shapes, sizes)
    operation = replace(operation, kernel=kernel, derived={})
    if launch_dims is not None:
        return operation

    def is_known(found: GridIndexedAxis) -> bool:
        """Whether the array is an output, or has the extent of the launch there in every call."""
        operand = operation.bindings[found.parameter].operand
        return operand < 0 or operation.like(operand)[found.axis] == grid[found.grid_axis]

    covered = tuple(found for found in accesses.covered_axes() if not is_known(found))
    return replace(operation, covered=covered, derived={})


def _struct_arrays(kernel: Kernel) -> dict[str, str]:
    """By the name of a parameter that is an array of structs the name of one of its leaves."""
    return {
        p.name: leaf_names(p.name, p.type)[0]
        for p in kernel.parameters
        if isinstance(p.type, ArrayOf) and isinstance(p.type.element, StructType)
    }


def require_launch_index(accesses: AccessMap, param: Var, operator: str, name: str) -> None:
    """Refuse a default shape for output ``name`` unless threads write it at their launch index.

    Args:
        accesses: Of a kernel.
        param: The parameter of the kernel that is the output.
        operator: The name of the operator.
        name: What the operator calls the output.

    Raises:
        KernelArgumentError: Naming the line of another write.
    """
    func = accesses.func
    culprit = accesses.foreign_write(param)
    if culprit is not None:
        outer = param.type.outer_ndim if isinstance(param.type, ArrayType) else 0
        shape = ", ".join(["1"] * outer) + ("," if outer == 1 else "")
        raise KernelArgumentError(
            f"{operator}: output '{name}' is written here at another index than the launch index "
            "of its thread, so its shape is not known to be that of the launch",
            culprit.loc or func.loc,
            f"give its shape, for example output_dims={{'{name}': ({shape})}} for one element, or "
            f"output_dims={{'{name}': 'x'}} for the shape of argument 'x'",
        )


def require_kernel(kernel: object) -> None:
    """Refuse other objects than kernels.

    Raises:
        KernelArgumentError: ``kernel`` is no Kernel.
    """
    if not isinstance(kernel, Kernel):
        raise not_a_kernel(kernel)


def roles(
    kernel: Kernel, outputs: Sequence[str] | None, in_out: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The outputs and the in-out arrays of ``kernel`` in order; see ``kernel_operation``.

    No parameter is named in both.

    Raises:
        KernelArgumentError: The kernel writes another array, or one of these is not written.
    """
    func, in_out = kernel.func, tuple(in_out)
    named = dict(zip((p.name for p in func.params), kernel.effects, strict=True))
    order = list(named)

    def fail(text: str, name: str, remedy: str) -> KernelArgumentError:
        loc = func.param_loc(order.index(name)) if name in named else func.loc
        return KernelArgumentError(f"{kernel.name}: {text}", loc, remedy)

    written = [name for name, effect in named.items() if effect.writes]
    if outputs is None:
        outputs = [n for n in written if not named[n].loads and n not in in_out]
        in_out = tuple(n for n in written if n not in outputs)
    for name in written:
        if name not in outputs and name not in in_out:
            text = f"the kernel writes '{name}', which is neither an output nor in-out"
            raise fail(text, name, "name it as an output, or as in-out if it is to be updated")
    for name in (*outputs, *in_out):
        if not named[name].writes:
            text = f"output '{name}' is never written by the kernel"
            remedy = (
                "store to it, not in a branch that is never taken, or do not name it as an output"
            )
            raise fail(text, name, remedy)
    if not written:
        text = "the kernel writes no array, so it has no result"
        raise fail(text, "", "store what it computes to an array parameter")
    return tuple(sorted(outputs, key=order.index)), tuple(sorted(in_out, key=order.index))


class ShapeRules:
    """Shapes in terms of operands.

    Attributes:
        name: What errors call the kernel or function.
        loc: Where it is.
        arrays: The types of its arrays, by name.
        position: The operand of each that is no output, by name.
        integers: The operands that are integers, by name.
        structs: By the name of an array of structs one of its leaves, which has its shape.
    """

    def __init__(
        self,
        name: str,
        loc: SrcLoc | None,
        arrays: Mapping[str, ArrayType],
        position: Mapping[str, int],
        integers: Mapping[str, int] | None = None,
        structs: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.loc = loc
        self.arrays = arrays
        self.position = position
        self.integers = dict(integers or {})
        self.structs = dict(structs or {})

    def fail(self, text: str, remedy: str) -> KernelArgumentError:
        """The error for a shape."""
        return KernelArgumentError(f"{self.name}: {text}", self.loc, remedy)

    def first_array(self, remedy: str) -> str:
        """The name of the first operand with dimensions, whose shape others have by default."""
        first = next((n for n in self.position if self.outer_ndim(n)), None)
        if first is None:
            raise self.fail("no array operand to take the shape from", remedy)
        return first

    def grid(self, spec: ShapeSpec, rank: int) -> Shape:
        """The launch shape ``spec`` of a kernel that asks ``tid`` for ``rank`` indices."""
        shape = self.shape(self.first_array("give launch_dims") if spec is None else spec)
        if len(shape) != rank:
            raise self.fail(
                f"expected a launch shape of rank {rank}, as tid() has, found rank {len(shape)}",
                f"give launch_dims, for example launch_dims={self._example(rank)}",
            )
        return shape

    def _example(self, rank: int) -> str:
        """A shape of ``rank`` extents, as users write it."""
        for name in self.position:
            if self.outer_ndim(name) == rank:
                return f"'{name}'"
        extents = [f"{n}.shape[{k}]" for n in self.position for k in range(self.outer_ndim(n))]
        return str((*self.integers, *extents, *[1] * rank)[:rank])

    def outputs(
        self,
        names: Sequence[str],
        specs: ShapeSpec | Mapping[str, ShapeSpec],
        default: Callable[[str], Shape],
    ) -> dict[str, Shape]:
        """The shapes of the outputs ``names``: one for all, or by name, else by ``default``."""
        if not isinstance(specs, Mapping):
            specs = dict.fromkeys(names, specs)
        for name in specs:
            if name not in names:
                raise self.fail(
                    f"output_dims: '{name}' is no output",
                    f"its outputs are {', '.join(names)}; outputs=[...] names others",
                )
        given = {name: specs.get(name) for name in names}
        return {
            n: self._output(n, default(n) if s is None else self.shape(s)) for n, s in given.items()
        }

    def _output(self, name: str, shape: Shape) -> Shape:
        """``shape`` of output ``name``, with its components."""
        array = self.arrays[name]
        outer = array.outer_ndim
        components = tuple(map(Extent.literal, array.components))
        if len(shape) == outer:
            return (*shape, *components)
        if len(shape) != array.ndim:
            raise self.fail(
                f"output '{name}': expected a shape with {outer} dimension{'s' * (outer != 1)}, "
                f"found one with {len(shape)}",
                f"give output_dims, for example output_dims={self._example(outer)}",
            )
        if shape[outer:] != components:
            raise self.fail(
                f"output '{name}': expected {array_text(array)}, found other last extents",
                "leave the components out of output_dims",
            )
        return shape

    def outer_ndim(self, name: str) -> int:
        """Dimensions of parameter ``name`` that are no components."""
        return self.arrays[name].outer_ndim if name in self.arrays else 0

    def shape(self, spec: SupportsIndex | str | Sequence[SupportsIndex | str]) -> Shape:
        """The shape that ``spec`` stands for."""
        if isinstance(spec, str):
            spec = self.structs.get(spec, spec)
        if isinstance(spec, str) and spec in self.position and spec not in self.integers:
            return tuple(self.extent(spec, axis) for axis in range(self.outer_ndim(spec)))
        entries = spec if isinstance(spec, Iterable) and not isinstance(spec, str) else (spec,)
        return tuple(self._entry(e) for e in entries)

    def _entry(self, entry: object) -> Extent:
        if isinstance(entry, SupportsIndex):
            extent = operator.index(entry)
            if not 0 <= extent < MAX_EXTENT:
                raise self.fail(
                    f"a shape: expected extents of 0 to 2**31 - 1, found {extent}",
                    "split the launch: indices of kernels have 32 bits",
                )
            return Extent.literal(extent)
        if isinstance(entry, str) and entry in self.integers:
            return Extent.size(self.integers[entry])
        match = _EXTENT.fullmatch(entry) if isinstance(entry, str) else None
        if match is None:
            known = ", ".join(self.integers)
            raise self.fail(
                f"a shape: expected a number or 'name.shape[axis]', found {entry!r}",
                "for example 'x.shape[0]'"
                + (f", or an argument that is an integer: {known}" if known else "")
                + "; of other extents, a function of shapes: lambda x: (2 * x[0],)",
            )
        return self.extent(match[1], int(match[2]))

    def extent(self, name: str, axis: int) -> Extent:
        """Axis ``axis`` of array operand ``name``."""
        name = self.structs.get(name, name)
        array = self.arrays.get(name)
        if array is None or name not in self.position or axis >= array.ndim:
            known = ", ".join(n for n in self.position if n in self.arrays) or "none"
            raise self.fail(
                f"'{name}.shape[{axis}]' is no extent of an array operand",
                f"the array operands are: {known}",
            )
        return own_shape(self.position[name], array)[axis]
