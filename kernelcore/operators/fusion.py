"""Elementwise operations as functions of whole arrays, which compilers of frameworks fuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    grid_axes,
    indexed_axes,
    obstacles,
)
from kernelcore.passes.autodiff.rules import without_rules

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

    Native code takes arrays that are larger, and refuses those that are smaller.
    """
    shapes = operation.shapes(operands)
    grid = evaluate(operation.grid, shapes)
    if any(evaluate(r.shape, shapes) != grid for r in operation.results):
        return False
    func = _plain(operation)
    place = {param: bound.operand for param, bound in _bound(operation) if bound.operand >= 0}
    axis = grid_axes(func.body)
    for eqn in walk_eqns(func.body):
        if eqn.op.kind in ACCESSES and eqn.inputs[0] in place:
            axes = indexed_axes(eqn, axis) or ()
            if tuple(shapes[place[eqn.inputs[0]]]) != tuple(grid[a] for a in axes):
                return False
    return True


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
        value = walker.arrays[walker.func.params[operation.param_of_result(index)]]
        made.append(xp.result(value, walker.grid, not walker.is_shared(value)))
        walker.shared.append(value)
    return made


def _bound(operation: Operation) -> Iterator[tuple[Var, Binding]]:
    return zip(_plain(operation).params, operation.bindings, strict=True)


class _Walker:
    """Evaluates the equations of an operation over arrays that broadcast to its grid.

    Attributes:
        func: The kernel.
        arrays: Per array that the kernel writes, its elements so far; of others, those given.
        shared: Arrays that share memory with operands or results.
    """

    def __init__(self, operation: Operation, xp: Any, operands: Sequence[Any]) -> None:
        self.func = _plain(operation)
        self.xp = xp
        self.grid = evaluate(operation.grid, operation.shapes(operands))
        self.axis = grid_axes(self.func.body)
        self.arrays: dict[Atom, Any] = {}
        self.values: dict[Atom, Any] = {}
        self.shared: list[Any] = []
        for param, bound in _bound(operation):
            if isinstance(param.type, Scalar):
                self.values[param] = self.keep(xp.value(param.type, operands[bound.operand]))
            elif bound.operand >= 0:
                self.arrays[param] = self.keep(operands[bound.operand])
            else:
                self.arrays[param] = xp.scalar(element_type(param.type), 0)

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
        condition, before = self.atom(eqn.inputs[0]), self.arrays
        sides: list[tuple[list[Any], dict[Atom, Any]]] = []
        for region in eqn.regions:
            self.arrays = dict(before)
            sides.append((self.region(region), self.arrays))
        (chosen, on_true), (other, on_false) = sides

        def merged(x: Any, y: Any) -> Any:
            return x if x is y else self.xp.where(condition, x, y)

        for out, x, y in zip(eqn.outputs, chosen, other, strict=True):
            self.values[out] = merged(x, y)
        self.arrays = {param: merged(x, on_false[param]) for param, x in on_true.items()}

    def equation(self, eqn: Eqn) -> Any:
        """The value of ``eqn``, which has no regions."""
        xp = self.xp
        match eqn.op.kind:
            case OpKind.TID:
                return self.placed(xp.indices(self.grid[eqn.attrs["axis"]]), (eqn.attrs["axis"],))
            case OpKind.LOAD:
                axes = indexed_axes(eqn, self.axis)
                assert axes is not None
                return self.placed(self.arrays[eqn.inputs[0]], axes)
            case OpKind.STORE:
                self.arrays[eqn.inputs[0]] = self.atom(eqn.inputs[-1])
                return None
            case OpKind.ATOMIC_ADD:
                old, term = self.arrays[eqn.inputs[0]], self.atom(eqn.inputs[-1])
                self.arrays[eqn.inputs[0]] = sum_of(xp, old, term)
                return old
            case OpKind.CAST:
                source = element_type(eqn.inputs[0].type)
                return converted(xp, source, eqn.attrs["dtype"], self.atom(eqn.inputs[0]))
            case _:
                operands = [self.atom(a) for a in eqn.inputs]
                return eqn.op.array(xp, element_type(eqn.inputs[-1].type), *operands)

    def placed(self, value: Any, axes: Sequence[int]) -> Any:
        """``value``, whose dimensions are ``axes`` of the grid, as it broadcasts to that."""
        if len(axes) in (0, len(self.grid)):
            return value
        kept = [n if a in axes else 1 for a, n in enumerate(self.grid)]
        made = self.xp.reshape(value, tuple(kept))
        return self.keep(made) if self.is_shared(value) else made
