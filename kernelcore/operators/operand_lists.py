"""Operations with other operands: without those that are not read, or with more of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelGradError
from kernelcore.compiler.launch_descriptor import Binding, Role
from kernelcore.ir.core import Eqn, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import rewrite, walk_eqns
from kernelcore.language.types import int32
from kernelcore.operators.operation import Extent, Operand, Operation, Result, Shape
from kernelcore.passes.simplify.dead_code import drop_unused_params

# The shapes of operands, of those that are omitted at least.
Shapes = Mapping[int, Sequence[Any]] | Sequence[Sequence[Any]]


def without(op: Operation, omit: Iterable[int], shapes: Shapes | None = None) -> Operation:
    """``op`` without the operands ``omit``, whose elements its kernel does not read.

    Its shapes take the extents of these operands from the declared shapes of the others, where
    these tell them, and are numbers from ``shapes`` elsewhere.

    Raises:
        KernelGradError: The kernel reads one of them.
    """
    omit = tuple(omit)
    if not omit:
        return op
    sizes: tuple[tuple[tuple[int, int], int], ...] = ()
    if shapes is not None:
        sizes = tuple(((k, axis), shapes[k][axis]) for k, axis in _untold(op, omit))
    return op.once(("without", omit, sizes), lambda: _without(op, omit, dict(sizes)))


def with_operands(op: Operation, results: Sequence[Result]) -> Operation:
    """``op`` with operands behind its own that are alike to ``results``, and not read."""
    more = tuple(Operand(r.name, r.type, r.shape) for r in results)
    return op.once(("with_operands", more), lambda: _with_operands(op, more)) if more else op


def without_unused(op: Operation) -> Operation:
    """``op``, whose kernel takes no parameter for an operand that its body never uses."""
    return op.once("without_unused", lambda: _without_unused(op))


def with_extents_as_numbers(op: Operation) -> tuple[Operation, tuple[tuple[int, int], ...]]:
    """``op`` with numbers behind its operands for extents of arrays of which it has no element.

    Returns:
        The operation, and the extents that the numbers are: (operand, axis).
    """
    return op.once("with_extents_as_numbers", lambda: _with_extents_as_numbers(op))


def unread(op: Operation, operands: Sequence[int]) -> tuple[int, ...]:
    """Those of ``operands`` that the kernel of ``op`` does not take."""
    taken = {b.operand for b in op.bindings}
    return tuple(k for k in operands if k not in taken and not op.operands[k].is_size)


def _kept(op: Operation, omit: Sequence[int]) -> list[int]:
    return [k for k in range(len(op.operands)) if k not in omit]


def _untold(op: Operation, omit: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The extents (operand, axis) of ``omit`` that no declared shape of another operand tells."""
    used = {e for shape in (op.grid, *(r.shape for r in op.results)) for e in shape}
    used.update(e for o in _kept(op, omit) for e in op.operands[o].shape or ())
    told = {e for k in _kept(op, omit) for e in op.operands[k].shape or ()}
    return tuple(sorted((e.operand, e.axis) for e in used - told if e.operand in omit))


def _without(
    op: Operation, omit: tuple[int, ...], sizes: Mapping[tuple[int, int], int]
) -> Operation:
    for index in omit:
        if op.param_of_operand(index) is not None:
            name = op.operands[index].name
            raise KernelGradError(f"{op.func.name}: not linear in '{name}'", op.func.loc)
    kept = _kept(op, omit)
    place = {old: new for new, old in enumerate(kept)}
    known = {place: Extent.literal(size) for place, size in sizes.items()}
    for new, old in enumerate(kept):
        for axis, extent in enumerate(op.operands[old].shape or ()):
            if extent.operand in omit:
                known.setdefault((extent.operand, extent.axis), Extent.of(new, axis))
    sources = {extent.operand for extent in known.values() if extent.operand >= 0}

    def moved(shape: Shape) -> Shape:
        return tuple(
            e
            if e.operand < 0
            else known[e.operand, e.axis]
            if e.operand in omit
            else Extent.of(place[e.operand], e.axis)
            for e in shape
        )

    operands = tuple(
        replace(o, shape=None if o.shape is None or new in sources else moved(o.shape))
        for new, o in enumerate(op.operands[i] for i in kept)
    )
    results = tuple(replace(r, shape=moved(r.shape)) for r in op.results)
    bindings = tuple(
        replace(b, operand=place[b.operand]) if b.operand >= 0 else b for b in op.bindings
    )
    return Operation(op.func, operands, results, op.visible, bindings, moved(op.grid))


def _with_operands(op: Operation, more: tuple[Operand, ...]) -> Operation:
    operands = (*op.operands, *more)
    return Operation(op.func, operands, op.results, op.visible, op.bindings, op.grid)


def _without_unused(op: Operation) -> Operation:
    written = [k for k, b in enumerate(op.bindings) if b.result >= 0]
    func, kept = drop_unused_params(op.func, written)
    if len(kept) == len(op.bindings):
        return op
    bindings = tuple(op.bindings[k] for k in kept)
    return Operation(func, op.operands, op.results, op.visible, bindings, op.grid)


def _with_extents_as_numbers(op: Operation) -> tuple[Operation, tuple[tuple[int, int], ...]]:
    eqns = [*walk_eqns(op.func.body)]
    accessed = {a for eqn in eqns if eqn.op.kind is not OpKind.DIM for a in eqn.inputs}
    alone = {
        p: b.operand
        for p, b in zip(op.func.params, op.bindings, strict=True)
        if b.operand >= 0 and b.result < 0 and p not in accessed
    }
    numbers: dict[tuple[int, int], Var] = {}

    def change(eqn: Eqn) -> Eqn | Region:
        array = eqn.inputs[0] if eqn.op.kind is OpKind.DIM else None
        if not isinstance(array, Var) or array not in alone:
            return eqn
        axis = eqn.attrs["axis"]
        name = f"{array.name}_extent_{axis}"
        number = numbers.setdefault((alone[array], axis), Var(int32, name))
        return Region((), (), (number,))

    body = rewrite(op.func.body, change)
    if not numbers:
        return op, ()
    count = len(op.operands)
    func = replace(
        op.func,
        body=replace(body, params=(*op.func.params, *numbers.values())),
        param_locs=(
            *map(op.func.param_loc, range(len(op.func.params))),
            *[op.func.loc] * len(numbers),
        ),
    )
    made = Operation(
        func,
        (*op.operands, *(Operand(v.name, int32) for v in numbers.values())),
        op.results,
        op.visible,
        (*op.bindings, *(Binding(Role.VALUE, count + n) for n in range(len(numbers)))),
        op.grid,
    )
    return without_unused(made), tuple(numbers)
