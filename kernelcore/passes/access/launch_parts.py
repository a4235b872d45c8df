"""Which axes of a launch can be cut into parts that run apart, and what each part needs.

A part runs the points ``[start, start + n)`` of one launch axis. Of an array that every access
indexes near a multiple of the launch index, along one array axis, a part needs those elements and a
border.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins import arithmetic
from kernelcore.ir.core import Atom, Eqn, Func, Var
from kernelcore.ir.op import ACCESSES, OpKind
from kernelcore.ir.snippet import array_uses
from kernelcore.ir.walk import array_type, element_indices, used_atoms, walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.effects import effects
from kernelcore.passes.access.launch_indices import Indices, Near

# Extents (parameter, array axis) as a multiple of the extent of a launch axis and a number more. A
# parameter that is a number has the axis -1.
Extents = Mapping[tuple[int, int], tuple[int, int]]
# Parts of a launch whose arrays a device may take from its own and its neighbours' parts.
_PARTS = 8


@dataclass(frozen=True, slots=True)
class Window:
    """The elements of an array that a part of a launch axis accesses.

    Attributes:
        axis: The array axis that the launch axis indexes.
        below: How many elements in front of its own.
        above: How many behind its own.
        wraps: Whether the array continues at its other end.
        times: How many elements are a point's own.
        more: How many elements the array has besides those.
    """

    axis: int
    below: int = 0
    above: int = 0
    wraps: bool = False
    times: int = 1
    more: int = 0

    @property
    def is_own(self) -> bool:
        return not self.below and not self.above


@dataclass(frozen=True, slots=True)
class Parts:
    """How a launch axis can be cut; parameters that are named nowhere are needed whole.

    Attributes:
        windows: Parameters of which a part accesses a window.
        sums: Parameters to which every part adds; the parts' sums have to be added up.
        extrema: Parameters that every part only raises ("max"), or only lowers ("min"), with the
            greatest or least of which the launch ends.
        added: Those of ``windows`` to whose borders a part adds; their owners have to add that.
        shift: Point ``i`` owns elements from ``times * (i + shift)`` on.
        extents: What the analysis knew; None if all extents are those of the launch.
    """

    windows: Mapping[int, Window]
    sums: frozenset[int]
    extrema: Mapping[int, str]
    added: frozenset[int]
    shift: int = 0
    extents: Extents | None = None


def launch_parts(func: Func) -> Mapping[int, Parts]:
    """The axes of a launch of ``func`` that can be cut if all extents are those of the launch."""
    found = ((axis, parts_of_axis(func, axis)) for axis in range(func.rank))
    return {axis: parts for axis, parts in found if parts is not None}


def indices_of(func: Func, extents: Extents | None) -> Indices:
    """What is known of the indices of ``func`` with ``extents``."""
    if extents is None:
        return Indices(func)
    return Indices(func, {(func.params[k], a): e for (k, a), e in extents.items()})


def parts_of_axis(func: Func, axis: int, extents: Extents | None = None) -> Parts | None:
    """How launch axis ``axis`` can be cut for arrays of ``extents``; None if it cannot be."""
    if any(eqn.op.kind in (OpKind.PRINT, OpKind.ARRAY_AT) for eqn in walk_eqns(func.body)):
        return None
    indices = indices_of(func, extents)
    used = {a for eqn in walk_eqns(func.body) for a in used_atoms(eqn)}
    by_array: dict[Atom, list[Eqn]] = {p: [] for p in func.params}
    in_snippets: set[Atom] = set()
    for eqn in walk_eqns(func.body):
        if eqn.op.kind in ACCESSES and eqn.inputs[0] in by_array:
            by_array[eqn.inputs[0]].append(eqn)
        elif eqn.op.kind is OpKind.SNIPPET:
            in_snippets.update(use.array for use in array_uses(eqn))
    reaches = {
        k: found
        for k, p in enumerate(func.params)
        if p not in in_snippets and (found := _reach(indices, by_array[p], axis)) is not None
    }
    found_effects = [*enumerate(zip(func.params, effects(func), strict=True))]
    stored = [reaches[k] for k, (_, e) in found_effects if e.stores and k in reaches]
    shift = 0 if extents is None else _shift([near for _, near in stored])
    windows: dict[int, Window] = {}
    sums: set[int] = set()
    extrema: dict[int, str] = {}
    added: set[int] = set()
    for k, (param, effect) in found_effects:
        accesses = by_array[param]
        window = None
        if k in reaches:
            along, near = reaches[k]
            times, more = (1, 0) if extents is None else extents.get((k, along), (0, 0))
            if near.times == times and not (near.wraps and more):
                window = _window(along, near, more, shift)
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
    if extents is not None:
        made = Parts(windows, frozenset(sums), extrema, frozenset(added), shift, extents)
        return made if windows else None
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


def _reach(indices: Indices, accesses: list[Eqn], axis: int) -> tuple[int, Near] | None:
    """An array axis, and how far from the launch index all ``accesses`` are along it."""
    if not accesses:
        return None
    for k in range(array_type(accesses[0]).outer_ndim):
        near = [indices.near(element_indices(eqn)[k]) for eqn in accesses]
        found = [n for n in near if n is not None and n.axis == axis]
        if len(found) == len(near) and len({n.times for n in found}) == 1:
            low, high = min(n.low for n in found), max(n.high for n in found)
            wraps = any(n.wraps for n in found)
            return k, Near(axis, low, high, None, wraps, times=found[0].times)
    return None


def _shift(stored: list[Near]) -> int:
    """The shift with which points own the elements that they store; 0 if none does it."""
    for shift in {0, *(near.low // near.times for near in stored if not near.wraps)}:
        owns = (
            n.times * shift <= n.low and n.high < n.times * (shift + 1) and not (n.wraps and shift)
            for n in stored
        )
        if shift >= 0 and all(owns):
            return shift
    return 0


def _window(axis: int, near: Near, more: int, shift: int) -> Window:
    """The window along array axis ``axis`` of accesses that are all ``near``."""
    first, times = near.times * shift, near.times
    below, above = first - near.low, near.high - first - (times - 1)
    return Window(axis, max(below, 0), max(above, 0), near.wraps, times, more)


def extents_of(
    func: Func, shapes: Mapping[int, Sequence[int]], launch: int
) -> dict[tuple[int, int], tuple[int, int]]:
    """The extents of arrays of ``func`` by those of a launch axis, where both go together.

    ``shapes`` has shapes by parameter.
    """
    return {
        (k, axis): found
        for k, shape in shapes.items()
        for axis in range(outer_ndim(func.params[k]))
        if (found := multiple(shape[axis], launch)) is not None
    }


def multiple(extent: int, launch: int) -> tuple[int, int] | None:
    """``extent`` as a multiple of the extent of a launch axis and a number more.

    None if that number is so large that parts of the array and of the launch drift apart.
    """
    if not extent or not launch:
        return None
    times = max((extent + launch // 2) // launch, 1)
    more = extent - times * launch
    return (times, more) if _PARTS * abs(more) <= extent else None


def outer_ndim(param: Var) -> int:
    """How many axes ``param`` has besides those of components; 0 of numbers."""
    return param.type.outer_ndim if isinstance(param.type, ArrayType) else 0
