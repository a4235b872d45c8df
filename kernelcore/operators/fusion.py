"""Elementwise operations as functions of whole arrays, which compilers of frameworks fuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, Literal

from kernelcore.base.config import config
from kernelcore.base.errors import KernelArgumentError
from kernelcore.builtins.spelling import converted, sum_of
from kernelcore.compiler.launch_descriptor import Binding
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ACCESSES, OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import Scalar, element_type
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.passes.access.fusion import (
    Arithmetic,
    Obstacle,
    Place,
    grid_axes,
    obstacles,
    own_axes,
    place_of,
)
from kernelcore.passes.autodiff.rules import without_rules

# The most components that are put together: each is an operation of the graph.
MAX_COMPONENTS = 64
# Whether an operator is computed in the graph of a framework: never; where that is faster and its
# arithmetic counts as that of kernels; wherever it can be.
Fuse = bool | Literal["auto"]


def obstacle(operation: Operation, fuse: Fuse, arithmetic: Arithmetic) -> Obstacle | None:
    """What keeps ``operation`` from being fused as ``fuse``, which is not False, asks."""

    def find() -> Obstacle | None:
        func = _plain(operation)
        if func.rank != len(operation.grid):
            return Obstacle("does not ask for its launch index", func.loc)
        return next(obstacles(func, arithmetic, asked=fuse is True), None)

    return operation.once(("obstacle", fuse, arithmetic), find)


def is_fused(operation: Operation, fuse: Fuse, arithmetic: Arithmetic) -> bool:
    """Whether ``operation`` is computed in the graph of a framework."""
    return fuse is not False and obstacle(operation, fuse, arithmetic) is None


def require_fusable(operation: Operation, fuse: Fuse, arithmetic: Arithmetic) -> None:
    """Refuse an operation that is to be fused and cannot be.

    Raises:
        KernelArgumentError: Naming the line and the reason.
    """
    # What settings ask for is none of the kernel's own.
    if fuse is not True or any(config.followed):
        return
    found = obstacle(operation, fuse, arithmetic)
    if found is not None:
        raise KernelArgumentError(
            f"{operation.func.name}: fuse=True: expected an elementwise kernel, found that {found}",
            found.loc,
            'leave it to kernelcore: fuse="auto"',
        )


def _plain(operation: Operation) -> Func:
    return operation.once("without rules", lambda: without_rules(operation.func))


def fits(operation: Operation, operands: Sequence[Any]) -> bool:
    """Whether arrays have the shape of the launch, so that ``computed`` takes them.

    Components are behind its axes. Native code takes arrays that are larger, and refuses those that
    are smaller.
    """
    shapes = operation.shapes(operands)
    whole = evaluate(operation.grid, shapes)
    func = _plain(operation)
    own, axis = own_axes(func.body), grid_axes(func.body)
    grid = tuple(whole[a] for a in own)
    if any(n != 1 for a, n in enumerate(whole) if a not in own):
        return False
    of_results = [tuple(evaluate(r.shape, shapes)) for r in operation.results]
    for shape in of_results:
        behind = shape[len(own) :]
        if shape[: len(own)] != grid or prod(behind) > MAX_COMPONENTS:
            return False
    known = {
        param: tuple(shapes[bound.operand]) if bound.operand >= 0 else of_results[bound.result]
        for param, bound in _bound(operation)
        if not isinstance(param.type, Scalar)
    }
    for eqn in walk_eqns(func.body):
        if eqn.op.kind in ACCESSES:
            place = place_of(eqn, axis)
            array = eqn.inputs[0]
            assert isinstance(array, Var)
            if place is None or not _is_within(place, known[array], whole):
                return False
    return True


def _is_within(place: Place, shape: Sequence[int], grid: Sequence[int]) -> bool:
    """Whether an array of ``shape`` has the extents of ``grid`` at ``place``, and a component."""
    return len(shape) == len(place.indices) and all(
        extent == grid[index] if is_axis else index < extent
        for index, is_axis, extent in zip(place.indices, place.is_axis, shape, strict=True)
    )


def computed(operation: Operation, xp: Any, operands: Sequence[Any]) -> list[Any]:
    """The visible results of ``operation``, by functions of whole arrays.

    Args:
        operation: What is computed; ``is_fused`` holds.
        xp: Functions of the Python array API, with ``scalar`` and ``astype`` as in
            ``builtins/spelling.py``; besides, ``indices(n)``, the int32 from 0 to n - 1;
            ``value(t, x)``, operand x, a number or an array without dimensions, as an array of type
            t; and ``result(x, shape, is_new)``, x broadcast to a shape, in memory of its own where
            it is not new.
        operands: One array or number per operand; ``fits`` holds.
    """
    walker = _Walker(operation, xp, operands)
    walker.region(walker.func.body)
    made: list[Any] = []
    for index in range(operation.visible):
        param = walker.func.params[operation.param_of_result(index)]
        shape = evaluate(operation.results[index].shape, operation.shapes(operands))
        value = walker.whole(param, shape)
        made.append(xp.result(value, shape, not walker.is_shared(value)))
        walker.shared.append(value)
    return made


def _bound(operation: Operation) -> Iterator[tuple[Var, Binding]]:
    return zip(_plain(operation).params, operation.bindings, strict=True)


class _Walker:
    """Evaluates the equations of an operation over arrays that broadcast to its grid.

    Attributes:
        func: The kernel.
        grid: The extents of the launch along the axes that the kernel asks for.
        operands: The arrays that are given.
        elements: Per array that the kernel writes, and literal indices of a component, the elements
            so far.
        shared: Arrays that share memory with operands or results.
    """

    def __init__(self, operation: Operation, xp: Any, operands: Sequence[Any]) -> None:
        self.func = _plain(operation)
        self.xp = xp
        whole = evaluate(operation.grid, operation.shapes(operands))
        self.own = own_axes(self.func.body)
        self.grid = tuple(whole[a] for a in self.own)
        self.axis = grid_axes(self.func.body)
        kinds = (OpKind.STORE, OpKind.ATOMIC_ADD)
        eqns = walk_eqns(self.func.body)
        self.written = {e.inputs[0] for e in eqns if e.op.kind in kinds}
        self.operands: dict[Atom, Any] = {}
        self.elements: dict[tuple[Atom, tuple[int, ...]], Any] = {}
        self.values: dict[Atom, Any] = {}
        self.shared: list[Any] = []
        for param, bound in _bound(operation):
            if isinstance(param.type, Scalar):
                self.values[param] = self.keep(xp.value(param.type, operands[bound.operand]))
            elif bound.operand >= 0:
                self.operands[param] = self.keep(operands[bound.operand])

    def keep(self, value: Any) -> Any:
        """``value``, which shares memory with an operand."""
        self.shared.append(value)
        return value

    def is_shared(self, value: Any) -> bool:
        """Whether ``value`` shares memory with an operand or a result."""
        return any(value is one for one in self.shared)

    def atom(self, atom: Atom) -> Any:
        """The value of ``atom``."""
        if isinstance(atom, Const):
            return self.xp.scalar(atom.type, atom.value)
        return self.values[atom]

    def region(self, region: Region) -> list[Any]:
        """Run ``region``, and return what it yields."""
        for eqn in region.eqns:
            if eqn.op.kind is OpKind.IF:
                self.branch(eqn)
            else:
                made = self.equation(eqn)
                if eqn.outputs:
                    self.values[eqn.out] = made
        return [self.atom(a) for a in region.yields]

    def branch(self, eqn: Eqn) -> None:
        """Run both sides of an ``if``, and choose element by element what they leave."""
        condition, before = self.atom(eqn.inputs[0]), self.elements
        sides: list[tuple[list[Any], dict[tuple[Atom, tuple[int, ...]], Any]]] = []
        for region in eqn.regions:
            self.elements = dict(before)
            sides.append((self.region(region), self.elements))
        (chosen, on_true), (other, on_false) = sides

        def merged(x: Any, y: Any) -> Any:
            return x if x is y else self.xp.where(condition, x, y)

        for out, x, y in zip(eqn.outputs, chosen, other, strict=True):
            self.values[out] = merged(x, y)
        self.elements = before
        for key in on_true | on_false:
            x, y = (
                side[key] if key in side else self.element(*key) for side in (on_true, on_false)
            )
            self.elements[key] = merged(x, y)

    def equation(self, eqn: Eqn) -> Any:
        """The value of ``eqn``, which has no regions."""
        xp = self.xp
        match eqn.op.kind:
            case OpKind.TID:
                axis = eqn.attrs["axis"]
                return self.placed(xp.indices(self.grid[self.own.index(axis)]), (axis,))
            case OpKind.LOAD | OpKind.STORE | OpKind.ATOMIC_ADD:
                return self.access(eqn)
            case OpKind.CAST:
                source = element_type(eqn.inputs[0].type)
                return converted(xp, source, eqn.attrs["dtype"], self.atom(eqn.inputs[0]))
            case _:
                operands = [self.atom(a) for a in eqn.inputs]
                return eqn.op.array(xp, element_type(eqn.inputs[-1].type), *operands)

    def access(self, eqn: Eqn) -> Any:
        array, place = eqn.inputs[0], place_of(eqn, self.axis)
        assert place is not None
        if eqn.op.kind is OpKind.LOAD and array not in self.written:
            return self.placed(self.part(self.operands[array], place), place.axes)
        key = array, place.literals
        old = self.element(*key)
        if eqn.op.kind is OpKind.STORE:
            self.elements[key] = self.atom(eqn.inputs[-1])
        elif eqn.op.kind is OpKind.ATOMIC_ADD:
            self.elements[key] = sum_of(self.xp, old, self.atom(eqn.inputs[-1]))
        return old

    def element(self, array: Atom, literals: tuple[int, ...]) -> Any:
        """The elements of ``array``, which the kernel writes, at these literals, so far."""
        if (array, literals) not in self.elements:
            if array in self.operands:
                place = Place((*self.own, *literals), self.is_own(len(literals)))
                found = self.part(self.operands[array], place)
            else:
                found = self.xp.scalar(element_type(array.type), 0)
            self.elements[array, literals] = found
        return self.elements[array, literals]

    def is_own(self, count: int) -> tuple[bool, ...]:
        """``is_axis`` of the place of one of ``count`` components."""
        return (*(True for _ in self.own), *(False for _ in range(count)))

    def part(self, value: Any, place: Place) -> Any:
        """The elements of ``value`` at the literals of ``place``."""
        if all(place.is_axis):
            return value
        pairs = zip(place.indices, place.is_axis, strict=True)
        return self.keep(value[tuple(slice(None) if is_axis else k for k, is_axis in pairs)])

    def whole(self, array: Atom, shape: Sequence[int]) -> Any:
        """``array``, which the kernel writes, with all its components."""
        behind = tuple(shape[len(self.grid) :])
        if not behind:
            return self.element(array, ())
        xp, parts, count = self.xp, list[Any](), len(self.grid)
        for literals in product(*map(range, behind)):
            parts.append(xp.broadcast_to(self.element(array, literals), self.grid))
        # Compilers make vector code where components are not the last axis.
        stacked = xp.reshape(xp.stack(parts, 0), (*behind, *self.grid))
        axes = range(len(behind))
        return xp.moveaxis(stacked, tuple(axes), tuple(count + axis for axis in axes))

    def placed(self, value: Any, axes: Sequence[int]) -> Any:
        """``value``, whose dimensions are ``axes`` of the grid, as it broadcasts to that."""
        if len(axes) in (0, len(self.grid)):
            return value
        kept = [n if a in axes else 1 for a, n in zip(self.own, self.grid, strict=True)]
        made = self.xp.reshape(value, tuple(kept))
        return self.keep(made) if self.is_shared(value) else made
