"""Which stacks are pushed and popped together, and so share one memory, size and check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.codegen.abi import aligned
from kernelcore.ir.core import Atom, Eqn, Func, Region
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_paths
from kernelcore.language.types import Scalar, StackType

_KINDS = (OpKind.STACK, OpKind.PUSH, OpKind.POP)


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field of a record: where it lies, and the distance from one record to the next."""

    offset_bytes: int
    record_bytes: int


@dataclass(frozen=True, slots=True)
class Member:
    """A stack as a field of the records of one shared stack.

    Attributes:
        record: The number of the shared stack.
        widest_first: Its field where the widest ones are first: no bytes are lost between them.
        in_order: Its field where they are in the order of the PUSHes.
        has_one_push: Whether one PUSH makes all records.
        leads: Of the STACKs, PUSHes and POPs of the members, whether this one's is the first.
    """

    record: int
    widest_first: RecordField
    in_order: RecordField
    has_one_push: bool
    leads: dict[OpKind, bool]


@dataclass(frozen=True, eq=False, slots=True)
class _Use:
    """An Eqn of a stack, the regions around it, outermost first, and its place in the program."""

    eqn: Eqn
    regions: tuple[Region, ...]
    place: int


def stack_records(func: Func) -> dict[Atom, Member]:
    """The Member of every stack of ``func``.

    Stacks share where each has one PUSH and one POP, all PUSHes stand in one region, all POPs in
    another, and neither region is in the other: then they always have equally many elements.
    """
    uses: dict[Atom, list[_Use]] = {}
    for place, (eqn, path) in enumerate(walk_paths(func.body)):
        if eqn.op.kind in _KINDS:
            stack = eqn.out if eqn.op.kind is OpKind.STACK else eqn.inputs[0]
            regions = (func.body, *(around.regions[number] for around, number in path))
            uses.setdefault(stack, []).append(_Use(eqn, regions, place))
    groups: dict[object, list[Atom]] = {}
    for stack, known in uses.items():
        groups.setdefault(_group(known) or stack, []).append(stack)
    members: dict[Atom, Member] = {}
    for number, stacks in enumerate(groups.values()):
        members.update(_members(number, stacks, uses))
    return members


def _group(uses: Sequence[_Use]) -> tuple[Region, ...] | None:
    """What stacks that share have in common; None for a stack of its own."""
    ordered = sorted(uses, key=lambda u: _KINDS.index(u.eqn.op.kind))
    if tuple(u.eqn.op.kind for u in ordered) != _KINDS:
        return None
    _, push, pop = ordered
    if push.regions[-1] in pop.regions or pop.regions[-1] in push.regions:
        return None
    return tuple(u.regions[-1] for u in ordered)


def _members(
    number: int, stacks: Sequence[Atom], uses: dict[Atom, list[_Use]]
) -> Iterator[tuple[Atom, Member]]:
    widest_first = _fields(sorted(stacks, key=lambda s: -_dtype(s).size_bytes))
    in_order = _fields(sorted(stacks, key=lambda s: _first_push(uses[s])))
    first: dict[OpKind, int] = {}
    for use in (u for s in stacks for u in uses[s]):
        kind = use.eqn.op.kind
        first[kind] = min(first.get(kind, use.place), use.place)
    has_one_push = all(sum(u.eqn.op.kind is OpKind.PUSH for u in uses[s]) == 1 for s in stacks)
    for stack in stacks:
        known = uses[stack]
        leads = {
            k: len(stacks) == 1 or any(u.eqn.op.kind is k and u.place == first[k] for u in known)
            for k in _KINDS
        }
        yield stack, Member(number, widest_first[stack], in_order[stack], has_one_push, leads)


def _fields(ordered: Sequence[Atom]) -> dict[Atom, RecordField]:
    """The fields of a record in this order, each aligned to its width."""
    offsets, end = dict[Atom, int](), 0
    for stack in ordered:
        width = _dtype(stack).size_bytes
        offsets[stack] = aligned(end, width)
        end = offsets[stack] + width
    record_bytes = aligned(end, max(_dtype(stack).size_bytes for stack in ordered))
    return {stack: RecordField(offset, record_bytes) for stack, offset in offsets.items()}


def _first_push(uses: Sequence[_Use]) -> int:
    return min((u.place for u in uses if u.eqn.op.kind is OpKind.PUSH), default=0)


def _dtype(stack: Atom) -> Scalar:
    assert isinstance(stack.type, StackType)
    return stack.type.dtype
