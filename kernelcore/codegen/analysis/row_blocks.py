"""Row blocks: loops in which every thread goes along a row of its own, element by element.

Neighbouring threads access elements that are a row apart, but each thread's own are adjacent from
iteration to iteration. A gang takes such a loop in blocks of iterations: it loads the next elements
of each row at once, and transposes them in registers (``simd/row_blocks.py``). What all lanes add
to one element per iteration is added up for a block, too (``reduction/block_sums.py``). If the
iterations are independent, the gang goes along one row after the other (``simd/row_by_row.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.builtins.reference import is_narrow
from kernelcore.codegen.analysis.independent_loops import (
    INDEPENDENT_LANES,
    IndependentLoop,
    independent_elements,
)
from kernelcore.codegen.analysis.panels import LEAST_BITS, MOST_TRANSPOSED, is_shared_by_rows
from kernelcore.codegen.analysis.row_tiling import can_tile_rows
from kernelcore.codegen.analysis.rows_one_by_one import besides_rows, grows_with_thread
from kernelcore.codegen.analysis.uniformity import Strides, iteration_strides, stride_of
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ACCESSES, REPEATABLE, WRITES, AddForm, OpKind
from kernelcore.ir.walk import array_type, element_indices, is_in_loop, walk_eqns, walk_paths
from kernelcore.language.types import Scalar
from kernelcore.passes.access.accumulation_plan import are_known, form_of, launch_values
from kernelcore.passes.access.index_offsets import definitions, position_of
from kernelcore.passes.access.repeated_loads import repeated_loads
from kernelcore.passes.access.trips import known_trips

# Loops that are known to have fewer iterations make their sums one by one.
LEAST_TRIPS = 8


@dataclass(frozen=True, slots=True)
class RowStream:
    """The accesses of one element per iteration, which is beside that of the iteration before.

    Attributes:
        eqns: The accesses, in order; they have the same indices.
        step: By how much the last index grows from iteration to iteration, 1 or -1.
        loads: Whether an iteration uses the element as it was before the loop.
        writes: Whether an iteration writes the element.
        is_outermost: Whether no loop is around this one: the gang does not come back to its rows.
    """

    eqns: tuple[Eqn, ...]
    step: int
    loads: bool
    writes: bool
    is_outermost: bool = False

    @property
    def array(self) -> Var:
        found = self.eqns[0].inputs[0]
        assert isinstance(found, Var)
        return found


@dataclass(frozen=True, slots=True)
class BlockedLoop:
    """A loop that a gang runs in blocks of iterations.

    Attributes:
        streams: The accesses that a block makes at once, where each lane has a row of its own.
        sums: Additions that such a block makes at once, too, where all lanes add to one element per
            iteration, which is beside that of the iteration before; with the growth of their last
            index, 1 or -1.
        scatters: Additions to rows that lanes may share, likewise.
        indices: The equations of the body that compute the indices of both.
        apart: Pairs of arrays, one that a stream writes and another that the loop accesses, which
            must share no memory.
        equal: Such pairs which may be one array, too.
        by_rows: Its iterations as lanes, where a gang goes along one row after the other instead.
        has_blocks: Whether rows that are too short for it are transposed.
        has_own_lengths: Whether threads have different numbers of iterations: only single threads
            run it, by rows.
    """

    streams: tuple[RowStream, ...]
    sums: Mapping[Eqn, int]
    scatters: Mapping[Eqn, int]
    indices: tuple[Eqn, ...]
    apart: tuple[tuple[Var, Var], ...]
    equal: tuple[tuple[Var, Var], ...]
    by_rows: IndependentLoop | None = None
    has_blocks: bool = True
    has_own_lengths: bool = False

    @property
    def is_ordered_if_short(self) -> bool:
        """Whether long rows make their sums in another order than short ones."""
        return self.by_rows is not None and self.by_rows.is_ordered_if_short

    @property
    def has_panels(self) -> bool:
        """Whether tiles find all that it reads along rows in panels."""
        return self.by_rows is not None and self.by_rows.most_in_panels > 0


def blocked_loops(func: Func, strides: Strides) -> dict[Eqn, BlockedLoop]:
    """The loops of ``func`` that gangs run in blocks.

    Args:
        func: A kernel with an accumulation plan.
        strides: By how much values grow from lane to lane.
    """
    loops = [eqn for eqn in walk_eqns(func.body) if eqn.op.kind is OpKind.FOR]
    if not loops:
        return {}
    defined = definitions(func)
    found = {loop: _blocked(loop, strides, defined) for loop in loops}
    made = {loop: blocked for loop, blocked in found.items() if blocked is not None}
    outermost = {eqn for eqn, path in walk_paths(func.body) if not is_in_loop(path)}
    known = (
        launch_values(func) if any(b.is_ordered_if_short for b in made.values()) else set[Atom]()
    )
    for loop, blocked in made.items():
        has_known_trips = blocked.has_own_lengths or are_known(loop.inputs[:3], known)
        if loop in outermost:
            streams = tuple(replace(stream, is_outermost=True) for stream in blocked.streams)
            made[loop] = replace(blocked, streams=streams)
        has_rows = loop in outermost or _has_rows_alone(loop, blocked)
        if blocked.is_ordered_if_short and not (has_rows and has_known_trips):
            made[loop] = replace(made[loop], by_rows=None)
    by_rows = {loop: blocked.by_rows for loop, blocked in made.items() if blocked.by_rows}
    own_lengths = {loop for loop, blocked in made.items() if blocked.has_own_lengths}
    if own_lengths and not (
        any(loop in by_rows and by_rows[loop].adds for loop in own_lengths)
        and besides_rows(func.body.eqns, by_rows) is not None
    ):
        return {loop: made[loop] for loop in made if loop not in own_lengths}
    most = MOST_TRANSPOSED // max(sum(len(made[loop].streams) for loop in by_rows), 1)
    # Loops of fewer than INDEPENDENT_LANES iterations always collect in order, in panels.
    if (
        by_rows
        and most >= INDEPENDENT_LANES
        and can_tile_rows(func)
        and all(loop in outermost and _is_panel(func, loop, made[loop]) for loop in by_rows)
    ):
        for loop, rows in by_rows.items():
            made[loop] = replace(made[loop], by_rows=replace(rows, most_in_panels=most))
    return made


def _has_rows_alone(loop: Eqn, blocked: BlockedLoop) -> bool:
    """Whether ``loop`` goes through rows of threads, and no others."""
    known = {*accesses_in_blocks({loop: blocked}), *repeated_loads(loop)}
    accesses = (eqn for eqn in walk_eqns(loop.regions[0]) if eqn.op.kind in ACCESSES)
    return all(eqn in known for eqn in accesses)


def _is_panel(func: Func, loop: Eqn, blocked: BlockedLoop) -> bool:
    """Whether all that ``loop`` reads along rows of threads is the same for all rows of a tile."""
    if blocked.sums or blocked.scatters or not blocked.is_ordered_if_short:
        return False
    index = loop.regions[0].params[0]
    loads = [stream.eqns[0] for stream in blocked.streams if not stream.writes]
    return len(loads) == len(blocked.streams) and all(
        element_indices(load)[-1] is index
        and array_type(load).dtype.bits >= LEAST_BITS
        and is_shared_by_rows(func, load, index)
        for load in loads
    )


def accesses_in_blocks(loops: Mapping[Eqn, BlockedLoop]) -> frozenset[Eqn]:
    """The accesses of lanes to rows of their own that blocks make for ``loops``."""
    streams = (stream for loop in loops.values() for stream in loop.streams)
    added = (eqn for loop in loops.values() for eqn in loop.scatters)
    return frozenset([*added, *(eqn for stream in streams for eqn in stream.eqns)])


def _blocked(loop: Eqn, strides: Strides, defined: Mapping[Var, Eqn]) -> BlockedLoop | None:
    (body,), step = loop.regions, loop.inputs[2]
    if not isinstance(step, Const):
        return None
    has_own_lengths = any(stride_of(strides, a) != 0 for a in loop.inputs[:2])
    if has_own_lengths and not grows_with_thread(loop, strides, defined):
        return None
    eqns = list(walk_eqns(body))
    # An assertion says whether later accesses may be made.
    if any(eqn.op.kind is OpKind.ASSERT for eqn in eqns):
        return None
    accesses = [eqn for eqn in eqns if eqn.op.kind in ACCESSES]
    written = {eqn.inputs[0] for eqn in accesses if eqn.op.kind in WRITES}
    moves = iteration_strides(body, int(step.value))
    computed = _Computed(body, written)
    found: dict[tuple[Atom, ...], list[Eqn]] = {}
    known = [e for e in body.eqns if e.op.kind in ACCESSES and computed.knows(element_indices(e))]
    for eqn in known:
        if _goes_along_row(eqn, strides, moves):
            found.setdefault(eqn.inputs[: 1 + array_type(eqn).ndim], []).append(eqn)
    streams = [_stream(group, moves) for group in found.values()]
    alone = [s for s in streams if _is_alone(s, accesses, written)]
    scatters = _scatters([e for e in known if _is_scatter(e, strides, moves)], accesses, moves)
    if not (alone or scatters):
        return None
    by_rows = _by_rows(loop, alone, accesses, strides)
    if has_own_lengths and not (alone and by_rows is not None):
        return None
    sums: dict[Eqn, int] = {}
    for eqn in known if _is_long(loop) else ():
        if _is_sum_of_lanes(eqn, strides, moves):
            others = (e for e in accesses if e.inputs[0] is eqn.inputs[0])
            if all(_add_apart(eqn, other, body, defined) for other in others):
                sums[eqn] = _last_step(eqn, moves)
    made = [*sums, *scatters, *(s.eqns[0] for s in alone)]
    needed = computed.of([i for eqn in made for i in element_indices(eqn)])
    indices = tuple(eqn for eqn in body.eqns if eqn in needed)
    pairs = {pair: _may_be_one(*pair, accesses) for pair in _pairs(alone, indices, accesses)}
    apart, equal = (tuple(p for p, known in pairs.items() if known is one) for one in (False, True))
    return BlockedLoop(
        *(tuple(alone), sums, scatters, indices, apart, equal, by_rows),
        has_blocks=not has_own_lengths,
        has_own_lengths=has_own_lengths,
    )


def _by_rows(
    loop: Eqn, streams: Sequence[RowStream], accesses: Sequence[Eqn], strides: Strides
) -> IndependentLoop | None:
    """The iterations of ``loop`` as lanes, if it stores to rows of threads alone."""
    carried, own = loop.regions[0].params[1:], {stream.array for stream in streams}
    written = [eqn for eqn in accesses if eqn.op.kind in WRITES and eqn.inputs[0] not in own]
    if any(e.op.kind is not OpKind.ATOMIC_ADD or form_of(e) is not AddForm.SHARED for e in written):
        return None
    if any(stride_of(strides, v) not in (0, None) for v in carried) or any(map(_is_short, carried)):
        return None
    return independent_elements(loop)


def _is_short(value: Var) -> bool:
    """Whether sums of the type of ``value`` round, or wrap, in other than 32 and 64 bits."""
    return not isinstance(value.type, Scalar) or value.type.bits < 32


def _is_long(loop: Eqn) -> bool:
    """Whether ``loop`` is not known to be shorter than half of a block."""
    known = known_trips(loop)
    return known is None or known >= LEAST_TRIPS


def _is_sum_of_lanes(eqn: Eqn, strides: Strides, moves: Strides) -> bool:
    """Whether ``eqn`` adds what all lanes have to one element, which moves along a row."""
    if not _is_shared_addition(eqn, moves):
        return False
    return all(stride_of(strides, i) == 0 for i in element_indices(eqn))


def _is_scatter(eqn: Eqn, strides: Strides, moves: Strides) -> bool:
    """Whether ``eqn`` adds to one column per iteration, in rows that differ among lanes."""
    if not _is_shared_addition(eqn, moves):
        return False
    *outer, last = (stride_of(strides, i) for i in element_indices(eqn))
    return last == 0 and any(s != 0 for s in outer)


def _scatters(found: Sequence[Eqn], accesses: Sequence[Eqn], moves: Strides) -> dict[Eqn, int]:
    """The ``scatters`` of a loop: those ``found`` whose array has one column per iteration.

    No other iteration reaches that column, so lanes and statements keep their order there.
    """
    steps: dict[Eqn, int] = {}
    for eqn in found:
        places = [e for e in accesses if e.inputs[0] is eqn.inputs[0]]
        columns = {element_indices(e)[-1] for e in places}
        if len(columns) == 1 and all(e in found for e in places):
            steps[eqn] = _last_step(eqn, moves)
    return steps


def _is_shared_addition(eqn: Eqn, moves: Strides) -> bool:
    """Whether ``eqn`` adds, in SHARED form, to an element that moves along a row."""
    if eqn.op.kind is not OpKind.ATOMIC_ADD or form_of(eqn) is not AddForm.SHARED:
        return False
    type_ = array_type(eqn)
    if type_.components or not type_.ndim or is_narrow(type_.dtype):
        return False
    *outer, last = (stride_of(moves, i) for i in element_indices(eqn))
    return last in (1, -1) and all(s == 0 for s in outer)


def _add_apart(eqn: Eqn, other: Eqn, body: Region, defined: Mapping[Var, Eqn]) -> bool:
    """Whether no two iterations add to one element by ``eqn`` and by ``other``.

    Both name the same element in each iteration, or are in different rows.
    """
    if element_indices(eqn) == element_indices(other):
        return other in body.eqns
    places = position_of(eqn, defined), position_of(other, defined)
    bases, offsets = ([[part[at] for part in place] for place in places] for at in (0, 1))
    return bases[0] == bases[1] and offsets[0][:-1] != offsets[1][:-1]


def _last_step(eqn: Eqn, moves: Strides) -> int:
    step = stride_of(moves, element_indices(eqn)[-1])
    assert step is not None
    return step


def _goes_along_row(eqn: Eqn, strides: Strides, moves: Strides) -> bool:
    """Whether each thread accesses adjacent elements, but the lanes of a gang do not."""
    is_owned = eqn.op.kind is OpKind.ATOMIC_ADD and form_of(eqn) is AddForm.OWNED
    if not (is_owned or eqn.op.kind in (OpKind.LOAD, OpKind.STORE)):
        return False
    if array_type(eqn).components or not array_type(eqn).ndim:
        return False
    *outer, last = element_indices(eqn)
    if any(stride_of(moves, i) != 0 for i in outer) or stride_of(moves, last) not in (1, -1):
        return False
    across = [stride_of(strides, i) for i in (*outer, last)]
    is_shared = not any(s != 0 for s in across)
    is_dense = across[-1] == 1 and not any(s != 0 for s in across[:-1])
    return not (is_shared or is_dense)


def _stream(eqns: Sequence[Eqn], moves: Strides) -> RowStream:
    loads = eqns[0].op.kind is not OpKind.STORE
    return RowStream(
        tuple(eqns), _last_step(eqns[0], moves), loads, any(e.op.kind in WRITES for e in eqns)
    )


def _is_alone(stream: RowStream, accesses: Sequence[Eqn], written: Collection[Atom]) -> bool:
    """Whether the loop reaches the array of ``stream`` by that alone, or writes it nowhere."""
    if stream.array not in written:
        return True
    return sum(eqn.inputs[0] is stream.array for eqn in accesses) == len(stream.eqns)


def _pairs(
    streams: Sequence[RowStream], indices: Sequence[Eqn], accesses: Sequence[Eqn]
) -> Iterator[tuple[Var, Var]]:
    """Arrays that the loop writes, each with others that blocks access out of order.

    Blocks load streams and what ``indices`` depend on before the iterations of a block, and write
    streams after them.
    """
    written = {eqn.inputs[0] for eqn in accesses if eqn.op.kind in WRITES}
    early = {s.array for s in streams} | {e.inputs[0] for e in indices if e.op.kind is OpKind.LOAD}
    late = {s.array for s in streams if s.writes}
    arrays = dict.fromkeys(eqn.inputs[0] for eqn in accesses)
    for one in arrays:
        for other in arrays:
            assert isinstance(one, Var)
            assert isinstance(other, Var)
            if one in written and one is not other and (one in late or other in early):
                yield one, other


def _may_be_one(written: Var, loaded: Var, accesses: Sequence[Eqn]) -> bool:
    """Whether two arrays may be one: each iteration loads its element before it writes that."""
    loads = [at for at, eqn in enumerate(accesses) if eqn.inputs[0] is loaded]
    writes = [at for at, eqn in enumerate(accesses) if eqn.inputs[0] is written]
    both = [accesses[at] for at in (*loads, *writes)]
    return (
        written.type == loaded.type
        and all(accesses[at].op.kind is OpKind.LOAD for at in loads)
        and max(loads) < min(writes)
        and len({element_indices(eqn) for eqn in both}) == 1
    )


class _Computed:
    """What code before a block can compute of a body: values that depend on its index alone."""

    def __init__(self, body: Region, written: Collection[Atom]) -> None:
        self._maker: dict[Atom, Eqn] = {}
        # Besides the others, values that an iteration takes from the one before it.
        self._unknown: set[Atom] = set(body.params[1:])
        for eqn in body.eqns:
            is_fixed = eqn.op.kind is OpKind.LOAD and eqn.inputs[0] not in written
            if (is_fixed or eqn.op.kind in REPEATABLE) and self.knows(eqn.inputs):
                self._maker[eqn.out] = eqn
            else:
                self._unknown.update(eqn.outputs)

    def knows(self, atoms: Sequence[Atom]) -> bool:
        """Whether ``atoms`` can be computed."""
        return self._unknown.isdisjoint(atoms)

    def of(self, atoms: Sequence[Atom]) -> set[Eqn]:
        """The equations that ``atoms`` need."""
        found: set[Eqn] = set()
        missing = list(atoms)
        while missing:
            eqn = self._maker.get(missing.pop())
            if eqn is not None and eqn not in found:
                found.add(eqn)
                missing += eqn.inputs
        return found
