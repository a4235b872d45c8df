"""How often the threads of a kernel read the elements of an array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

from kernelcore.ir.core import Atom, Eqn, Var
from kernelcore.ir.op import READS, OpKind
from kernelcore.passes.access.effects import Access, AccessMap
from kernelcore.passes.access.index_offsets import base_and_offset, definitions
from kernelcore.passes.access.trips import known_trips


class ReadWindow(NamedTuple):
    """The elements along one axis of an array that threads with one launch index read.

    Attributes:
        launch_axis: The axis of the launch.
        axis: The axis of the array.
        low: How far the first element is from the launch index.
        high: How far the last one is.
    """

    launch_axis: int
    axis: int
    low: int
    high: int


class Reads(NamedTuple):
    """The elements of an array that one thread reads, components counting once.

    Attributes:
        elements: How many, where loops over whole axes count once; 0 if that is unknown.
        swept_axes: Bit k is set if a loop of the thread runs along axis k.
        element: The extents along the last axes, one or two, of what code for packed arrays takes
            for an element; zeros where it takes none.
        windows: The axes along which every read is at a constant distance from a launch index.
    """

    elements: int
    swept_axes: int
    element: tuple[int, int] = (0, 0)
    windows: tuple[ReadWindow, ...] = ()


def reads_of(accesses: AccessMap, array: Atom) -> Reads:
    """How often a thread reads ``array``, all branches counting."""
    if array in accesses.snippets:
        return Reads(0, 0)
    defined = definitions(accesses.func)
    counts: dict[tuple[int, ...], int] = {}
    swept: set[int] = set()
    for access in accesses.of(array):
        if access.eqn.op.kind not in READS:
            continue
        key = accesses.index_keys(access)[: access.outer_ndim]
        loops = [eqn for eqn, _ in access.path if eqn.op.kind is OpKind.FOR]
        axes = {loop: _axes_of(loop, access, defined) for loop in loops}
        counts[key] = prod(_trips(loop) for loop in loops if not axes[loop])
        swept.update(*axes.values())
    windows = tuple(_windows(accesses, array, defined))
    return Reads(sum(counts.values()), sum(1 << axis for axis in swept), windows=windows)


def _windows(accesses: AccessMap, array: Atom, defined: Mapping[Var, Eqn]) -> Iterator[ReadWindow]:
    launch_axes: dict[Atom, int] = {
        out: eqn.attrs["axis"] for out, eqn in defined.items() if eqn.op.kind is OpKind.TID
    }
    outer = [access.indices[: access.outer_ndim] for access in accesses.of(array)]
    for axis, indices in enumerate(zip(*outer, strict=True)):
        found = [base_and_offset(index, defined) for index in indices]
        launch_axis, *others = {launch_axes.get(base) for base, _ in found}
        if launch_axis is not None and not others:
            offsets = [offset for _, offset in found]
            yield ReadWindow(launch_axis, axis, min(offsets), max(offsets))


def _axes_of(loop: Eqn, access: Access, defined: Mapping[Var, Eqn]) -> set[int]:
    """The axes along which ``loop`` moves ``access``."""
    index = loop.regions[0].params[0]
    outer = access.indices[: access.outer_ndim]
    return {axis for axis, i in enumerate(outer) if base_and_offset(i, defined)[0] is index}


def _trips(loop: Eqn) -> int:
    """How often ``loop`` runs, where that is known; else 1."""
    known = known_trips(loop)
    return 1 if known is None else known
