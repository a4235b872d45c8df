"""Elements of several components that lie apart: a gang accesses them as one row per lane.

The components of an element follow each other in memory. Registers hold the rows of 8 or 16 lanes,
and are transposed (docs/decisions/292).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from kernelcore.codegen.analysis.component_groups import component_of, is_stored_as_row
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.llvm.memory import address_at, decoded, encoded, stored_type
from kernelcore.codegen.simd.interleaved import register_lanes, shuffled
from kernelcore.codegen.simd.transpose import ROW, columns_of, concatenated, transposed
from kernelcore.codegen.simd.vector_access import (
    Site,
    lane_addresses,
    load_adjacent,
    site,
    store_adjacent,
)
from kernelcore.ir.core import Eqn
from kernelcore.ir.walk import array_type
from kernelcore.language.types import Scalar


def can_load(e: Emitter, where: Site, eqn: Eqn) -> bool:
    """Whether ``eqn``, one of ``rows_loaded``, which loads from ``where``, loads a row."""
    return not where.is_whole and e.gang >= ROW and _are_adjacent(e, eqn)


def load(e: Emitter, unit: Sequence[Eqn]) -> dict[Eqn, str]:
    """The values of the loads ``unit`` of one element per lane."""
    ordered = sorted(unit, key=_number)
    where = site(e, ordered[0])
    element, size_bytes = stored_type(where.dtype), where.dtype.size_bytes
    lowest, lanes = _number(ordered[0]), register_lanes(e.gang, where.dtype)
    count, starts, columns = (
        _number(ordered[-1]) + 1 - lowest,
        lane_addresses(e, where),
        list[str](),
    )
    for first in range(0, count, lanes):
        size = min(lanes, count - first)
        parts = [address_at(e, start, first * size_bytes) for start in starts]
        rows = [load_adjacent(e, where.dtype, size, part, None) for part in parts]
        columns += _columns(e, element, where.dtype, rows, size)
    with e.at(e.gang):
        return {eqn: decoded(e, where.dtype, columns[_number(eqn) - lowest]) for eqn in unit}


def can_store(e: Emitter, eqn: Eqn) -> bool:
    """Whether all components of an element, of which ``eqn`` writes one, are its row."""
    return is_stored_as_row(eqn) and _are_adjacent(e, eqn)


def store(e: Emitter, where: Site, values: Sequence[str]) -> None:
    """Write all components, of which ``where`` is the first, of one element per active lane."""
    with e.at(e.gang):
        parts = [encoded(e, where.dtype, value) for value in values]
    element, size_bytes = stored_type(where.dtype), where.dtype.size_bytes
    starts, lanes = lane_addresses(e, where), register_lanes(e.gang, where.dtype)
    for first in range(0, len(parts), lanes):
        columns = parts[first : first + lanes]
        for lane in range(0, e.gang, lanes):
            order = range(lane, lane + lanes)
            square = [shuffled(e, element, column, e.gang, order) for column in columns]
            square += [square[-1]] * (lanes - len(columns))
            rows = transposed(e, element, size_bytes, square)
            for row, start in zip(rows, starts[lane : lane + lanes], strict=True):
                place = address_at(e, start, first * size_bytes)
                kept = shuffled(e, element, row, lanes, range(len(columns)))
                store_adjacent(e, where.dtype, len(columns), kept, place, None)


def _columns(
    e: Emitter, element: str, dtype: Scalar, rows: Sequence[str], size: int
) -> Sequence[str]:
    """The columns of ``rows``, one per lane, of ``size`` elements that fit a register."""
    if size <= ROW:
        return columns_of(e, element, [_widened(e, element, row, size, ROW) for row in rows])[:size]
    lanes, parts = register_lanes(e.gang, dtype), list[list[str]]()
    for lane in range(0, e.gang, lanes):
        square = [_widened(e, element, row, size, lanes) for row in rows[lane : lane + lanes]]
        parts.append(transposed(e, element, dtype.size_bytes, square)[:size])
    return [concatenated(e, element, column, lanes) for column in zip(*parts, strict=True)]


def _widened(e: Emitter, element: str, row: str, size: int, wanted: int) -> str:
    """The ``size`` elements of ``row`` and others that mean nothing."""
    return shuffled(e, element, row, size, [*range(size), *[-1] * (wanted - size)])


def _number(eqn: Eqn) -> int:
    """The number of the component that ``eqn`` accesses."""
    number = component_of(eqn)
    assert number is not None
    return number


def _are_adjacent(e: Emitter, eqn: Eqn) -> bool:
    """Whether the components of the elements that ``eqn`` accesses follow each other in memory."""
    type_ = array_type(eqn)
    sizes = [prod(type_.components[axis + 1 :]) for axis in range(len(type_.components))]
    strides = e.array(eqn.inputs[0]).strides[type_.outer_ndim :]
    return list(strides) == [str(size * type_.dtype.size_bytes) for size in sizes]
