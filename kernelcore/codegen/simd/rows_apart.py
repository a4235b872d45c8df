"""Elements of several components that are not those of neighbouring lanes: one row per lane.

The components of one element are adjacent in memory, so each lane accesses its element by one
instruction per register. Transposes turn rows into one vector per component, or back
(docs/decisions/292).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from kernelcore.codegen.analysis.component_groups import component_number, is_stored_as_row
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.llvm.memory import address_at, decoded, encoded, stored_type
from kernelcore.codegen.simd.interleaved import register_lanes, resized, shuffled
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
    """Whether the loads together with ``eqn``, which loads from ``where``, are made as rows.

    The elements of lanes are not adjacent, the components of an element are.
    """
    return not where.is_whole and e.gang >= ROW and _are_adjacent(e, eqn)


def load(e: Emitter, unit: Sequence[Eqn]) -> dict[Eqn, str]:
    """The values of the loads ``unit`` of one element per lane."""
    ordered = sorted(unit, key=component_number)
    where = site(e, ordered[0])
    element, size_bytes = stored_type(where.dtype), where.dtype.size_bytes
    lowest = component_number(ordered[0])
    count = component_number(ordered[-1]) + 1 - lowest
    # Transposes are square: a register holds as many components as lanes.
    starts, lanes = lane_addresses(e, where), register_lanes(e.gang, where.dtype)
    columns: list[str] = []
    for first in range(0, count, lanes):
        size = min(lanes, count - first)
        places = [address_at(e, start, first * size_bytes) for start in starts]
        rows = [load_adjacent(e, where.dtype, size, place, None) for place in places]
        columns += _columns(e, element, where.dtype, rows, size)
    with e.at(e.gang):
        return {
            eqn: decoded(e, where.dtype, columns[component_number(eqn) - lowest]) for eqn in unit
        }


def can_store(e: Emitter, eqn: Eqn) -> bool:
    """Whether the element of which ``eqn`` writes a component is written as a row.

    It has components enough, and they are adjacent.
    """
    return is_stored_as_row(eqn) and _are_adjacent(e, eqn)


def store(e: Emitter, where: Site, values: Sequence[str]) -> None:
    """Write all components, of which ``where`` is the first, of one element per active lane."""
    with e.at(e.gang):
        encodings = [encoded(e, where.dtype, value) for value in values]
    element, size_bytes = stored_type(where.dtype), where.dtype.size_bytes
    starts, lanes = lane_addresses(e, where), register_lanes(e.gang, where.dtype)
    for first in range(0, len(encodings), lanes):
        columns = encodings[first : first + lanes]
        for lane in range(0, e.gang, lanes):
            order = range(lane, lane + lanes)
            square = [shuffled(e, element, column, e.gang, order) for column in columns]
            square += [square[-1]] * (lanes - len(columns))
            rows = transposed(e, element, size_bytes, square)
            for row, start in zip(rows, starts[lane : lane + lanes], strict=True):
                place = address_at(e, start, first * size_bytes)
                kept = resized(e, element, row, lanes, len(columns))
                store_adjacent(e, where.dtype, len(columns), kept, place, None)


def _columns(
    e: Emitter, element: str, dtype: Scalar, rows: Sequence[str], size: int
) -> Sequence[str]:
    """The columns of ``rows``, one per lane, of ``size`` elements that fit a register."""
    if size <= ROW:
        return columns_of(e, element, [resized(e, element, row, size, ROW) for row in rows])[:size]
    lanes, parts = register_lanes(e.gang, dtype), list[list[str]]()
    for lane in range(0, e.gang, lanes):
        square = [resized(e, element, row, size, lanes) for row in rows[lane : lane + lanes]]
        parts.append(transposed(e, element, dtype.size_bytes, square)[:size])
    return [concatenated(e, element, column, lanes) for column in zip(*parts, strict=True)]


def _are_adjacent(e: Emitter, eqn: Eqn) -> bool:
    """Whether the components of the elements that ``eqn`` accesses follow each other in memory."""
    type_ = array_type(eqn)
    sizes = [prod(type_.components[axis + 1 :]) for axis in range(len(type_.components))]
    strides = e.array(eqn.inputs[0]).strides[type_.outer_ndim :]
    return list(strides) == [str(size * type_.dtype.size_bytes) for size in sizes]
