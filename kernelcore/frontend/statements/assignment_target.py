"""Assignment targets: a part of a variable or of an array element."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.base.errors import KernelSyntaxError, KernelTypeError
from kernelcore.frontend.expressions.expression import lower_entries
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.statements.side_effects import has_effects
from kernelcore.frontend.values import component
from kernelcore.frontend.values.array_view import (
    ArraySlice,
    ElementSlot,
    Slot,
    at_slots,
    choose_slots,
    load_slots,
    require_layout,
    select,
    slots,
)
from kernelcore.frontend.values.conversion import converted, converted_atoms
from kernelcore.frontend.values.packed_array import described_array, element_value
from kernelcore.frontend.values.selection import (
    Selection,
    array_index,
    part,
    replaced,
    select_components,
    select_field,
)
from kernelcore.frontend.values.value import (
    ArrayValue,
    ArrayView,
    CompositeValue,
    Value,
    describe_type,
)
from kernelcore.ir.core import Var
from kernelcore.ir.op import STORE
from kernelcore.language.flatten import scalars_of
from kernelcore.language.types import ArrayOf, Dense, Element, StructType, stored


@dataclass(frozen=True, slots=True)
class ElementTarget:
    """A part of an array element: its type, and where its scalars lie."""

    view: ArrayValue
    type: Element
    slots: tuple[Slot, ...]

    def load(self, scope: Scope) -> Value:
        """The current value."""
        return element_value(self.type, load_slots(scope, self.slots))

    def store(self, scope: Scope, value: Value, source: ast.expr, node: ast.AST) -> None:
        """Give it ``value``, which ``source`` was lowered to."""
        require_layout(self.type, scope.loc(node))
        atoms = converted_atoms(scope, value, self.type, scope.loc(source))
        scope.at(node)

        def emit(row: Sequence[ElementSlot]) -> Sequence[Var]:
            for slot, atom in zip(row, atoms, strict=True):
                scope.builder.emit_effect(STORE, *slot.operands, atom)
            return ()

        at_slots(scope, self.slots, emit)


@dataclass(frozen=True, slots=True)
class VariableTarget:
    """A part of a composite variable, and the selections that lead to it."""

    name: str
    type: Element | ArrayOf
    path: tuple[Selection, ...] = ()

    def whole(self, scope: Scope) -> CompositeValue:
        """The value of the variable."""
        found = scope.get(self.name)
        assert isinstance(found, CompositeValue)
        return found

    def load(self, scope: Scope) -> Value:
        """The current value."""
        value: Value = self.whole(scope)
        for selection in self.path:
            assert isinstance(value, CompositeValue)
            value = part(scope, value, selection)
        return value

    def store(self, scope: Scope, value: Value, source: ast.expr, node: ast.AST) -> None:
        """Give it ``value``, which ``source`` was lowered to."""
        new = converted(scope, value, self.type, scope.loc(source))
        scope.at(node)
        scope.set(self.name, replaced(scope, self.whole(scope), self.path, new))


AssignmentTarget = ElementTarget | VariableTarget


def find_target(scope: Scope, node: ast.Subscript | ast.Attribute) -> AssignmentTarget:
    """The variable or element that an assignment target names.

    Raises:
        KernelTypeError: It is no part of a variable, and no array element.
        KernelSyntaxError: It cannot be assigned.
    """
    found = _array_field(scope, node) or _owner(scope, node)
    if isinstance(found, ArrayValue):
        raise KernelTypeError(
            f"'{ast.unparse(node)}' is {describe_type(found)}: it is assigned as a whole",
            scope.loc(node),
            "assign to its elements one by one: index every dimension",
        )
    return found


def updated_target(scope: Scope, target: ast.Attribute | ast.Subscript) -> AssignmentTarget:
    """The part that ``target``, already evaluated as an argument, names, for its new value.

    Raises:
        KernelSyntaxError: Its indices would have effects twice.
    """
    start, before = len(scope.builder.eqns), dict(scope.env)
    found = find_target(scope, target)
    if has_effects(scope.builder.eqns[start:]) or scope.env != before:
        raise KernelSyntaxError(
            f"the index in '{ast.unparse(target)}' has effects, and the element is updated",
            scope.loc(target),
            "assign the index to a variable first",
        )
    return found


def _array_field(scope: Scope, node: ast.Subscript | ast.Attribute) -> VariableTarget | None:
    """The field of a struct variable that ``node`` names, if arrays are assigned to it."""
    root = node.value
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(node, ast.Attribute) or not isinstance(root, ast.Name):
        return None
    if not isinstance(scope.get(root.id), CompositeValue):
        return None
    owner = _owner(scope, node.value)
    if not isinstance(owner, VariableTarget) or not isinstance(owner.type, StructType):
        return None
    selection = select_field(owner.type, node, scope.loc(node))
    if not isinstance(selection.type, ArrayOf):
        return None
    return VariableTarget(owner.name, selection.type, (*owner.path, selection))


def _owner(scope: Scope, node: ast.expr) -> ArrayValue | AssignmentTarget:
    """The array, variable or element that ``node``, a target or its owner, names."""
    loc = scope.loc(node)
    match node:
        case ast.Name():
            value = scope.lookup(node)
            if isinstance(value, ArrayValue):
                return value
            if isinstance(value, CompositeValue) and node.id in scope.env:
                scope.check_own(node.id, loc)
                return VariableTarget(node.id, value.type)
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
    scope: Scope, owner: ArrayValue | AssignmentTarget, node: ast.Attribute | ast.Subscript
) -> ArrayValue | AssignmentTarget:
    loc = scope.loc(node)
    if isinstance(owner, ArrayValue):
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
        selection = select_field(type_, node, loc)
    else:
        selection = select_components(scope, type_, lower_entries(scope, node.slice), loc)
    if isinstance(owner, ElementTarget):
        return _inner(scope, owner, type_, selection)
    path = (*owner.path, selection)
    if isinstance(selection.type, ArrayOf):
        found = VariableTarget(owner.name, type_, path).load(scope)
        if isinstance(found, ArrayValue):
            return found
        raise KernelTypeError(
            f"'{ast.unparse(node)}' is {describe_type(found)}", loc, "assign an array to it first"
        )
    return VariableTarget(owner.name, selection.type, path)


def _element(scope: Scope, view: ArrayValue, node: ast.Subscript) -> ArrayValue | ElementTarget:
    loc = scope.loc(node)
    entries = lower_entries(scope, node.slice)
    indices = [array_index(scope, e) for e in entries]
    plain = [i for i in indices if not isinstance(i, ArraySlice)]
    if len(plain) == len(indices) == len(view.free):
        scope.at(node)
        return ElementTarget(view, view.element, tuple(slots(scope, view, plain)))
    found = select(scope, view, indices, loc)
    assert isinstance(found, ArrayValue)
    return found


def _inner(
    scope: Scope, owner: ElementTarget, type_: Dense | StructType, selection: Selection
) -> ArrayView | ElementTarget:
    """The part of an element that ``selection`` leads to."""
    if isinstance(type_, StructType):
        start = 0
        for name, member in stored(type_).fields:
            count = len(scalars_of(member))
            slots = owner.slots[start : start + count]
            if name == selection.key and isinstance(selection.type, ArrayOf):
                return described_array(selection.type, load_slots(scope, slots))
            if name == selection.key:
                return replace(owner, type=selection.type, slots=slots)
            start += count
    assert isinstance(type_, Dense)
    assert not isinstance(selection.key, str)
    assert not isinstance(selection.type, ArrayOf)
    choose = partial(choose_slots, scope)
    _, chosen = component.take(type_.extents, owner.slots, selection.key, choose)
    return replace(owner, type=selection.type, slots=tuple(chosen))
