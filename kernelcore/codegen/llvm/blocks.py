"""What branches, loops and their masked forms share: phis, indices, and loops of a given length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.ir.core import Var


def type_of(e: Emitter, var: Var) -> str:
    """The LLVM type of the text that ``var`` is bound to."""
    with e.at(e.lanes_of(var)):
        return e.type(scalar_type(var))


def bind_phis(e: Emitter, params: Sequence[Var], values: Sequence[str], block: str) -> list[str]:
    """A phi per parameter of a region, which it is bound to; ``values`` come from ``block``."""
    phis = phis_of(e, [type_of(e, param) for param in params], (values, block))
    e.bind_all(dict(zip(params, phis, strict=True)))
    return phis


def phis_of(e: Emitter, types: Sequence[str], *ends: tuple[Sequence[str], str]) -> list[str]:
    """A phi per LLVM type; ``ends`` are their values with the block that these come from."""
    columns = zip(*(values for values, _ in ends), strict=True) if types else ()
    blocks = [block for _, block in ends]
    rows = (zip(column, blocks, strict=True) for column in columns)
    return [e.phi(ty, *row) for ty, row in zip(types, rows, strict=True)]


def add_edges(e: Emitter, phis: Sequence[str], values: Sequence[str], block: str) -> None:
    """Say what ``phis`` are when entered from ``block``."""
    for phi, value in zip(phis, values, strict=True):
        e.add_edge(phi, value, block)


def repeat(e: Emitter, times: str, emit: Callable[[str], None]) -> None:
    """``emit`` in a loop, for the numbers below ``times``, all i64."""
    before, head, inside, done = e.block, e.label("repeat"), e.label("repeated"), e.label("done")
    e.jump_into(head)
    number = e.phi("i64", ("0", before))
    e.branch(e.op(f"icmp ult i64 {number}, {times}"), inside, done)
    e.start_block(inside)
    emit(number)
    e.add_edge(number, e.op(f"add nuw i64 {number}, 1"), e.block)
    e.jump(head)
    e.start_block(done)


def resized(e: Emitter, value: str, source: str, target: str) -> str:
    """An unsigned number of LLVM type ``source`` as ``target``."""
    if source == target:
        return value
    widens = int(source[1:]) < int(target[1:])
    return e.op(f"{'zext' if widens else 'trunc'} {source} {value} to {target}")
