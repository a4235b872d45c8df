"""Derived Operations: JVP, VJP and batching, each an Operation again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.compiler.launch_descriptor import Binding, Role, ZeroFill
from kernelcore.ir.core import Func
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.effect import Effect
from kernelcore.language.types import ArrayType, as_array
from kernelcore.operators.operation import Extent, Operand, Operation, Result, Shape
from kernelcore.operators.primal import zero_fill
from kernelcore.passes.access.effects import AccessMap, GridIndexedAxis, effects
from kernelcore.passes.autodiff.derived import Derived
from kernelcore.passes.autodiff.jvp import jvp as jvp_func
from kernelcore.passes.autodiff.rules import refuse_reads_after_launch
from kernelcore.passes.autodiff.vjp import vjp as vjp_func
from kernelcore.passes.pipeline import tidy, with_checks
from kernelcore.passes.simplify.dead_code import dce, drop_unused_params
from kernelcore.passes.simplify.extents import with_extents_of_derivatives
from kernelcore.passes.vmap import batch as batch_func


@dataclass(frozen=True, slots=True)
class DerivedOperation:
    """A derived Operation, and the primal indices ``produced`` of its visible results.

    For a JVP these are results of the primal, for a VJP operands. Requested derivatives that are
    not in ``produced`` are zero.
    """

    operation: Operation
    produced: tuple[int, ...]


def jvp(op: Operation, active: Sequence[int]) -> DerivedOperation:
    """Tangents of the results of ``op``, given those of the operands ``active``.

    The operands are those of ``op``, then the tangents of ``active`` in order.

    Raises:
        KernelGradError: The kernel has no exact derivative.
    """
    given = {k: len(op.operands) + i for i, k in enumerate(active)}
    return op.once(("jvp", tuple(active)), Assembly(op, given).jvp)


def vjp(op: Operation, wrt: Sequence[int], cotangents: Sequence[int]) -> DerivedOperation:
    """Cotangents of the operands ``wrt``, given those of the visible results ``cotangents``.

    The operands are those of ``op``, then the cotangents in order.

    Raises:
        KernelGradError: The kernel has no exact derivative.
    """
    given = {j: len(op.operands) + i for i, j in enumerate(cotangents)}
    key = ("vjp", tuple(wrt), tuple(cotangents))
    return op.once(key, lambda: Assembly(op, given).vjp(tuple(wrt)))


def has_given_rules(op: Operation) -> bool:
    """Whether ``op`` calls what users give derivatives of; those of the two modes may differ."""
    kinds = {eqn.op.kind for eqn in walk_eqns(op.func.body)}
    return not kinds.isdisjoint((OpKind.CUSTOM, OpKind.SNIPPET))


def batch(op: Operation, batched: Sequence[bool]) -> Operation:
    """``op`` on every instance of a batch.

    Operands marked in ``batched`` have a leading batch dimension, a value becomes an array of one
    dimension; the others are shared. ``op.owners()`` must be batched. All results are batched.
    """
    return op.once(("batch", tuple(batched)), lambda: _batch(op, tuple(batched)))


# Binds a tangent or cotangent parameter, given the binding of the primal one.
Bind = Callable[[Binding, Effect, ZeroFill], Binding]


class Assembly:
    """Binds the parameters of a derived kernel.

    ``given`` maps operands (JVP) or results (VJP) of the primal to the new operand that holds their
    tangent or cotangent, ``saved`` results of the primal to the new operand that is one.
    """

    def __init__(
        self, op: Operation, given: Mapping[int, int], saved: Mapping[int, int] | None = None
    ) -> None:
        self.op, self.given, self.saved = op, given, saved or {}
        self.operands: list[Operand] = list(op.operands)
        self.bindings: list[Binding] = []
        # Visible results by what they are a derivative of; until they are placed, bindings name
        # those by that, and hidden ones by their place among the hidden.
        self.visible: dict[int, Result] = {}
        self.hidden: list[Result] = []
        # Operands whose cotangents are wanted; None for a JVP.
        self.wrt: frozenset[int] | None = None

    def jvp(self) -> DerivedOperation:
        op = self.op
        for k in self.given:
            operand = op.operands[k]
            self.operands.append(Operand(f"t_{operand.name}", operand.type, op.like(k)))
        params = [p for k in self.given if (p := op.param_of_operand(k)) is not None]
        refuse_reads_after_launch(op.func)
        derived = jvp_func(op.func, params, op.single_axes)
        return self.finish(derived, self.bind_tangent, range(op.visible))

    def vjp(self, wrt: tuple[int, ...]) -> DerivedOperation:
        op = self.op
        for prefix, known in (("", self.saved), ("ct_", self.given)):
            for result in (op.results[j] for j in known):
                self.operands.append(Operand(prefix + result.name, result.type, result.shape))
        params = [p for k in wrt if (p := op.param_of_operand(k)) is not None]
        seeds, saved = (list(map(op.param_of_result, at)) for at in (self.given, self.saved))
        self.wrt = frozenset(wrt)
        refuse_reads_after_launch(op.func)
        derived = vjp_func(op.func, params, seeds, op.single_axes, saved)
        return self.finish(derived, self.bind_cotangent, wrt)

    def finish(self, derived: Derived, bind: Bind, order: Sequence[int]) -> DerivedOperation:
        through = [new for old, new in derived.derivative_of.items() if self.passes_through(old)]
        params = derived.func.params
        shown = {params[new] for old, new in derived.derivative_of.items() if self.is_shown(old)}
        func = with_extents_of_derivatives(dce(tidy(derived.func), shown), derived.derivative_of)
        func, kept = drop_unused_params(func, through)
        accesses = AccessMap(func)
        source = {new: old for old, new in derived.derivative_of.items()}
        for param, effect, index in zip(func.params, effects(func), kept, strict=True):
            if index in source:
                zero = zero_fill(accesses, param, effect)
                self.bindings.append(bind(self.op.bindings[source[index]], effect, zero))
            else:
                self.bindings.append(self.bind_primal(self.op.bindings[index], effect))
        produced = tuple(i for i in order if i in self.visible)
        return DerivedOperation(self.operation(func, produced), produced)

    def operation(self, func: Func, produced: Sequence[int]) -> Operation:
        """The Operation of ``func``, whose visible results are those shown for ``produced``."""
        position = {i: n for n, i in enumerate(produced)}
        bindings = tuple(self.place(b, position) for b in self.bindings)
        results = (*(self.visible[i] for i in produced), *self.hidden)
        return Operation(func, tuple(self.operands), results, len(produced), bindings, self.op.grid)

    def is_shown(self, param: int) -> bool:
        """Whether the derivative of ``param`` is a result."""
        bound = self.op.bindings[param]
        if self.wrt is None:
            return bound.role in (Role.OUTPUT, Role.INOUT)
        return bound.operand in self.wrt

    def passes_through(self, param: int) -> bool:
        """Whether elements that the kernel leaves alone have the derivative that was given."""
        bound = self.op.bindings[param]
        if bound.role is not Role.INOUT:
            return False
        return bound.operand in self.given if self.wrt is None else bound.operand in self.wrt

    def place(self, bound: Binding, position: dict[int, int]) -> Binding:
        """``bound`` with its result as an index into the results, visible ones first."""
        if bound.role is Role.SCRATCH:
            return replace(bound, result=len(position) + bound.result)
        return replace(bound, result=position[bound.result]) if bound.result >= 0 else bound

    def show(self, name: str, of: int, type_: ArrayType, shape: Shape) -> int:
        self.visible[of] = Result(name, type_, shape)
        return of

    def hide(self, result: Result, operand: int, zero: ZeroFill) -> Binding:
        self.hidden.append(result)
        return Binding(Role.SCRATCH, operand, len(self.hidden) - 1, zero)

    def bind_primal(self, bound: Binding, effect: Effect) -> Binding:
        if bound.role in (Role.INPUT, Role.VALUE):
            return bound
        if bound.result in self.saved:
            return Binding(Role.INPUT, self.saved[bound.result])
        if bound.operand >= 0 and not effect.writes:
            return Binding(Role.INPUT, bound.operand)
        return self.hide(self.op.results[bound.result], bound.operand, bound.zero)

    def bind_tangent(self, bound: Binding, effect: Effect, zero: ZeroFill) -> Binding:
        tangent = self.given.get(bound.operand, -1) if bound.operand >= 0 else -1
        if bound.role in (Role.INPUT, Role.VALUE):
            return Binding(bound.role, tangent)
        result = self.op.results[bound.result]
        if bound.role is Role.SCRATCH:
            return self.hide(result, tangent, ZeroFill.NEVER if tangent >= 0 else ZeroFill.ALWAYS)
        shown = self.show(f"t_{result.name}", bound.result, result.type, result.shape)
        if tangent >= 0:
            return Binding(Role.INOUT, tangent, shown)
        return Binding(Role.OUTPUT, -1, shown, zero if bound.operand < 0 else ZeroFill.ALWAYS)

    def bind_cotangent(self, bound: Binding, effect: Effect, zero: ZeroFill) -> Binding:
        cotangent = -1
        if bound.role in (Role.OUTPUT, Role.INOUT):
            cotangent = self.given.get(bound.result, -1)
        if self.wrt is not None and bound.operand in self.wrt:
            return self.bind_wanted(bound, cotangent)
        result = self.op.results[bound.result]
        if cotangent < 0:
            return self.hide(result, -1, ZeroFill.ALWAYS)
        if effect.writes:
            return self.hide(result, cotangent, ZeroFill.NEVER)
        return Binding(Role.INPUT, cotangent)

    def bind_wanted(self, bound: Binding, cotangent: int) -> Binding:
        operand = self.op.operands[bound.operand]
        shape = self.op.like(bound.operand)
        shown = self.show(f"ct_{operand.name}", bound.operand, as_array(operand.type), shape)
        if cotangent >= 0:
            return Binding(Role.INOUT, cotangent, shown)
        return Binding(Role.OUTPUT, -1, shown, ZeroFill.ALWAYS)


def _batch(op: Operation, batched: tuple[bool, ...]) -> Operation:
    if not all(batched[k] for k in op.owners()):
        raise ValueError("operands that the kernel writes must be batched")
    # An operand without a declared shape cannot be omitted later, so its extent is there to stay.
    marked = [k for k, is_batched in enumerate(batched) if is_batched]
    size = Extent.of(min(marked, key=lambda k: op.operands[k].shape is not None), 0)

    def moved(shape: Shape) -> Shape:
        return tuple(
            e._replace(axis=e.axis + 1) if e.operand >= 0 and batched[e.operand] else e
            for e in shape
        )

    def operand(index: int, given: Operand, is_batched: bool) -> Operand:
        shape = moved(given.shape) if given.shape is not None else None
        if not is_batched:
            return replace(given, shape=shape)
        alone = as_array(given.type)
        if shape is not None:
            shape = (size, *shape) if size.operand != index else None
        return Operand(given.name, replace(alone, ndim=alone.ndim + 1), shape)

    def binding(bound: Binding) -> Binding:
        if bound.role is Role.VALUE and batched[bound.operand]:
            return Binding(Role.INPUT, bound.operand)
        return bound

    results = tuple(
        Result(r.name, replace(r.type, ndim=r.type.ndim + 1), (size, *moved(r.shape)))
        for r in op.results
    )
    marks = [b.operand < 0 or batched[b.operand] for b in op.bindings]
    # Instances are then neighbours of one row, which gangs run.
    is_point = op.func.grid_rank == 0 and set(op.grid) == {Extent.literal(1)}
    func = with_checks(batch_func(op.func, marks, is_point=is_point))
    return Operation(
        func,
        tuple(operand(i, o, batched[i]) for i, o in enumerate(op.operands)),
        results,
        op.visible,
        tuple(binding(b) for b in op.bindings),
        (size,) if is_point else (size, *moved(op.grid)),
        covered=tuple(
            GridIndexedAxis(c.parameter, c.axis + marks[c.parameter], c.grid_axis + 1)
            for c in op.covered
        ),
    )
