"""An explanation as text: the source, with what becomes of each line below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernelcore.base.errors import SrcLoc
from kernelcore.codegen.simd.gathering import FEW_POINTS, LEAST_TRIPS_OF_FEW
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.squares import ROWS
from kernelcore.codegen.simd.strip_loop import ROWS_OF_BLOCK
from kernelcore.explain.devices import sized

if TYPE_CHECKING:
    from kernelcore.explain.adjoint import Adjoint
    from kernelcore.explain.report import Explanation, Measured

_INDENT = "        | "


def report(e: Explanation) -> str:
    """The whole report."""
    sections = [_head(e), _source(e), _elsewhere(e), _adjoint(e.adjoint), _devices(e)]
    if e.measured is not None:
        sections.append(_measured(e.measured))
    return "\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _head(e: Explanation) -> list[str]:
    lines = [f"kernel {e.name}  ({e.file}:{e.first_line})", f"  on {e.target}"]
    lines.append(f"  {_strategy(e)}: {e.why}")
    if e.lane_axis is not None:
        lanes = "lanes lie along it" + (", as reported here" if e.lane_axis.is_taken else "")
        most = e.lane_axis.most_points
        limit = f" and that has at most {most} points" if most else ""
        longer = f"where launch axis {e.lane_axis.axis} is longer than the last one{limit}"
        lines.append(f"  {longer}, {lanes}")
    if e.gathered is not None:
        least = e.gathered.least_trips
        few = f"{LEAST_TRIPS_OF_FEW} in rows of at most {FEW_POINTS} threads"
        when = f" where loops have {least} iterations or more, {few}" if least else ""
        names = ", ".join(e.gathered.names)
        lines.append(f"  additions to {names} are gathered: loops over the threads make them{when}")
        if e.gathered.divided:
            names = ", ".join(e.gathered.divided)
            lines.append(f"  parts of a launch may divide the elements of {names}, and copy none")
        lines.append("  what follows is of the kernel as it is written")
    if e.short_gang:
        lines.append(
            f"  loops of fewer than {LOOP_LANES} iterations: gangs of {e.short_gang} threads"
        )
    if e.short_rows:
        gang, most = e.short_rows.strategy.gang, e.short_rows.most_points
        lines.append(f"  rows of at most {most} points: gangs of {gang} threads")
    if e.carried:
        names = ", ".join(e.carried)
        lines.append(
            f"  loops keep elements of {names} in registers; launches whose arrays share memory "
            "run one point at a time"
        )
    lines += [f"  {line}" for line in _bodies(e)]
    counts = e.work.counts
    unknown = "" if counts.is_known else " outside of loops, and in one iteration of each"
    lines.append(
        f"  a thread{unknown}: {counts.flops:.0f} flops, loads {counts.loaded_bytes:.0f} bytes, "
        f"stores {counts.stored_bytes:.0f} bytes"
    )
    lines.append(f"  fusable with other code of a compiled program: {e.fusable}")
    return lines


def _strategy(e: Explanation) -> str:
    if e.strategy.gang > 1:
        return f"gangs of {e.strategy.gang} threads in SIMD registers"
    if e.strategy.loop_lanes > 1:
        return f"one thread at a time, its loops {e.strategy.loop_lanes} iterations at once"
    if e.strategy.packed_bytes:
        return "one thread at a time, what it computes alike for several values in SIMD registers"
    return "one thread at a time, without SIMD registers"


def _bodies(e: Explanation) -> Iterator[str]:
    if e.strategy.gang == 1:
        return
    if e.strategy.tile_rows > 1:
        short = e.strategy.short_tile_lanes
        yield (
            f"{e.strategy.tile_rows} rows of the grid run together, in gangs of "
            f"{e.strategy.tile_gang} threads{f', {short} for short rows' if short else ''}, which "
            "share what they load"
        )
    if e.is_contracted:
        yield "a product and the sum that a loop adds it to are rounded once (fma)"
    if e.bodies.collapse_limit:
        limit = e.bodies.collapse_limit
        yield f"rows shorter than {'a gang' if limit == 1 else f'{limit} gangs'} are joined"
    if e.bodies.middle is not None:
        yield (
            "gangs in the middle of a row have code of their own: indices that wrap or stop at an "
            "end of an axis are adjacent there"
        )
    if e.bodies.walks is not None:
        yield (
            f"loops down columns take {ROWS_OF_BLOCK} rows at a time, for many gangs of a row "
            "together"
        )
    if e.bodies.squares is not None:
        yield f"{ROWS} rows of the grid run together: gangs transpose what lies along rows"
    lanes = e.bodies.tail_lanes or e.bodies.general_lanes
    if e.bodies.tail_lanes == 1:
        yield "long rows, and the remainder of a row, run thread by thread"
    elif lanes == 1:
        yield "the remainder of a row runs thread by thread"
    elif e.bodies.has_tail and lanes in (e.strategy.gang, e.strategy.tile_gang):
        yield "the remainder of a row is one gang under a mask"
    else:
        yield f"the remainder of a row runs in gangs of {lanes} under a mask"
    if e.bodies.general_lanes > 1:
        yield f"arrays that are not contiguous: gangs of {e.bodies.general_lanes}"
    else:
        yield "arrays that are not contiguous: thread by thread"


def _source(e: Explanation) -> list[str]:
    notes: dict[int, dict[str, None]] = {}
    for loc, note in remarks(e):
        if _is_own(e, loc):
            notes.setdefault(loc.line, {})[note] = None
    lines = ["", "  cost  source"]
    for number, line in enumerate(e.source, e.first_line):
        share = e.share_of(SrcLoc(e.file, number, 0, 0))
        cost = f"{100 * share:4.0f} %" if share else "      "
        lines.append(f"{cost}  {line}")
        lines += [f"{_INDENT}{note}" for note in notes.get(number, ())]
    return lines


def remarks(e: Explanation) -> Iterator[tuple[SrcLoc, str]]:
    """What is to be said of single source lines."""
    for loop in e.loops:
        if loop.loc is not None:
            trips = "" if loop.trips is None else f" ({loop.trips})"
            yield loop.loc, f"loop{trips}: {loop.how}" + (f": {loop.why}" if loop.why else "")
    for access in e.accesses:
        if access.loc is not None:
            yield access.loc, str(access)


def _is_own(e: Explanation, loc: SrcLoc) -> bool:
    return loc.file == e.file and e.first_line <= loc.line < e.first_line + len(e.source)


def _elsewhere(e: Explanation) -> list[str]:
    """What is said of lines of other functions, which are part of the kernel."""
    found: dict[SrcLoc, dict[str, None]] = {}
    for file, line in e.work.cost:
        loc = SrcLoc(file, line, 0, 0)
        if not _is_own(e, loc):
            found[loc] = {f"{100 * e.share_of(loc):.0f} % of the cost": None}
    for loc, note in remarks(e):
        if not _is_own(e, loc):
            found.setdefault(SrcLoc(loc.file, loc.line, 0, 0), {})[note] = None
    if not found:
        return []
    lines = (f"  {loc}: {note}" for loc, notes in found.items() for note in notes)
    return ["", "in functions that it calls:", *lines]


def _adjoint(adjoint: Adjoint) -> list[str]:
    if adjoint.refusal is not None:
        return ["", f"adjoint: none: {adjoint.refusal}"]
    lines = ["", f"adjoint: about {adjoint.cost:.1f} times the instructions"]
    again, recorded = adjoint.recomputed, adjoint.recorded_bytes
    kept = ", ".join(map(sized, adjoint.kept, adjoint.kept.values()))
    lines.append(f"  frameworks keep {kept or 'no array'} for it")
    if not adjoint.records:
        lines.append("  records nothing")
    elif recorded is None:
        lines.append("  a thread records, in each iteration:")
    else:
        lines.append(f"  a thread records {recorded} bytes:")
    lines += [
        f"    {record}" + ("" if record.most is None else f": {record.most} times")
        for record in adjoint.records
    ]
    unknown = "" if again.is_known else " outside of loops, and in one iteration of each"
    lines.append(
        f"  a thread{unknown} loads {again.loaded_bytes:.0f} bytes of the kernel's arrays again, "
        f"and computes {again.flops:.0f} flops of values and factors from them"
    )
    return lines


def _devices(e: Explanation) -> list[str]:
    return ["", "over several devices:", *(f"  {a}" for a in e.axes)] if e.axes else []


def _measured(m: Measured) -> list[str]:
    shape = " x ".join(map(str, m.dim))
    lines = ["", f"launch over {shape}: {_time(m.seconds)}, on the threads that launches use"]
    memory = m.array_bytes / m.roofs.bytes_per_second
    lines.append(
        f"  memory: {m.array_bytes:.3g} bytes of arrays, {_time(memory)} at "
        f"{m.roofs.bytes_per_second / 1e9:.0f} GB/s, which a copy of large arrays reaches"
    )
    if m.flops is None:
        lines.append("  arithmetic: not known, since loops end by what is known at run time only")
    else:
        arithmetic = m.flops / m.roofs.flops_per_second
        lines.append(
            f"  arithmetic: {m.flops:.3g} flops, {_time(arithmetic)} at "
            f"{m.roofs.flops_per_second / 1e9:.0f} GFLOP/s of float32"
        )
    if m.least_seconds:
        lines.append(f"  it takes {m.seconds / m.least_seconds:.1f} times the longer of these")
    return lines


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.2f} us"
    return f"{1e3 * seconds:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
