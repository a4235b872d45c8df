"""Operation: a kernel as a pure function of arrays, described without any framework.

An Operation says how the parameters of a kernel are bound to operands (what a caller gives) and
results (what it gets), which shapes follow from the operands, and how to derive the operation's
JVP, VJP and batched form, which are Operations again (``opderive.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from kernelcore.compile import Compiled, compile_func
from kernelcore.errors import KernelArgumentError
from kernelcore.ir.core import Func, Var
from kernelcore.ir.text import canonical
from kernelcore.passes.access import AccessMap, Effect, effects
from kernelcore.passes.pipeline import optimize
from kernelcore.runtime import native
from kernelcore.signature import (
    Binding,
    Relocation,
    Role,
    ZeroFill,
    make_signature,
    relocations,
)
from kernelcore.types import ArrayType, Scalar, as_array


class Extent(NamedTuple):
    """One extent of a shape: axis ``axis`` of operand ``operand``, or the literal ``value``."""

    operand: int
    axis: int
    value: int

    @staticmethod
    def of(operand: int, axis: int) -> Extent:
        """Axis ``axis`` of ``operand``."""
        return Extent(operand, axis, 0)

    @staticmethod
    def literal(value: int) -> Extent:
        """A number."""
        return Extent(-1, 0, value)


Shape = tuple[Extent, ...]


def evaluate(shape: Shape, operand_shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """``shape`` for operands of the given shapes, whose extents may be symbolic."""
    return tuple(operand_shapes[e.operand][e.axis] if e.operand >= 0 else e.value for e in shape)


@dataclass(frozen=True, slots=True)
class Operand:
    """What a caller gives; ``shape`` is known for tangents and cotangents, else None."""

    name: str
    type: ArrayType | Scalar
    shape: Shape | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a caller gets, or a hidden buffer."""

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
    """

    func: Func
    operands: tuple[Operand, ...]
    results: tuple[Result, ...]
    visible: int
    bindings: tuple[Binding, ...]
    grid: Shape
    derived: dict[Any, Any] = field(default_factory=dict[Any, Any], repr=False)

    @cached_property
    def key(self) -> str:
        """Hash of the meaning: equal keys, equal operations, in every process."""
        described = (self.operands, self.results, self.visible, self.bindings, self.grid)
        text = f"{canonical(self.func)}\n{described!r}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operation) and self.key == other.key

    def __repr__(self) -> str:
        return f"{self.func.name}@{self.key[:8]}"

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

    def like(self, operand: int) -> Shape:
        """The shape of ``operand``, in terms of operands that are no tangents or cotangents."""
        given = self.operands[operand]
        if given.shape is not None:
            return given.shape
        return tuple(Extent.of(operand, axis) for axis in range(as_array(given.type).ndim))

    def owners(self) -> tuple[int, ...]:
        """Operands that every instance of a batch needs a copy of, since the kernel writes it."""
        return tuple(
            b.operand
            for b in self.bindings
            if b.role in (Role.INOUT, Role.SCRATCH) and b.operand >= 0
        )

    @cached_property
    def _reaches(self) -> list[tuple[int, int, int]]:
        return AccessMap(self.func).reaches()

    def check_extents(self, operand_shapes: Sequence[Sequence[Any]]) -> None:
        """Refuse operands that are smaller than the launch that indexes them; symbols pass.

        Raises:
            KernelArgumentError: Naming the parameter.
        """
        grid = evaluate(self.grid, operand_shapes)
        if 0 in [e for e in grid if isinstance(e, int)]:
            return
        for index, axis, grid_axis in self._reaches:
            bound = self.bindings[index]
            if bound.operand >= 0:
                shape = tuple(operand_shapes[bound.operand])
            else:
                shape = evaluate(self.results[bound.result].shape, operand_shapes)
            found, needed = shape[axis], grid[grid_axis]
            if isinstance(found, int) and isinstance(needed, int) and found < needed:
                raise KernelArgumentError(
                    f"{self.func.name}(): argument '{self.func.params[index].name}': expected at "
                    f"least {needed} elements on axis {axis}, which the launch indexes, "
                    f"found {found}",
                    self.func.param_loc(index),
                    "launch over fewer points, or give a larger array",
                )

    @cached_property
    def compiled(self) -> Compiled:
        """The machine code; compiled, or loaded from the cache, on first use."""
        return compile_func(optimize(self.func))

    @cached_property
    def signature(self) -> native.Signature:
        """The kernel as native launchers take it."""
        return make_signature(self.func, self.compiled, self.bindings)

    def relocations(self) -> list[Relocation]:
        """Per kernel parameter: offset, role, dtype code, ndim, zero fill, operand, result."""
        return relocations(self.func, self.compiled, self.bindings)


def zero_fill(accesses: AccessMap, param: Var, effect: Effect) -> ZeroFill:
    """When a buffer that ``param`` fills must be zeroed first."""
    if effect.loads or effect.accumulates or not accesses.covers_grid(param):
        return ZeroFill.ALWAYS
    return ZeroFill.IF_PARTIAL


def primal_operation(
    func: Func,
    outputs: Sequence[str],
    in_out: Sequence[str],
    grid: Shape,
    shapes: Mapping[str, Shape],
) -> Operation:
    """The Operation of a kernel.

    Args:
        func: The kernel, normalized.
        outputs: Parameters that are results only.
        in_out: Parameters that are operands, and results that start as copies of them.
        grid: The launch shape; extents name operands, which are the other parameters in order.
        shapes: The shape of each parameter in ``outputs``.
    """
    accesses = AccessMap(func)
    operands: list[Operand] = []
    results: list[Result] = []
    bindings: list[Binding] = []
    for param, effect in zip(func.params, effects(func), strict=True):
        assert isinstance(param.type, ArrayType | Scalar)
        if param.name in outputs:
            assert isinstance(param.type, ArrayType)
            zero = zero_fill(accesses, param, effect)
            bindings.append(Binding(Role.OUTPUT, -1, len(results), zero))
            results.append(Result(param.name, param.type, shapes[param.name]))
            continue
        index = len(operands)
        operands.append(Operand(param.name, param.type))
        if param.name in in_out:
            assert isinstance(param.type, ArrayType)
            shape = tuple(Extent.of(index, axis) for axis in range(param.type.ndim))
            bindings.append(Binding(Role.INOUT, index, len(results)))
            results.append(Result(param.name, param.type, shape))
        else:
            role = Role.INPUT if isinstance(param.type, ArrayType) else Role.VALUE
            bindings.append(Binding(role, index))
    return Operation(func, tuple(operands), tuple(results), len(results), tuple(bindings), grid)
