"""The packs that a kernel can have: equations of one form, by what their operands are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelcore.codegen.analysis.packs import (
    Lanes,
    element,
    element_bytes,
    operands,
    parts,
    row,
    values,
)
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import LEADING

# The smallest register that a pack fills.
LEAST_BYTES = 16


class Forms:
    """The form of every value: what computes it of what, whichever components these are.

    Attributes:
        number: A number per form.
        height: How many equations deep a value is.
        place: Which of the values of its form a value is.
    """

    def __init__(self, func: Func) -> None:
        self.number: dict[Var, int] = {}
        self.height: dict[Var, int] = {}
        self.place: dict[Var, int] = {}
        self._known: dict[object, int] = {}
        self._stacks: dict[Atom, int] = {}
        for at, param in enumerate(func.params):
            self._leaf(param, ("parameter", param.type), at)
        self._region(func.body)

    def of(self, atom: Atom) -> int:
        """The form of ``atom``; literals of a type have one."""
        if isinstance(atom, Const):
            return self._intern(("literal", atom.type))
        return self.number[atom]

    def height_of(self, eqn: Eqn) -> int:
        """How many equations deep what ``eqn`` computes is."""
        return 1 + max((self.height[a] for a in eqn.inputs if isinstance(a, Var)), default=0)

    def _intern(self, form: object) -> int:
        return self._known.setdefault(form, len(self._known))

    def _leaf(self, var: Var, form: object, place: int = 0) -> None:
        self.number[var] = self._intern(form)
        self.height[var], self.place[var] = 0, place

    def _region(self, region: Region) -> None:
        for eqn in region.eqns:
            self._eqn(eqn)

    def _eqn(self, eqn: Eqn) -> None:
        match eqn.op.kind:
            case OpKind.PURE:
                operands = tuple(map(self.of, eqn.inputs))
                self.number[eqn.out] = self._intern((eqn.op, eqn.loc, eqn.out.type, operands))
                self.height[eqn.out] = self.height_of(eqn)
            case OpKind.LOAD if isinstance(eqn.inputs[-1], Const):
                self._leaf(eqn.out, (OpKind.LOAD, eqn.inputs[:-1]), element(eqn))
            case OpKind.STACK:
                self._stacks[eqn.out] = len(self._stacks)
                self._leaf(eqn.out, OpKind.STACK)
            case OpKind.POP:
                self._leaf(eqn.out, (OpKind.POP, eqn.out.type), self._stacks[eqn.inputs[0]])
            case OpKind.FOR | OpKind.WHILE | OpKind.IF:
                self._control(eqn)
            case kind:
                for out in eqn.outputs:
                    self._leaf(out, (kind, eqn.loc, out.type))

    def _control(self, eqn: Eqn) -> None:
        skipped, leading = LEADING[eqn.op.kind]
        init = eqn.inputs[skipped:]
        for region in eqn.regions:
            for param in region.params[:leading]:
                self._leaf(param, ("index", param.type))
            for at, (param, given) in enumerate(zip(region.params[leading:], init, strict=False)):
                self._leaf(param, (eqn.op.kind, self.of(given)), at)
            self._region(region)
        for at, out in enumerate(eqn.outputs):
            self._leaf(out, (eqn.op.kind, eqn.loc, out.type), at)


def candidates(region: Region, forms: Forms, register_bytes: int) -> Iterator[Lanes]:
    """Equations of ``region`` of one form, as many as registers hold."""
    part, alike = parts(region), dict[object, list[Eqn]]()
    for eqn in region.eqns:
        if element_bytes(eqn):
            form = tuple(forms.of(a) for a in values(eqn))
            is_pure = eqn.op.kind is OpKind.PURE
            place = forms.of(eqn.out) if is_pure else (part[eqn], row(eqn))
            alike.setdefault((eqn.op.kind, form, place), []).append(eqn)
    groups = [group for group in alike.values() if len(group) > 1]
    for group in sorted(groups, key=lambda g: forms.height_of(g[0])):
        size_bytes = element_bytes(group[0])
        least, most = LEAST_BYTES // size_bytes, 2 * register_bytes // size_bytes
        for run in [_ordered(group, forms)] if group[0].op.kind is OpKind.PURE else _runs(group):
            forms.place.update((eqn.out, at) for at, eqn in enumerate(run))
            yield from _cut(run, least, most)


def _runs(group: Sequence[Eqn]) -> Iterator[list[Eqn]]:
    """The accesses of ``group`` to elements one behind the other, each to one of its own."""
    by_element = {element(eqn): eqn for eqn in group}
    if len(by_element) < len(group):
        return
    run: list[Eqn] = []
    for at in sorted(by_element):
        if run and at != element(run[-1]) + 1:
            yield run
            run = []
        run.append(by_element[at])
    yield run


def _ordered(group: Sequence[Eqn], forms: Forms) -> list[Eqn]:
    """``group`` in the order of the first operand that differs in all of it, else as it is."""
    for operand in operands(group):
        places = [forms.place.get(a) if isinstance(a, Var) else None for a in operand]
        if None not in places and len(set(places)) == len(group):
            place = dict(zip(group, places, strict=True))
            return sorted(group, key=lambda eqn: place[eqn] or 0)
    return list(group)


def _cut(group: Sequence[Eqn], least: int, most: int) -> Iterator[Lanes]:
    """Parts of ``group`` of a power of two, the largest first."""
    at, least = 0, max(least, 2)
    while len(group) - at >= least:
        size = min(most, 1 << (len(group) - at).bit_length() - 1)
        yield tuple(group[at : at + size])
        at += size
