"""Indices of a kernel beside its launch indices: how far from them, and modulo which extent."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins import arithmetic, logic
from kernelcore.ir.core import Atom, Const, Eqn, Func, Var
from kernelcore.ir.op import Op, OpKind
from kernelcore.ir.walk import keeps_index, walk_eqns
from kernelcore.passes.access.index_offsets import MAX_OFFSET, definitions

ORDERS: Mapping[Op, str] = MappingProxyType(
    {
        logic.less.op: "<",
        logic.less_equal.op: "<=",
        logic.greater.op: ">",
        logic.greater_equal.op: ">=",
        logic.equal.op: "==",
        logic.not_equal.op: "!=",
    }
)
_ARITHMETIC: Mapping[Op, Callable[[int, int], int]] = MappingProxyType(
    {
        arithmetic.add.op: operator.add,
        arithmetic.sub.op: operator.sub,
        arithmetic.mul.op: operator.mul,
    }
)
MIRRORED = MappingProxyType({"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="})
_OPPOSITE = MappingProxyType({"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="})


@dataclass(frozen=True, slots=True)
class Near:
    """An index that is ``low`` to ``high`` away from ``times`` the launch index ``axis``.

    ``shift`` is how far exactly, if the distance is fixed. With ``wraps`` it counts modulo
    ``times`` the extent of the launch; ``unwrapped`` plus ``more`` is the index without that, where
    no shift is.
    """

    axis: int
    low: int
    high: int
    shift: int | None
    wraps: bool = False
    unwrapped: Atom | None = None
    more: int = 0
    times: int = 1


class Indices:
    """What is known of the indices of ``func``.

    ``extents`` has extents (array, axis) as a multiple of the extent of one launch axis and a
    number more, and numbers that are such extents (number, -1). Without it, all extents are that of
    the launch.
    """

    def __init__(
        self, func: Func, extents: Mapping[tuple[Atom, int], tuple[int, int]] | None = None
    ) -> None:
        self.extents = extents
        self.defined = definitions(func)
        self._known: dict[Var, Near | None] = {}
        self._loops = {
            e.regions[0].params[0]: e for e in walk_eqns(func.body) if e.op.kind is OpKind.FOR
        }

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
            return self.near(inputs[0]) if keeps_index(eqn) else None
        if op.kind is OpKind.IF:
            place = eqn.outputs.index(index)
            return self._chosen(inputs[0], *(r.yields[place] for r in eqn.regions))
        if op is logic.where.op:
            return self._chosen(*inputs)
        if op is arithmetic.add.op or op is arithmetic.sub.op:
            return self._moved(op is arithmetic.add.op, *inputs)
        if op is arithmetic.mul.op:
            return self._scaled(*inputs)
        if op is arithmetic.mod.op:
            times, more = self._extent(inputs[1])
            return self._wrapped(inputs[0], times) if times > 0 and more == 0 else None
        if op is arithmetic.max.op or op is arithmetic.min.op:
            return self._clamped(op is arithmetic.max.op, *inputs)
        if op is arithmetic.clamp.op:
            above = self._bounded(True, self.near(inputs[0]), inputs[1])
            return self._bounded(False, above, inputs[2])
        return None

    def _moved(self, is_sum: bool, first: Atom, second: Atom) -> Near | None:
        near, span = self.near(first), self._span(second)
        if is_sum and near is None:
            near, span = self.near(second), self._span(first)
        if near is None or near.wraps or span is None:
            return None
        low, high = span if is_sum else (-span[1], -span[0])
        if max(-low, high) > MAX_OFFSET:
            return None
        shift = near.shift + low if near.shift is not None and low == high else None
        return Near(near.axis, near.low + low, near.high + high, shift, times=near.times)

    def _scaled(self, first: Atom, second: Atom) -> Near | None:
        by, index = (first, second) if isinstance(first, Const) else (second, first)
        near = self.near(index)
        if near is None or near.wraps or not isinstance(by, Const):
            return None
        n = int(by.value)
        if n < 1 or n * max(near.times, -near.low, near.high) > MAX_OFFSET:
            return None
        shift = None if near.shift is None else n * near.shift
        return Near(near.axis, n * near.low, n * near.high, shift, times=n * near.times)

    def _span(self, atom: Atom) -> tuple[int, int] | None:
        """The least and the greatest value of an integer that is known but for constant loops."""
        if isinstance(atom, Const):
            return int(atom.value), int(atom.value)
        if atom in self._loops:
            start, stop, step = map(self._span, self._loops[atom].inputs[:3])
            if start is None or stop is None or step is None or step[0] != step[1] or not step[0]:
                return None
            return (start[0], stop[1] - 1) if step[0] > 0 else (stop[0] + 1, start[1])
        eqn = self.defined.get(atom)
        if eqn is None:
            return None
        if eqn.op.kind is OpKind.CAST and keeps_index(eqn):
            return self._span(eqn.inputs[0])
        for op, compute in _ARITHMETIC.items():
            if eqn.op is op:
                one, other = map(self._span, eqn.inputs)
                if one is not None and other is not None:
                    ends = [compute(a, b) for a in one for b in other]
                    return min(ends), max(ends)
        return None

    def _chosen(self, condition: Atom, first: Atom, second: Atom) -> Near | None:
        """The index that is ``first`` where ``condition`` holds and else ``second``."""
        either = _either(self.near(first), self.near(second))
        if either is not None:
            return either
        one = self._congruent(first, self._only_point(condition, holds=True))
        other = self._congruent(second, self._only_point(condition, holds=False))
        if one is None or one != other:
            return None
        axis, shift = one
        return Near(axis, shift, shift, shift, wraps=True)

    def _congruent(self, index: Atom, point: tuple[int, int] | None) -> tuple[int, int] | None:
        """A launch axis, and how far ``index`` is from its index modulo the extent.

        ``point`` is a launch axis and the only value of its index where ``index`` is used.
        """
        near = self._wrapped(index, 1)
        if near is not None and near.shift is not None:
            return near.axis, near.shift
        times, more = self._extent(index)
        return (point[0], more - point[1]) if point is not None and times >= 0 else None

    def _only_point(self, condition: Atom, *, holds: bool) -> tuple[int, int] | None:
        """A launch axis, and its only index modulo the extent where ``condition`` is so."""
        eqn = self.defined.get(condition) if isinstance(condition, Var) else None
        if eqn is None or eqn.op not in ORDERS:
            return None
        (left, right), order = eqn.inputs, ORDERS[eqn.op]
        near = self.near(left)
        if near is None:
            left, right, order = right, left, MIRRORED[order]
            near = self.near(left)
        times, more = self._extent(right)
        if near is None or near.shift is None or near.wraps or near.times > 1 or times < 0:
            return None
        order = order if holds else _OPPOSITE[order]
        bound = more - near.shift + {"<": -1, ">": 1}.get(order, 0)
        is_first = order in ("<", "<=") and (times, bound) == (0, 0)
        is_last = order in (">", ">=") and (times, bound) == (1, -1)
        return (near.axis, bound) if order == "==" or is_first or is_last else None

    def _clamped(self, is_max: bool, first: Atom, second: Atom) -> Near | None:
        bounded = (
            self._bounded(is_max, self.near(a), b) for a, b in ((first, second), (second, first))
        )
        return next((near for near in bounded if near is not None), None)

    def _bounded(self, is_max: bool, near: Near | None, bound: Atom) -> Near | None:
        """The larger of the index that is ``near`` and ``bound``, or the smaller one."""
        if near is None or near.wraps:
            return None
        # The launch index is at least 0 and at most the extent less 1.
        times, more = self._extent(bound)
        if abs(more) > MAX_OFFSET:
            return None
        if is_max and times == 0:
            high = max(near.high, more, 0)
            return Near(near.axis, near.low, high, None, times=near.times)
        if not is_max and times == near.times:
            low = min(near.low, more + times, 0)
            return Near(near.axis, low, near.high, None, times=times)
        return None

    def _wrapped(self, index: Atom, extent: int) -> Near | None:
        """``index``, which may be whole extents off, modulo ``extent`` times that of the launch."""
        by, eqn = 0, self.defined.get(index) if isinstance(index, Var) else None
        while eqn is not None and (eqn.op is arithmetic.add.op or eqn.op is arithmetic.sub.op):
            sign = 1 if eqn.op is arithmetic.add.op else -1
            for one, other in ((0, 1), (1, 0)):
                if one == 0 or sign == 1:
                    times, more = self._extent(eqn.inputs[other])
                    is_whole = times > 0 and times % extent == 0
                    if isinstance(eqn.inputs[other], Const) or is_whole:
                        by += sign * more
                        index = eqn.inputs[one]
                        break
            else:
                break
            eqn = self.defined.get(index) if isinstance(index, Var) else None
        near = self.near(index)
        if near is None or near.wraps or near.times != extent or abs(by) > MAX_OFFSET:
            return None
        shift = None if near.shift is None else near.shift + by
        return Near(near.axis, near.low + by, near.high + by, shift, True, index, by, times=extent)

    def _extent(self, atom: Atom) -> tuple[int, int]:
        """``(t, n)`` for t times the extent of the launch plus n; t is -1 for other values."""
        if isinstance(atom, Const):
            return 0, int(atom.value)
        eqn = self.defined.get(atom)
        if eqn is None:
            return (self.extents or {}).get((atom, -1), (-1, 0))
        if eqn.op.kind is OpKind.DIM:
            if self.extents is None:
                return 1, 0
            return self.extents.get((eqn.inputs[0], eqn.attrs["axis"]), (-1, 0))
        if eqn.op.kind is OpKind.CAST and keeps_index(eqn):
            return self._extent(eqn.inputs[0])
        if eqn.op is arithmetic.add.op or eqn.op is arithmetic.sub.op:
            (times, more), (others, by) = map(self._extent, eqn.inputs)
            sign = 1 if eqn.op is arithmetic.add.op else -1
            if times > 0 and others == 0:
                return times, more + sign * by
            if times == 0 and others > 0 and sign == 1:
                return others, more + by
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
            else:
                work.extend((*eqn.inputs, *(a for r in eqn.regions for a in r.yields)))
        return found


def _either(*near: Near | None) -> Near | None:
    known = [n for n in near if n is not None]
    if len(known) < len(near) or len({(n.axis, n.wraps, n.times) for n in known}) != 1:
        return None
    if any(n.wraps for n in known):
        return None
    low, high = min(n.low for n in known), max(n.high for n in known)
    shift = low if low == high else None
    return Near(known[0].axis, low, high, shift, times=known[0].times)
