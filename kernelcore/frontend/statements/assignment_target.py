"""Places: what the targets of assignments name, a part of a variable or of an array element."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from kernelcore.base.errors import KernelSyntaxError, KernelTypeError
from kernelcore.frontend.expressions.expression import lower_entries
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.statements.side_effects import has_effects
from kernelcore.frontend.values import component
from kernelcore.frontend.values.array_view import Bounds, Slot, choose_slots, select, slots
from kernelcore.frontend.values.conversion import converted
from kernelcore.frontend.values.literal_types import Weak
from kernelcore.frontend.values.selection import (
    Step,
    array_index,
    field_step,
    index_step,
    part,
    replaced,
)
from kernelcore.frontend.values.value import (
    ArrayView,
    Compound,
    Value,
    build,
    describe_type,
    flatten,
)
from kernelcore.ir.core import Atom
from kernelcore.ir.op import LOAD, STORE
from kernelcore.language.types import ArrayOf, Dense, Element, StructType


@dataclass(frozen=True, slots=True)
class ElementPlace:
    """A part of an array element: its type, and where its scalars lie."""

    view: ArrayView
    type: Element
    slots: tuple[Slot, ...]

    def load(self, scope: Scope) -> Value:
        """The value that it has."""
        return build(self.type, iter([scope.builder.emit(LOAD, *s.operands) for s in self.slots]))

    def store(self, scope: Scope, value: Value, source: ast.expr, node: ast.AST) -> None:
        """Give it ``value``, which ``source`` was lowered to."""
        _, leaves = flatten(converted(scope, value, self.type, scope.loc(source)))
        scope.at(node)
        for slot, leaf in zip(self.slots, leaves, strict=True):
            assert not isinstance(leaf, Weak)
            scope.builder.emit_effect(STORE, *slot.operands, leaf)


@dataclass(frozen=True, slots=True)
class VariablePlace:
    """A part of a composite variable, and the steps that lead to it."""

    name: str
    type: Element
    path: tuple[Step, ...] = ()

    def whole(self, scope: Scope) -> Compound:
        """The value of the variable."""
        found = scope.get(self.name)
        assert isinstance(found, Compound)
        return found

    def load(self, scope: Scope) -> Value:
        """The value that it has."""
        value: Value = self.whole(scope)
        for step in self.path:
            assert isinstance(value, Compound)
            value = part(scope, value, step)
        return value

    def store(self, scope: Scope, value: Value, source: ast.expr, node: ast.AST) -> None:
        """Give it ``value``, which ``source`` was lowered to."""
        new = converted(scope, value, self.type, scope.loc(source))
        scope.at(node)
        scope.set(self.name, replaced(scope, self.whole(scope), self.path, new))


Place = ElementPlace | VariablePlace


def place_of(scope: Scope, node: ast.Subscript | ast.Attribute) -> Place:
    """What an assignment target names.

    Raises:
        KernelTypeError: It is no part of a variable, and no array element.
        KernelSyntaxError: It cannot be assigned.
    """
    found = _owner(scope, node)
    if isinstance(found, ArrayView):
        raise KernelTypeError(
            f"'{ast.unparse(node)}' is {describe_type(found)}: it is assigned as a whole",
            scope.loc(node),
            "assign to its elements one by one: index every dimension",
        )
    return found


def updated_place(scope: Scope, target: ast.Attribute | ast.Subscript) -> Place:
    """The place ``target``, which has been evaluated as an argument, for its new value.

    Raises:
        KernelSyntaxError: Its indices would have effects twice.
    """
    start, before = len(scope.builder.eqns), dict(scope.env)
    place = place_of(scope, target)
    if has_effects(scope.builder.eqns[start:]) or scope.env != before:
        raise KernelSyntaxError(
            f"the index in '{ast.unparse(target)}' has effects, and the element is updated",
            scope.loc(target),
            "assign the index to a variable first",
        )
    return place


def _owner(scope: Scope, node: ast.expr) -> ArrayView | Place:
    """What ``node``, a target or what it is a part of, names."""
    loc = scope.loc(node)
    match node:
        case ast.Name():
            value = scope.lookup(node)
            if isinstance(value, ArrayView):
                return value
            if isinstance(value, Compound) and node.id in scope.env:
                scope.check_own(node.id, loc)
                return VariablePlace(node.id, value.type)
            raise KernelTypeError(
                f"'{node.id}' has no parts to assign: it is {describe_type(value)}",
                loc,
                "parts of variables of the kernel, and array elements, can be assigned",
            )
        case ast.Attribute() | ast.Subscript():
            return _part(scope, _owner(scope, node.value), node)
        case _:
            raise KernelSyntaxError(
                f"cannot assign to a part of '{ast.unparse(node)}'",
                loc,
                "assign to a variable first",
            )


def _part(
    scope: Scope, owner: ArrayView | Place, node: ast.Attribute | ast.Subscript
) -> ArrayView | Place:
    loc = scope.loc(node)
    if isinstance(owner, ArrayView):
        if isinstance(node, ast.Attribute):
            raise KernelTypeError(
                f"cannot assign to '.{node.attr}' of {describe_type(owner)}",
                loc,
                "assign to an element, a[i] = ...",
            )
        return _element(scope, owner, node)
    type_ = owner.type
    if not isinstance(type_, Dense | StructType):
        raise KernelTypeError(
            f"'{ast.unparse(node.value)}' has no parts: it is {type_}",
            loc,
            "assign to it as a whole",
        )
    if isinstance(node, ast.Attribute):
        step = field_step(type_, node, loc)
    else:
        step = index_step(scope, type_, lower_entries(scope, node.slice), loc)
    if isinstance(owner, ElementPlace):
        return _inner(scope, owner, type_, step)
    path = (*owner.path, step)
    if isinstance(step.type, ArrayOf):
        found = VariablePlace(owner.name, type_, path).load(scope)
        assert isinstance(found, ArrayView)
        return found
    return VariablePlace(owner.name, step.type, path)


def _element(scope: Scope, view: ArrayView, node: ast.Subscript) -> ArrayView | ElementPlace:
    loc = scope.loc(node)
    entries = lower_entries(scope, node.slice)
    indices = [array_index(scope, e) for e in entries]
    plain = [i for i in indices if not isinstance(i, Bounds)]
    if len(plain) == len(indices) == len(view.free):
        scope.at(node)
        return ElementPlace(view, view.element, tuple(slots(scope, view, plain)))
    found = select(scope, view, indices, loc)
    assert isinstance(found, ArrayView)
    return found


def _inner(
    scope: Scope, owner: ElementPlace, type_: Dense | StructType, step: Step
) -> ElementPlace:
    """The part of an element that ``step`` leads to."""
    assert not isinstance(step.type, ArrayOf)
    if isinstance(type_, StructType):
        start = 0
        for name, member in type_.fields:
            assert not isinstance(member, ArrayOf)
            count = _leaf_count(member)
            if name == step.key:
                return replace(owner, type=step.type, slots=owner.slots[start : start + count])
            start += count
    assert isinstance(type_, Dense)
    assert not isinstance(step.key, str)

    def choose(at: Atom, options: list[list[Slot]]) -> list[Slot]:
        return choose_slots(scope, at, options)

    _, places = component.take(type_.extents, owner.slots, step.key, choose)
    return replace(owner, type=step.type, slots=tuple(places))


def _leaf_count(type_: Element) -> int:
    match type_:
        case Dense():
            return type_.size
        case StructType(fields=fields):
            return sum(_leaf_count(m) for _, m in fields if not isinstance(m, ArrayOf))
        case _:
            return 1
