"""Column walks: loops in which each lane goes down a column of its own, a few rows at a time.

    for k in range(n):                      for k0 in range(0, n, 8):
        total += x[k, j]                        for every gang of many columns j:
    y[j] = total                  becomes           total = totals[j]
                                                    for k in range(k0, min(k0 + 8, n)):
                                                        total += x[k, j]
                                                    totals[j] = total
                                            for every gang: y[j] = totals[j]

A gang alone reads a short piece of every row: each one lies on another page, and rows of a power of
two bytes take each other's place in the caches. Each thread does the same in the same order either
way. What differs from thread to thread is kept between the parts; what gangs share, such as launch
indices, each part computes anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from functools import lru_cache

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.codegen.analysis.gathered_sums import Bounds
from kernelcore.codegen.analysis.row_blocks import blocked_loops
from kernelcore.codegen.analysis.uniformity import Strides, lane_strides
from kernelcore.codegen.simd.cost_model import MAX_EQNS_OF_MANY_BODIES
from kernelcore.codegen.simd.gang_work import is_dense, moving_axes
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ACCESSES, LOAD, REPEATABLE, STORE, TID, WRITES, AddForm, OpKind
from kernelcore.ir.walk import array_type, element_indices, used_atoms, walk_eqns
from kernelcore.language.types import ArrayType, Scalar
from kernelcore.passes.access.accumulation_plan import are_known, form_of, launch_values
from kernelcore.passes.access.trips import known_trips
from kernelcore.passes.simplify.dead_code import dce

# Loops that are known to have fewer iterations run whole (docs/decisions/309).
LEAST_TRIPS = 32
# Kernels whose threads keep more bytes are not cut.
MOST_KEPT_BYTES = 64

_PLAIN = REPEATABLE | {OpKind.LOAD, OpKind.STORE, OpKind.IF}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of iterations of a loop by steps of 1.

    Attributes:
        bounds: Start, stop and step of the loop, which the launch decides.
        first: The parameter for the index of the first iteration.
        end: The parameter for the index behind the last one.
    """

    bounds: Bounds
    first: Var
    end: Var


@dataclass(frozen=True, slots=True)
class Part:
    """What all gangs of a strip run before the next part.

    Attributes:
        func: The kernel of this part.
        block: The block of a loop that it runs; None outside of loops.
    """

    func: Func
    block: Block | None


@dataclass(frozen=True, slots=True)
class ColumnWalks:
    """A kernel that is made of loops down columns.

    Attributes:
        parts: The parts, in order; one with a block runs for each block of its loop.
        kept: Arrays for what the loops carry, and for what later parts need, with an element for
            each index along the last launch axis; parameters of the parts.
        apart: Pairs of arrays, one that the kernel writes and another from which parts load anew,
            which must share no memory.
    """

    parts: tuple[Part, ...]
    kept: tuple[Var, ...]
    apart: tuple[tuple[Var, Var], ...]

    @property
    def bounds(self) -> tuple[Bounds, ...]:
        """The bounds of all loops."""
        return tuple(part.block.bounds for part in self.parts if part.block is not None)

    @property
    def bytes_of_thread(self) -> int:
        """The size of what a thread keeps."""
        return sum(dtype_of(array).size_bytes for array in self.kept)


@lru_cache(maxsize=4)
def column_walks(func: Func) -> ColumnWalks | None:
    """``func`` in parts; None if its threads do more than walk down columns."""
    if sum(1 for _ in walk_eqns(func.body)) > MAX_EQNS_OF_MANY_BODIES:
        return None
    loops = [e for e in func.body.eqns if e.op.kind is OpKind.FOR]
    strides, known = lane_strides(func), launch_values(func)
    others = Region((), tuple(e for e in func.body.eqns if e.op.kind is not OpKind.FOR))
    if not loops or not all(map(_is_plain, walk_eqns(others))):
        return None
    if not all(_is_walk(loop, strides, known) for loop in loops):
        return None
    # Where a loop goes along rows, too, gangs transpose blocks of them.
    if blocked_loops(func, strides):
        return None
    shared = [e for e in others.eqns if any(strides[v] is not None for v in e.outputs)]
    written = dict.fromkeys(e.inputs[0] for e in walk_eqns(func.body) if e.op.kind in WRITES)
    if not all(_is_repeatable(e, written) for e in shared):
        return None
    loaded = dict.fromkeys(e.inputs[0] for e in shared if e.op.kind is OpKind.LOAD)
    apart = tuple(
        (x, y) for x in written for y in loaded if isinstance(x, Var) and isinstance(y, Var)
    )
    found = _Cut(func, shared).walks(apart)
    return found if found.bytes_of_thread <= MOST_KEPT_BYTES else None


def _is_repeatable(eqn: Eqn, written: Collection[Atom]) -> bool:
    """Whether each part may compute what ``eqn`` does, in a kernel that has ``written`` arrays."""
    if eqn.op.kind is OpKind.LOAD:
        return eqn.inputs[0] not in written
    return eqn.op.kind in REPEATABLE


def _is_walk(loop: Eqn, strides: Strides, known: Set[Atom]) -> bool:
    """Whether lanes go down columns in ``loop``."""
    (body,), (start, stop, step) = loop.regions, loop.inputs[:3]
    index, *carried = body.params
    if not isinstance(step, Const) or step.value != 1 or not are_known((start, stop), known):
        return False
    trips = known_trips(loop)
    if (trips is not None and trips < LEAST_TRIPS) or not all(map(_is_plain, walk_eqns(body))):
        return False
    if any(strides[v] is not None or not isinstance(v.type, Scalar) for v in carried):
        return False
    moving = _moving(body, index)
    return any(_is_column(e, moving, strides) for e in walk_eqns(body))


def _is_plain(eqn: Eqn) -> bool:
    """Whether a part may have ``eqn``: no loop, and no effect that other threads may see."""
    if eqn.op.kind is OpKind.ATOMIC_ADD:
        return form_of(eqn) is AddForm.OWNED
    return eqn.op.kind in _PLAIN


def _moving(body: Region, index: Var) -> set[Atom]:
    """The values of ``body`` that depend on ``index``."""
    found: set[Atom] = {index}
    for eqn in walk_eqns(body):
        if not found.isdisjoint(eqn.inputs):
            found.update(eqn.outputs)
    return found


def _is_column(eqn: Eqn, moving: Collection[Atom], strides: Strides) -> bool:
    """Whether lanes access neighbours in a row that the values ``moving`` decide."""
    if eqn.op.kind not in ACCESSES or not is_dense(eqn, moving_axes(eqn, strides), strides):
        return False
    outer = element_indices(eqn)[: array_type(eqn).outer_ndim - 1]
    return any(a in moving for a in outer)


class _Cut:
    """Makes the parts of a kernel: one for each section, which is a loop or what is between loops.

    Sections of odd numbers are the loops.

    Attributes:
        func: The kernel.
        shared: Equations outside of loops whose results all threads of a gang share, or that grow
            from one to the next.
        home: By value that differs from thread to thread, the number of its section.
        array_of: The array of each value that another section needs, or that a loop carries.
    """

    def __init__(self, func: Func, shared: Collection[Eqn]) -> None:
        self.func, self.shared = func, shared
        self.sections = _sections(func)
        self.home: dict[Var, int] = {}
        self.array_of: dict[Var, Var] = {}
        for at, section in enumerate(self.sections):
            for eqn in section:
                is_loop = eqn.op.kind is OpKind.FOR
                # The section before a loop starts what that carries.
                self._keep(eqn.inputs, at - 1 if is_loop else at)
                for region in eqn.regions:
                    self._keep(region.yields, at)
                    for inner in region.eqns:
                        self._keep(used_atoms(inner), at)
                if is_loop:
                    self.array_of |= {v: _kept_array(v) for v in eqn.outputs}
                if eqn not in shared:
                    self.home |= dict.fromkeys(eqn.outputs, at)

    def _keep(self, atoms: Iterable[Atom], at: int) -> None:
        """Keep those of ``atoms`` that other sections than ``at`` make."""
        for atom in atoms:
            if isinstance(atom, Var) and self.home.get(atom, at) != at:
                self.array_of.setdefault(atom, _kept_array(atom))

    def walks(self, apart: tuple[tuple[Var, Var], ...]) -> ColumnWalks:
        """The kernel in parts."""
        parts = [
            self._loop(at, section[0]) if at % 2 else self._between(at)
            for at, section in enumerate(self.sections)
        ]
        parts = [p for p in parts if any(e.op.kind in WRITES for e in walk_eqns(p.func.body))]
        return ColumnWalks(tuple(parts), tuple(self.array_of.values()), apart)

    def _between(self, at: int) -> Part:
        """Runs a section between loops, and starts what the next one carries."""
        builder, place = self._begun(at)
        for eqn in self.sections[at]:
            if eqn not in self.shared:
                builder.append(eqn)
        made = {v: v for v in self.array_of if self.home[v] == at}
        for loop in self.sections[at + 1] if at + 1 < len(self.sections) else ():
            made |= dict(zip(loop.outputs, loop.inputs[3:], strict=True))
        for var, value in made.items():
            builder.emit_effect(STORE, self.array_of[var], place, value)
        return Part(self._kernel(builder, ()), None)

    def _loop(self, at: int, loop: Eqn) -> Part:
        """Runs a block of ``loop``."""
        builder, place = self._begun(at)
        index, (start, stop, step) = loop.regions[0].params[0], loop.inputs[:3]
        first, end = (Var(index.type, name) for name in ("first", "end"))
        carried = [builder.emit(LOAD, self.array_of[v], place) for v in loop.outputs]
        outputs = tuple(Var(v.type, v.name) for v in loop.outputs)
        builder.append(replace(loop, inputs=(first, end, step, *carried), outputs=outputs))
        for out, value in zip(loop.outputs, outputs, strict=True):
            builder.emit_effect(STORE, self.array_of[out], place, value)
        return Part(self._kernel(builder, (first, end)), Block((start, stop, step), first, end))

    def _begun(self, at: int) -> tuple[Builder, Var]:
        """What section ``at`` needs of others, and the place of a thread in the kept arrays."""
        builder = Builder()
        place = builder.emit(TID, axis=self.func.rank - 1)
        for eqn in self.shared:
            builder.append(eqn)
        for var, array in self.array_of.items():
            if self.home[var] < at:
                builder.append(Eqn(LOAD, (array, place), (var,)))
        return builder, place

    def _kernel(self, builder: Builder, params: Sequence[Var]) -> Func:
        given = (*self.func.params, *self.array_of.values(), *params)
        body = Region(given, tuple(builder.eqns))
        return dce(replace(self.func, body=body, param_locs=()))


def _sections(func: Func) -> list[list[Eqn]]:
    """What is before the first loop, this loop, what is before the next one, and so on."""
    found: list[list[Eqn]] = [[]]
    for eqn in func.body.eqns:
        if eqn.op.kind is OpKind.FOR:
            found += [[eqn], []]
        else:
            found[-1].append(eqn)
    return found


def dtype_of(array: Var) -> Scalar:
    """The type of the elements of ``array``."""
    assert isinstance(array.type, ArrayType)
    return array.type.dtype


def _kept_array(var: Var) -> Var:
    assert isinstance(var.type, Scalar)
    return Var(ArrayType(var.type, 1), var.name)
