"""Which axes of a launch can be cut into parts that run apart, and what each part needs.

A part runs the points ``[start, start + n)`` of one launch axis. Of an array that every access
indexes near the launch index, along one array axis, a part needs those elements and a border.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernelcore.builtins import arithmetic
from kernelcore.ir.core import Atom, Eqn, Func, Var
from kernelcore.ir.op import ACCESSES, OpKind
from kernelcore.ir.snippet import array_uses
from kernelcore.ir.walk import array_type, element_indices, used_atoms, walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.effects import effects
from kernelcore.passes.access.launch_indices import Indices


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
        extrema: Parameters that every part only raises ("max"), or only lowers ("min"), with the
            greatest or least of which the launch ends.
        added: Those of ``windows`` to whose borders a part adds; their owners have to add that.
    """

    windows: Mapping[int, Window]
    sums: frozenset[int]
    extrema: Mapping[int, str]
    added: frozenset[int]


def launch_parts(func: Func) -> Mapping[int, Parts]:
    """The axes of a launch of ``func`` that can be cut, and how."""
    if any(eqn.op.kind in (OpKind.PRINT, OpKind.ARRAY_AT) for eqn in walk_eqns(func.body)):
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
    extrema: dict[int, str] = {}
    added: set[int] = set()
    for k, (param, effect) in enumerate(zip(func.params, effects(func), strict=True)):
        accesses = by_array[param]
        window = None if param in in_snippets else _window(indices, accesses, axis)
        is_seen = param in in_snippets or any(o in used for e in accesses for o in e.outputs)
        is_only_added = effect.accumulates and not effect.loads and not effect.stores
        is_only_added &= not is_seen
        if window is not None and (window.is_own or not effect.writes or is_only_added):
            windows[k] = window
            if effect.writes and not window.is_own:
                added.add(k)
        elif is_only_added:
            sums.add(k)
        elif not is_seen and (update := _extremum(accesses)) is not None:
            extrema[k] = update
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
    return Parts(windows, frozenset(sums), extrema, frozenset(added)) if windows else None


def _extremum(accesses: list[Eqn]) -> str | None:
    """Whether all ``accesses`` of an array keep its maxima ("max") or its minima ("min")."""
    names = {"max": arithmetic.max.op, "min": arithmetic.min.op}
    for name, op in names.items():
        is_update = (e.op.kind is OpKind.ATOMIC and e.attrs["update"] is op for e in accesses)
        if accesses and all(is_update):
            return name
    return None


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
