"""Atomic updates of array elements.

``ATOMIC`` and ``ATOMIC_CAS`` are sequentially consistent, so that what a thread wrote before one is
seen by whoever reads its outcome; ``ATOMIC_ADD`` orders nothing but its own element.
"""

from __future__ import annotations

from kernelcore.base.errors import KernelCompileError
from kernelcore.builtins import float16
from kernelcore.builtins.arithmetic import add
from kernelcore.builtins.reference import is_narrow
from kernelcore.codegen.llvm import access, memory
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.reduction import accumulate, adjacent_sums
from kernelcore.codegen.simd import component_groups
from kernelcore.ir.core import Eqn
from kernelcore.ir.op import AddForm, Op
from kernelcore.language.types import Scalar, boolean
from kernelcore.passes.access.accumulation_plan import form_of


def emit_atomic_add(e: Emitter, eqn: Eqn) -> list[str]:
    """Add to one element and give its old value; plainly if no other thread has the element."""
    refuse_bool(eqn)
    if e.gang > 1 and e.lane_facts.vector_loop is not None:
        return component_groups.emit_addition(e, eqn)
    if eqn in e.lane_sums:
        return accumulate.add_to_register(e, eqn)
    match form_of(eqn):
        case AddForm.OWNED if e.gang > 1 and e.lane_facts.are_iterations:
            # Lanes of one thread may share the element.
            return accumulate.emit_shared(e, eqn)
        case AddForm.OWNED:
            return access.emit_owned_addition(e, eqn)
        case AddForm.SHARED if adjacent_sums.joins(e, eqn):
            return adjacent_sums.emit_adjacent(e, eqn)
        case AddForm.SHARED if eqn in e.row_buffers:
            return accumulate.keep_for_block(e, eqn)
        case AddForm.PARTIAL:
            return accumulate.emit_partial(e, eqn)
        case AddForm.SHARED:
            return accumulate.emit_shared(e, eqn)
        case AddForm.ATOMIC:
            return add_by_instruction(e, eqn)


def refuse_bool(eqn: Eqn) -> None:
    """Truth values have no sum.

    Raises:
        KernelCompileError: ``eqn`` adds one.
    """
    if eqn.inputs[-1].type == boolean:
        raise KernelCompileError("atomic_add on bool", eqn.loc)


def add_by_instruction(e: Emitter, eqn: Eqn) -> list[str]:
    """Add to one element by atomic instructions, and give its old value."""
    dtype, address = memory.element(e, eqn)
    return [add_at(e, dtype, address, e.value(eqn.inputs[-1]))]


def add_at(e: Emitter, dtype: Scalar, address: str, value: str) -> str:
    """``add_by_instruction`` for the element at ``address``."""
    if dtype.is_float and not is_narrow(dtype):
        return e.op(f"atomicrmw fadd ptr {address}, {e.type(dtype)} {value} monotonic")
    return _update(e, dtype, add.op, address, value, "monotonic")


def emit_atomic(e: Emitter, eqn: Eqn) -> list[str]:
    """Replace one element by a function of it and a value, and give its old value."""
    dtype, address = memory.element(e, eqn)
    value = e.value(eqn.inputs[-1])
    return [_update(e, dtype, eqn.attrs["update"], address, value, "seq_cst")]


def emit_atomic_cas(e: Emitter, eqn: Eqn) -> list[str]:
    """Replace one element if its bits are those expected, and give its old value."""
    dtype, address = memory.element(e, eqn)
    expected, desired = (_to_bits(e, dtype, e.value(a)) for a in eqn.inputs[-2:])
    pair = _compare_exchange(e, dtype, address, expected, desired, "seq_cst")
    return [_from_bits(e, dtype, e.op(f"extractvalue {pair}, 0"))]


def _update(
    e: Emitter, dtype: Scalar, update: Op | None, address: str, value: str, order: str
) -> str:
    """One instruction where the processor has it, else compare and exchange until it succeeds."""
    ty = _bits_type(dtype)
    mnemonic = "xchg" if update is None else update.rmw.get(dtype.kind)
    if mnemonic is not None:
        bits = _to_bits(e, dtype, value)
        return _from_bits(
            e, dtype, e.op(f"atomicrmw {mnemonic} ptr {address}, {ty} {bits} {order}")
        )
    assert update is not None
    align = f"align {dtype.size_bytes}"
    first = e.op(f"load atomic {ty}, ptr {address} monotonic, {align}")
    before, again, done = e.block, e.label("again"), e.label("updated")
    e.jump_into(again)
    seen = e.phi(ty)
    old = _from_bits(e, dtype, seen)
    bits = _to_bits(e, dtype, _apply(e, update, dtype, old, value))
    pair = _compare_exchange(e, dtype, address, seen, bits, order)
    current, swapped = (e.op(f"extractvalue {pair}, {at}") for at in (0, 1))
    e.add_edge(seen, first, before)
    e.add_edge(seen, current, e.block)
    e.branch(swapped, done, again)
    e.start_block(done)
    return old


def _compare_exchange(
    e: Emitter, dtype: Scalar, address: str, expected: str, desired: str, order: str
) -> str:
    """A pair of the bits found and whether they were those expected, with its type."""
    ty = _bits_type(dtype)
    operands = f"ptr {address}, {ty} {expected}, {ty} {desired}"
    return f"{{ {ty}, i1 }} {e.op(f'cmpxchg {operands} {order} {order}')}"


def _apply(e: Emitter, update: Op, dtype: Scalar, old: str, value: str) -> str:
    assert update.lower is not None
    return float16.rounded(e, dtype, update.lower(e, float16.held_as(dtype), old, value))


def _bits_type(dtype: Scalar) -> str:
    return f"i{8 * dtype.size_bytes}"


def _to_bits(e: Emitter, dtype: Scalar, value: str) -> str:
    """``value`` as the integer that memory holds."""
    return _bitcast(
        e, memory.encoded(e, dtype, value), memory.stored_type(dtype), _bits_type(dtype)
    )


def _from_bits(e: Emitter, dtype: Scalar, bits: str) -> str:
    """The value that ``bits`` in memory stand for."""
    return memory.decoded(e, dtype, _bitcast(e, bits, _bits_type(dtype), memory.stored_type(dtype)))


def _bitcast(e: Emitter, value: str, source: str, target: str) -> str:
    return value if source == target else e.op(f"bitcast {source} {value} to {target}")
