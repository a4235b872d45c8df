"""Elements that a loop reads and writes in every iteration, carried from one to the next instead.

    for k in range(n):                          total = c[i, j]
        c[i, j] += a[i, k] * b[k, j]    as      for k in range(n):
                                                    total += a[i, k] * b[k, j]
                                                c[i, j] = total

Sums are then known as such: loops are vectorised, and rows of the grid run together. ``c`` must
share no memory with ``a`` and ``b``, and the loop must have an iteration, or the element may not be
there. Launches for which that does not hold run the kernel as written. Nothing is reordered, so no
bit depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.builtins.arithmetic import add
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ACCESSES, LOAD, STORE, WRITES, AddForm, OpKind
from kernelcore.ir.walk import (
    array_type,
    element_indices,
    eqns_inside,
    first_array_at_address,
    replace_body,
    rewrite,
    walk_eqns,
)
from kernelcore.passes.access.accumulation_plan import are_known, form_of, launch_values
from kernelcore.passes.access.effects import AccessMap

# Loads and stores of smaller elements convert them, which a carried value would skip.
_LEAST_BITS = 32
# A loop that carries so many takes three times as long to compile (docs/decisions/295).
MOST_ELEMENTS = 64
# What may end the kernel between a load and a store, or see memory, or write to it.
_OBSERVERS = frozenset({OpKind.ASSERT, OpKind.PRINT, OpKind.SNIPPET})

# An element: its array and indices.
_Element = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class CarriedElements:
    """A kernel whose loops carry elements.

    Attributes:
        func: The kernel with loops that carry elements.
        arrays: The arrays of these elements.
        apart: Pairs of arrays, one with carried elements: if two share memory, launches run the
            kernel as written.
        bounds: Start, stop and step of each such loop: if one has no iteration, likewise.
    """

    func: Func
    arrays: tuple[Var, ...]
    apart: tuple[tuple[Var, Var], ...]
    bounds: tuple[tuple[Atom, ...], ...]


def carry_elements(func: Func) -> CarriedElements | None:
    """``func``, which has a plan, with elements that loops carry; None if there are none."""
    loops = [e for e in walk_eqns(func.body) if e.op.kind is OpKind.FOR]
    if not any(e.op.kind in WRITES for loop in loops for e in eqns_inside(loop)):
        return None
    adds = [e for e in walk_eqns(func.body) if e.op.kind is OpKind.ATOMIC_ADD]
    # Strategies decide the order of other sums.
    if first_array_at_address(func) or any(form_of(e) is not AddForm.OWNED for e in adds):
        return None
    found = _Carrying(func)
    body = found.region(func.body)
    if not found.bounds:
        return None
    parts = tuple(found.arrays), tuple(found.apart), tuple(found.bounds)
    return CarriedElements(replace_body(func, body), *parts)


class _Carrying:
    """The loops of a kernel that carry elements of arrays that belong to one thread each."""

    def __init__(self, func: Func) -> None:
        accesses = AccessMap(func)
        self._params, self._known = func.params, launch_values(func)
        self._owned = {v for v in func.params if v in accesses.by_array and accesses.owned(v)}
        self.arrays: dict[Var, None] = {}
        self.apart: dict[tuple[Var, Var], None] = {}
        self.bounds: dict[tuple[Atom, ...], None] = {}

    def region(self, region: Region) -> Region:
        """``region``, innermost loops first."""
        eqns: list[Eqn] = []
        for eqn in region.eqns:
            inner = tuple(self.region(part) for part in eqn.regions)
            eqns += self._loop(replace(eqn, regions=inner) if inner else eqn)
        return replace(region, eqns=tuple(eqns))

    def _loop(self, loop: Eqn) -> Sequence[Eqn]:
        if loop.op.kind is not OpKind.FOR:
            return (loop,)
        bounds, elements = loop.inputs[:3], list(self._elements(loop))
        if not are_known(bounds, self._known) or not 0 < len(elements) <= MOST_ELEMENTS:
            return (loop,)
        self.bounds[bounds] = None
        carried = {array for array, *_ in elements}
        accessed = {e.inputs[0] for e in eqns_inside(loop) if e.op.kind in ACCESSES}
        # In the order of parameters, so that no pair is found in two orders.
        arrays = [param for param in self._params if param in accessed]
        pairs = combinations(arrays, 2)
        self.arrays |= {array: None for array in arrays if array in carried}
        self.apart |= {pair: None for pair in pairs if not carried.isdisjoint(pair)}
        return _carrying(loop, elements)

    def _elements(self, loop: Eqn) -> Iterator[_Element]:
        """The elements that ``loop`` may carry."""
        (body,) = loop.regions
        eqns = list(eqns_inside(loop))
        if any(e.op.kind in _OBSERVERS for e in eqns):
            return
        inside = {*body.params, *(out for e in eqns for out in e.outputs)}
        own = set(body.eqns)
        for array in dict.fromkeys(e.inputs[0] for e in eqns if e.op.kind in ACCESSES & WRITES):
            users = [e for e in eqns if e.op.kind in ACCESSES and e.inputs[0] is array]
            if array not in self._owned or not all(e in own and _can_carry(e) for e in users):
                continue
            found = {element_indices(e): e for e in users}
            if not all(inside.isdisjoint(indices) for indices in found):
                continue
            if all(_differ(*pair) for pair in combinations(found.values(), 2)):
                written = {_element(e) for e in users if e.op.kind in WRITES}
                read = [_element(e) for e in users if e.op.kind is not OpKind.STORE]
                yield from dict.fromkeys(element for element in read if element in written)


def _can_carry(eqn: Eqn) -> bool:
    if array_type(eqn).dtype.bits < _LEAST_BITS:
        return False
    if eqn.op.kind is OpKind.ATOMIC_ADD:
        return form_of(eqn) is AddForm.OWNED
    return eqn.op.kind in (OpKind.LOAD, OpKind.STORE)


def _differ(one: Eqn, other: Eqn) -> bool:
    """Whether two accesses of an array name different components of elements by constants."""
    outer = array_type(one).outer_ndim
    pairs = zip(element_indices(one)[outer:], element_indices(other)[outer:], strict=True)
    return any(
        isinstance(a, Const) and isinstance(b, Const) and a.value != b.value for a, b in pairs
    )


def _carrying(loop: Eqn, elements: Sequence[_Element]) -> list[Eqn]:
    """``loop`` with ``elements`` carried, between their loads and stores."""
    (body,) = loop.regions
    access = {_element(e): e for e in body.eqns if e.op.kind in ACCESSES}
    users = [access[element] for element in elements]
    first, carried, last = ([Var(array_type(e).dtype) for e in users] for _ in range(3))
    now: dict[_Element, Atom] = dict(zip(elements, carried, strict=True))

    def change(eqn: Eqn) -> Eqn | Region:
        element = _element(eqn) if eqn.op.kind in ACCESSES else ()
        if element not in now:
            return eqn
        before, made = now[element], list[Eqn]()
        if eqn.op.kind is OpKind.STORE:
            now[element] = eqn.inputs[-1]
        elif eqn.op.kind is OpKind.ATOMIC_ADD:
            now[element] = total = Var(array_type(eqn).dtype)
            made.append(Eqn(add.op, (before, eqn.inputs[-1]), (total,), loc=eqn.loc))
        return Region((), tuple(made), (before,) * len(eqn.outputs))

    inside = rewrite(body, change)
    params, yields = (*body.params, *carried), (*inside.yields, *now.values())
    inside = replace(inside, params=params, yields=yields)
    made = replace(
        loop,
        inputs=(*loop.inputs, *first),
        outputs=(*loop.outputs, *last),
        regions=(inside,),
    )
    places = list(zip(elements, users, strict=True))
    loads = [Eqn(LOAD, e, (v,), loc=u.loc) for (e, u), v in zip(places, first, strict=True)]
    stores = [Eqn(STORE, (*e, v), (), loc=u.loc) for (e, u), v in zip(places, last, strict=True)]
    return [*loads, made, *stores]


def _element(eqn: Eqn) -> _Element:
    return (eqn.inputs[0], *element_indices(eqn))
