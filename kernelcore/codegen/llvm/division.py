"""Quotients and remainders of integers that neighbours in a gang divide by one number.

Launch indices grow by one from lane to lane, and so do indices into periodic grids,
``(i + 1) % n``, and the two parts of a flat index, ``i // w`` and ``i % w``: the lanes of nearly
all gangs have one quotient. One scalar division then serves the gang
(docs/decisions/159-shared-quotients.md).
"""

from __future__ import annotations

from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.ir.core import Const, Eqn
from kernelcore.ir.op import Division


def has_shared_quotient(e: Emitter, eqn: Eqn) -> bool:
    """Whether ``eqn`` divides integers that differ among the lanes by a number they share.

    LLVM makes a product of the division by a literal.
    """
    if e.lanes == 1 or eqn.op.division is None or not scalar_type(eqn.out).is_integer:
        return False
    divisor = eqn.inputs[1]
    return not isinstance(divisor, Const) and e.stride(divisor) == 0


def emit_shared_quotient(e: Emitter, eqn: Eqn) -> str:
    """The result of ``eqn``: from lane 0's quotient if all lanes have it, else lane by lane.

    The test is exact for every operand. Where ``base = quotient * divisor`` is not negative and
    no dividend is below it, ``dividend - base`` does not wrap; it is the remainder of every lane
    in which it is below a positive divisor.
    """
    dividend, divisor = eqn.inputs
    dtype = scalar_type(eqn.out)
    element, wide = LLVM_TYPES[dtype.name], e.type(dtype)
    signed = "u" if dtype.kind == "uint" else "s"
    values, by = e.value(dividend), e.value_at(divisor, 1)
    first = e.op(f"extractelement {wide} {values}, i64 0")
    is_positive = e.op(f"icmp {signed}gt {element} {by}, 0")
    # The division by 1 never traps; its result is not used.
    safe = e.op(f"select i1 {is_positive}, {element} {by}, {element} 1")
    quotient = e.op(f"{signed}div {element} {first}, {safe}")
    base = e.op(f"mul {element} {quotient}, {safe}")
    rest = e.op(f"sub {wide} {values}, {(bases := e.splat(element, base))}")
    is_above = e.op(f"icmp {signed}ge {wide} {values}, {bases}")
    is_below = e.op(f"icmp ult {wide} {rest}, {e.splat(element, by)}")
    lanes = e.op(f"and <{e.lanes} x i1> {is_above}, {is_below}")
    e.declare(f"declare i1 @llvm.vector.reduce.and.v{e.lanes}i1(<{e.lanes} x i1>)")
    is_shared = e.op(f"call i1 @llvm.vector.reduce.and.v{e.lanes}i1(<{e.lanes} x i1> {lanes})")
    if signed == "s":
        starts = e.op(f"icmp sge {element} {first}, 0")
        is_positive = e.op(f"and i1 {is_positive}, {starts}")
    is_shared = e.op(f"and i1 {is_positive}, {is_shared}")
    shared, differing, end = (e.label(f"quotient_{hint}") for hint in ("same", "differs", "end"))
    e.branch(is_shared, shared, differing)
    e.start_block(shared)
    found = rest if eqn.op.division is Division.REMAINDER else e.splat(element, quotient)
    shared = e.block
    e.jump(end)
    e.start_block(differing)
    assert eqn.op.lower is not None
    general = eqn.op.lower(e, dtype, values, e.value(divisor))
    differing = e.block
    e.jump(end)
    e.start_block(end)
    return e.phi(wide, (found, shared), (general, differing))
