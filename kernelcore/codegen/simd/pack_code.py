"""Vectors of a single thread: packs of equations, and values that loops carry together."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.packs import Pack
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter, Lanes, scalar_type
from kernelcore.codegen.reduction.accumulate import Ways, add_shared
from kernelcore.codegen.reduction.element_add import add_alone, add_together
from kernelcore.ir.core import Atom, Eqn, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import array_type


def emit_pack(e: Emitter, pack: Pack) -> None:
    """Emit the equations of ``pack`` as one."""
    e.text.mark(pack.eqns[0].loc)
    match pack.kind:
        case OpKind.ATOMIC_ADD:
            _emit_additions(e, pack)
        case OpKind.LOAD:
            _bind(e, pack, _loaded(e, pack))
        case _:
            _bind(e, pack, _computed(e, pack))


def _bind(e: Emitter, pack: Pack, found: str) -> None:
    """Let ``found`` be the results of ``pack``."""
    e.joined[pack.results] = found
    for lane, out in enumerate(pack.results):
        if out in pack.alone:
            e.bind(out, _lane(e, found, pack.results, lane))


def _computed(e: Emitter, pack: Pack) -> str:
    """The results of a pack of pure equations."""
    first, size = pack.eqns[0], len(pack.eqns)
    operands: list[Atom] = []
    strides: dict[Var, int | None] = {}
    for given in pack.operands():
        operand = given[0]
        if len(set(given)) > 1:
            operand = Var(operand.type)
            e.bind(operand, vector(e, given))
        elif isinstance(operand, Var):
            strides[operand] = 0
        operands.append(operand)
    made = Var(first.out.type)
    with e.as_lanes(Lanes(size, strides)):
        e.eqn(Eqn(first.op, tuple(operands), (made,), loc=first.loc))
    found = e.bound(made)
    assert isinstance(found, str)
    return found


def _loaded(e: Emitter, pack: Pack) -> str:
    """The elements of a pack of loads."""
    first, size = pack.eqns[0], len(pack.eqns)
    dtype = array_type(first).dtype
    if _are_adjacent(e, first):
        address = memory.element(e, first)[1]
        with e.as_lanes(Lanes(size)), e.at(size):
            return memory.load(e, dtype, address)
    e.bind_all({q.out: memory.load(e, *memory.element(e, q)) for q in pack.eqns})
    return vector(e, pack.results)


def _are_adjacent(e: Emitter, eqn: Eqn) -> bool:
    """Whether elements one behind the other on the last axis of an array are so in memory."""
    return e.array(eqn.inputs[0]).strides[-1] == str(array_type(eqn).dtype.size_bytes)


def vector(e: Emitter, atoms: Sequence[Atom]) -> str:
    """A vector of the values of ``atoms``, each of one lane."""
    key = tuple(atoms)
    if key not in e.joined:
        element, found = LLVM_TYPES[scalar_type(key[0]).name], "poison"
        for lane, atom in enumerate(key):
            place = f"<{len(key)} x {element}> {found}, {element} {e.value_at(atom, 1)}"
            found = e.op(f"insertelement {place}, i64 {lane}")
        e.joined[key] = found
    return e.joined[key]


def spread(e: Emitter, found: str, params: Sequence[Var]) -> list[str]:
    """Let ``params`` be the lanes of the vector ``found``; their values."""
    e.joined[tuple(params)] = found
    lanes = [_lane(e, found, params, lane) for lane in range(len(params))]
    e.bind_all(dict(zip(params, lanes, strict=True)))
    return lanes


def type_of(atoms: Sequence[Atom]) -> str:
    """The LLVM type of a vector of ``atoms``."""
    return f"<{len(atoms)} x {LLVM_TYPES[scalar_type(atoms[0]).name]}>"


def _lane(e: Emitter, found: str, atoms: Sequence[Atom], lane: int) -> str:
    return e.op(f"extractelement {type_of(atoms)} {found}, i64 {lane}")


def _emit_additions(e: Emitter, pack: Pack) -> None:
    """Add to adjacent elements: together if they are adjacent in memory, too."""
    assert e.accumulation is not None
    log, first, (values,) = e.accumulation.log, pack.eqns[0], pack.operands()
    dtype, added = array_type(first).dtype, vector(e, values)
    places = [memory.element(e, eqn)[1] for eqn in pack.eqns]

    def one_by_one(add: str) -> None:
        for lane, address in enumerate(places):
            value = _lane(e, added, values, lane)
            if add == "alone":
                add_alone(e, dtype, address, value)
            else:
                add_together(e, log, dtype, address, value, in_place=False)

    def alone() -> None:
        if not _are_adjacent(e, first):
            one_by_one("alone")
            return
        with e.as_lanes(Lanes(len(values))), e.at(len(values)):
            add_alone(e, dtype, places[0], added)

    add_shared(e, [first], Ways(lambda: one_by_one("together"), alone))
