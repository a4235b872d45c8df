"""Which axes of a launch can be cut into parts that run apart, and what each part needs.

A part runs the points ``[start, start + n)`` of one launch axis. Of an array that every access
indexes near the launch index, along one array axis, a part needs those elements and a border.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernelcore.builtins import arithmetic
from kernelcore.builtins.logic import where
from kernelcore.ir.core import Atom, Const, Eqn, Func, Var
from kernelcore.ir.op import ACCESSES, OpKind
from kernelcore.ir.snippet import array_uses
from kernelcore.ir.walk import array_type, element_indices, used_atoms, walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.effects import effects
from kernelcore.passes.access.index_offsets import MAX_OFFSET, definitions


@dataclass(frozen=True, slots=True)
class Window:
    """The elements of an array that a part of a launch axis accesses.

    Attributes:
        axis: The array axis that the launch axis indexes.
        below: How many elements in front of its own.
        above: How many behind its own.
        wraps: Whether the array continues at its other end.
    """

    axis: int
    below: int = 0
    above: int = 0
    wraps: bool = False

    @property
    def is_own(self) -> bool:
        return not self.below and not self.above


@dataclass(frozen=True, slots=True)
class Parts:
    """How a launch axis can be cut; parameters that are named nowhere are needed whole.

    Attributes:
        windows: Parameters of which a part accesses a window. Their extent is that of the launch.
        sums: Parameters to which every part adds; the parts' sums have to be added up.
        added: Those of ``windows`` to whose borders a part adds; their owners have to add that.
    """

    windows: Mapping[int, Window]
    sums: frozenset[int]
    added: frozenset[int]


@dataclass(frozen=True, slots=True)
class Near:
    """An index that is ``low`` to ``high`` away from the launch index ``axis``.

    ``shift`` is how far exactly, if the distance is fixed. With ``wraps`` it counts modulo the
    extent of the array.
    """

    axis: int
    low: int
    high: int
    shift: int | None
    wraps: bool = False


class Indices:
    """What is known of the indices of ``func``, whose arrays are as large as the launch."""

    def __init__(self, func: Func) -> None:
        self.defined = definitions(func)
        self._known: dict[Var, Near | None] = {}

    def near(self, index: Atom) -> Near | None:
        """How far ``index`` is from a launch index; None if that has no bound."""
        if not isinstance(index, Var) or index not in self.defined:
            return None
        if index not in self._known:
            self._known[index] = self._find(index, self.defined[index])
        return self._known[index]

    def _find(self, index: Var, eqn: Eqn) -> Near | None:
        op, inputs = eqn.op, eqn.inputs
        if op.kind is OpKind.TID:
            return Near(eqn.attrs["axis"], 0, 0, 0)
        if op.kind is OpKind.CAST:
            of = inputs[0].type
            is_integer = getattr(of, "is_integer", False) and getattr(
                index.type, "is_integer", False
            )
            return self.near(inputs[0]) if is_integer else None
        if op.kind is OpKind.IF:
            place = eqn.outputs.index(index)
            return _either(*(self.near(r.yields[place]) for r in eqn.regions))
        if op is where.op:
            return _either(self.near(inputs[1]), self.near(inputs[2]))
        if op is arithmetic.add.op or op is arithmetic.sub.op:
            return self._moved(op is arithmetic.add.op, *inputs)
        if op is arithmetic.mod.op and self._extent(inputs[1]) == (1, 0):
            return self._wrapped(inputs[0])
        if op is arithmetic.max.op or op is arithmetic.min.op:
            return self._clamped(op is arithmetic.max.op, *inputs)
        return None

    def _moved(self, is_sum: bool, first: Atom, second: Atom) -> Near | None:
        if is_sum and isinstance(first, Const):
            first, second = second, first
        near = self.near(first)
        if near is None or near.wraps or not isinstance(second, Const):
            return None
        by = int(second.value) if is_sum else -int(second.value)
        if abs(by) > MAX_OFFSET:
            return None
        shift = None if near.shift is None else near.shift + by
        return Near(near.axis, near.low + by, near.high + by, shift)

    def _clamped(self, is_max: bool, first: Atom, second: Atom) -> Near | None:
        for one, bound in ((first, second), (second, first)):
            near = self.near(one)
            if near is None or near.wraps:
                continue
            # The launch index is at least 0 and at most the extent less 1.
            if is_max and isinstance(bound, Const) and bound.value <= 0:
                return Near(near.axis, near.low, max(near.high, 0), None)
            times, more = self._extent(bound)
            if not is_max and times == 1 and more >= -1:
                return Near(near.axis, min(near.low, 0), near.high, None)
        return None

    def _wrapped(self, index: Atom) -> Near | None:
        """``index``, which may be whole extents off, modulo the extent."""
        by, eqn = 0, self.defined.get(index) if isinstance(index, Var) else None
        while eqn is not None and (eqn.op is arithmetic.add.op or eqn.op is arithmetic.sub.op):
            sign = 1 if eqn.op is arithmetic.add.op else -1
            for one, other in ((0, 1), (1, 0)):
                if one == 0 or sign == 1:
                    times, more = self._extent(eqn.inputs[other])
                    if isinstance(eqn.inputs[other], Const) or times:
                        by += sign * more
                        index = eqn.inputs[one]
                        break
            else:
                return None
            eqn = self.defined.get(index) if isinstance(index, Var) else None
        near = self.near(index)
        if near is None or near.wraps or near.shift is None or abs(by) > MAX_OFFSET:
            return None
        shift = near.shift + by
        return Near(near.axis, shift, shift, shift, wraps=True)

    def _extent(self, atom: Atom) -> tuple[int, int]:
        """``(1, n)`` for the extent of an array plus n, ``(0, n)`` for the number n."""
        if isinstance(atom, Const):
            return 0, int(atom.value)
        eqn = self.defined.get(atom)
        if eqn is None:
            return -1, 0
        if eqn.op.kind is OpKind.DIM:
            return 1, 0
        if eqn.op.kind is OpKind.CAST:
            return self._extent(eqn.inputs[0])
        if eqn.op is arithmetic.add.op or eqn.op is arithmetic.sub.op:
            (times, more), (others, by) = map(self._extent, eqn.inputs)
            sign = 1 if eqn.op is arithmetic.add.op else -1
            if (times, others) == (1, 0):
                return 1, more + sign * by
            if (times, others, sign) == (0, 1, 1):
                return 1, more + by
        return -1, 0

    def extents_in(self, index: Atom) -> set[tuple[Atom, int]]:
        """The extents (array, axis) that ``index`` is made with."""
        found: set[tuple[Atom, int]] = set()
        seen: set[Atom] = set()
        work = [index]
        while work:
            atom = work.pop()
            eqn = self.defined.get(atom) if isinstance(atom, Var) else None
            if eqn is None or atom in seen:
                continue
            seen.add(atom)
            if eqn.op.kind is OpKind.DIM:
                found.add((eqn.inputs[0], eqn.attrs["axis"]))
            elif eqn.op.kind is OpKind.IF:
                work.extend(a for r in eqn.regions for a in r.yields)
            else:
                work.extend(eqn.inputs)
        return found


def launch_parts(func: Func) -> Mapping[int, Parts]:
    """The axes of a launch of ``func`` that can be cut, and how."""
    if any(eqn.op.kind is OpKind.PRINT for eqn in walk_eqns(func.body)):
        return {}
    found = ((axis, _parts_of(func, axis)) for axis in range(func.rank))
    return {axis: parts for axis, parts in found if parts is not None}


def _parts_of(func: Func, axis: int) -> Parts | None:
    indices = Indices(func)
    used = {a for eqn in walk_eqns(func.body) for a in used_atoms(eqn)}
    by_array: dict[Atom, list[Eqn]] = {p: [] for p in func.params}
    in_snippets: set[Atom] = set()
    for eqn in walk_eqns(func.body):
        if eqn.op.kind in ACCESSES and eqn.inputs[0] in by_array:
            by_array[eqn.inputs[0]].append(eqn)
        elif eqn.op.kind is OpKind.SNIPPET:
            in_snippets.update(use.array for use in array_uses(eqn))
    windows: dict[int, Window] = {}
    sums: set[int] = set()
    added: set[int] = set()
    for k, (param, effect) in enumerate(zip(func.params, effects(func), strict=True)):
        accesses = by_array[param]
        window = None if param in in_snippets else _window(indices, accesses, axis)
        is_only_added = effect.accumulates and not effect.loads and not effect.stores
        is_only_added &= not any(out in used for eqn in accesses for out in eqn.outputs)
        if window is not None and (window.is_own or not effect.writes or is_only_added):
            windows[k] = window
            if effect.writes and not window.is_own:
                added.add(k)
        elif is_only_added and param not in in_snippets:
            sums.add(k)
        elif effect.writes:
            return None
    # A border may be used by name only where the array itself is cut.
    cut = {(func.params[k], w.axis) for k, w in windows.items()}
    for k, window in windows.items():
        for eqn in by_array[func.params[k]]:
            index = element_indices(eqn)[window.axis]
            near = indices.near(index)
            is_exact = near is not None and near.shift is not None and not near.wraps
            if not is_exact and not indices.extents_in(index) <= cut:
                return None
    return Parts(windows, frozenset(sums), frozenset(added)) if windows else None


def _window(indices: Indices, accesses: list[Eqn], axis: int) -> Window | None:
    """The window that all ``accesses`` of an array stay in; None if there is none."""
    if not accesses:
        return None
    outer = array_type(accesses[0]).outer_ndim
    for k in range(outer):
        near = [indices.near(element_indices(eqn)[k]) for eqn in accesses]
        found = [n for n in near if n is not None and n.axis == axis]
        if len(found) == len(near):
            below, above = max(-n.low for n in found), max(n.high for n in found)
            return Window(k, max(below, 0), max(above, 0), any(n.wraps for n in found))
    return None


def is_array(param: Var) -> bool:
    """Whether ``param`` is an array with axes of its own besides those of components."""
    return isinstance(param.type, ArrayType) and param.type.outer_ndim > 0


def _either(*near: Near | None) -> Near | None:
    known = [n for n in near if n is not None]
    if len(known) < len(near) or len({(n.axis, n.wraps) for n in known}) != 1:
        return None
    if any(n.wraps for n in known):
        return None
    low, high = min(n.low for n in known), max(n.high for n in known)
    shift = low if low == high else None
    return Near(known[0].axis, low, high, shift)
