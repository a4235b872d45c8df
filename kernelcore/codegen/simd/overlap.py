"""Loops that begin the quotients and roots of a turn before the end of the turn before it.

A processor that waits for its divider runs what comes next, as far as it sees, and that ends
within a turn. So a turn makes its own quotients and roots first, and then what needs those of the
turn before. Nothing else waits for a turn, since registers are few: what both need is made twice.
LLVM would put the end of the turn before wherever registers seem to ask for it, often first; it is
kept behind the first quotients and roots by needing them, as far as LLVM can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.uniformity import Strides
from kernelcore.codegen.llvm.blocks import add_edges, bind_phis, goes_on, next_index, unit_step
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.llvm.float16 import held_as
from kernelcore.codegen.llvm.instruction_cost import instructions_of, slow_instructions
from kernelcore.codegen.simd.interleaved import shuffled
from kernelcore.ir.core import Atom, Eqn, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import atoms_in, bound_vars

_KINDS = frozenset({OpKind.PURE, OpKind.CAST, OpKind.DIM, OpKind.LOAD})
# Turns with a single quotient or root hand it to the divider in time.
LEAST_SLOW = 2
# With more instructions per quotient or root, there is enough to do beside the divider.
MOST_INSTRUCTIONS = 12
# So many of them may be made twice.
MOST_TWICE = 2
# Of so many values of the turn before there are registers enough.
MOST_CROSSING = 2
# The registers of processors that have enough of them, and the part of one that any processor has.
REGISTER_BYTES, PART_BYTES = 64, 16


@dataclass(frozen=True, slots=True)
class Overlap:
    """A turn in two parts.

    Attributes:
        early: The quotients and roots that need nothing of the turn before, and what they need.
        late: What the yields need but for those; some of it is in ``early``, too.
        crossing: The quotients and roots that ``late`` or its yields use.
        begun: Those that are begun before ``late``: what ``crossing`` waits for, if there is any.
    """

    early: Region
    late: Region
    crossing: tuple[Var, ...]
    begun: tuple[Var, ...]


def overlap(loop: Eqn, strides: Strides) -> Overlap | None:
    """The parts of a turn of the FOR ``loop``; None where it is better left alone.

    ``strides`` tell what differs among the threads of a gang.
    """
    (body,) = loop.regions
    if not unit_step(loop.inputs[2]) or not _is_repeatable(body, strides):
        return None
    slow = _slow(body, strides)
    if len(slow) < LEAST_SLOW:
        return None
    if _instructions(body.eqns, strides) > MOST_INSTRUCTIONS * len(slow):
        return None
    late = _needed(body.eqns, body.yields, slow)
    used = atoms_in(Region((), late, body.yields))
    crossing = tuple(v for v in slow if v in used)
    early = _needed(body.eqns, crossing, ())
    twice = _instructions(set(early).intersection(late), strides)
    if not 0 < len(crossing) <= MOST_CROSSING or twice > MOST_TWICE * len(slow):
        return None
    made = {out for eqn in early for out in eqn.outputs}
    begun = tuple(v for v in slow if v in made and v not in crossing) or crossing
    return Overlap(Region((), early), Region((), late, body.yields), crossing, begun)


def emit_overlapped(
    e: Emitter, eqn: Eqn, parts: Overlap, bounds: tuple[str, str], entries: Sequence[str]
) -> list[str]:
    """The FOR ``eqn``, whose step is one, from the first of ``bounds`` to before the second."""
    (first, limit), carried = bounds, eqn.regions[0].params[1:]
    labels = ("first", "for", "turn", "last", "done")
    before, (begin, head, turn, last, done) = e.block, (e.label(hint) for hint in labels)
    e.branch(goes_on(e, eqn, first, limit), begin, done)
    e.place(begin)
    begun, second, start = _early(e, eqn, parts, first), next_index(e, eqn, first), e.block
    e.jump(head)
    e.place(head)
    position = e.phi(LLVM_TYPES[scalar_type(eqn.inputs[0]).name])
    phis, crossed = bind_phis(e, carried), bind_phis(e, parts.crossing)
    add_edges(e, [position, *phis, *crossed], [second, *entries, *begun], start)
    e.branch(goes_on(e, eqn, position, limit), turn, last)
    e.place(turn)
    begun, following = _early(e, eqn, parts, position), next_index(e, eqn, position)
    ended = _late(e, eqn, parts, position, crossed, parts.begun)
    add_edges(e, [position, *phis, *crossed], [following, *ended, *begun], e.block)
    e.jump(head)
    e.place(last)
    e.bind_all(dict(zip(carried, phis, strict=True)))
    ended, end = _late(e, eqn, parts, position, crossed), e.block
    e.jump(done)
    e.place(done)
    results = bind_phis(e, eqn.outputs)
    add_edges(e, results, entries, before)
    add_edges(e, results, ended, end)
    return results


def _early(e: Emitter, eqn: Eqn, parts: Overlap, position: str) -> list[str]:
    """What crosses into the turn after that at ``position``."""
    e.bind(eqn.regions[0].params[0], position)
    e.region(parts.early)
    return e.values(parts.crossing, parts.crossing)


def _late(
    e: Emitter,
    eqn: Eqn,
    parts: Overlap,
    position: str,
    crossed: Sequence[str],
    begun: Sequence[Var] = (),
) -> list[str]:
    """The end of the turn before ``position``, behind ``begun``, and what it yields."""
    index, *carried = eqn.regions[0].params
    ty = LLVM_TYPES[scalar_type(index).name]
    ended = e.op(f"sub {ty} {position}, {unit_step(eqn.inputs[2])}")
    # LLVM would find that much of this was made a turn ago, and keep it in registers.
    operands = [f"{ty} {ended}", *(part for var in begun for part in _parts(e, var))]
    given, taken = ",X" * (len(operands) - 1), ", ".join(operands)
    e.bind(index, e.op(f'call {ty} asm "", "=r,0{given}"({taken}) nounwind memory(none)'))
    e.bind_all(dict(zip(parts.crossing, crossed, strict=True)))
    e.region(parts.late)
    return e.values(parts.late.yields, carried)


def _parts(e: Emitter, var: Var) -> list[str]:
    """A part of every register that holds ``var``, with its type."""
    scalar, value = held_as(scalar_type(var)), e.value_at(var, e.gang)
    element = LLVM_TYPES[scalar.name]
    part, step = (size // scalar.size_bytes for size in (PART_BYTES, REGISTER_BYTES))
    part = min(part, e.gang)
    return [
        f"<{part} x {element}> {shuffled(e, element, value, e.gang, range(k, k + part))}"
        for k in range(0, e.gang, step)
    ]


def _is_repeatable(body: Region, strides: Strides) -> bool:
    """Whether a turn may run in part early and in part twice: nothing stores, nor loads by lane."""
    changing = bound_vars(body)
    if not all(e.op.kind in _KINDS for e in body.eqns):
        return False
    loads = [e for e in body.eqns if e.op.kind is OpKind.LOAD]
    return all(strides[e.out] == 0 or changing.isdisjoint(e.inputs) for e in loads)


def _slow(body: Region, strides: Strides) -> tuple[Var, ...]:
    """The quotients and roots that need nothing of the turn before."""
    waiting, found = set[Atom](body.params[1:]), list[Var]()
    for eqn in body.eqns:
        if not waiting.isdisjoint(eqn.inputs):
            waiting.update(eqn.outputs)
        elif _is_computed(eqn, strides) and slow_instructions(eqn):
            found.append(eqn.out)
    return tuple(found)


def _needed(eqns: Sequence[Eqn], atoms: Iterable[Atom], given: Sequence[Var]) -> tuple[Eqn, ...]:
    """Those of ``eqns`` that ``atoms`` need where ``given`` are there already."""
    wanted, found = set(atoms).difference(given), list[Eqn]()
    for eqn in reversed(eqns):
        if not wanted.isdisjoint(eqn.outputs):
            found.append(eqn)
            wanted.update(set(eqn.inputs).difference(given))
    return tuple(reversed(found))


def _instructions(eqns: Iterable[Eqn], strides: Strides) -> int:
    return sum(len(instructions_of(e)) for e in eqns if _is_computed(e, strides))


def _is_computed(eqn: Eqn, strides: Strides) -> bool:
    return eqn.op.kind is OpKind.PURE and strides[eqn.out] is None
