"""What operations cost: the instructions of one thread."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain

from kernelcore.builtins.float16 import held_as
from kernelcore.codegen.llvm.emitter import Emitter, Facts, Lanes, scalar_type
from kernelcore.ir.core import Eqn
from kernelcore.ir.op import Op, OpKind
from kernelcore.language.types import Scalar

# A division or a square root counts as this many instructions more.
SLOW = 8

_SLOW_NAMES = ("fdiv", "llvm.sqrt")
_INTEGER_QUOTIENTS = ("sdiv", "udiv", "srem", "urem")


def instructions_of(eqn: Eqn) -> tuple[str, ...]:
    """The instructions of one thread that a pure ``eqn`` is."""
    return _instructions(eqn.op, held_as(scalar_type(eqn.inputs[-1])))


def count_of(eqn: Eqn) -> int:
    """How many instructions of one thread ``eqn`` is; 1 if it is not pure."""
    return len(instructions_of(eqn)) if eqn.op.kind is OpKind.PURE else 1


def slow_instructions(eqn: Eqn) -> int:
    """How many quotients and square roots a pure ``eqn`` takes."""
    return _count(eqn.op, held_as(scalar_type(eqn.inputs[-1])), _SLOW_NAMES)


def integer_quotients(eqn: Eqn) -> int:
    """How many quotients and remainders of integers a pure ``eqn`` takes."""
    return _count(eqn.op, held_as(scalar_type(eqn.inputs[-1])), _INTEGER_QUOTIENTS)


@lru_cache(maxsize=1024)
def _count(op: Op, dtype: Scalar, names: tuple[str, ...]) -> int:
    return sum(any(name in text for name in names) for text in _instructions(op, dtype))


@lru_cache(maxsize=1024)
def _instructions(op: Op, dtype: Scalar) -> tuple[str, ...]:
    assert op.lower is not None
    # The order of sums follows from the cost, which must be the same on every processor.
    e = Emitter(Lanes(), facts=Facts(fused=True))
    op.lower(e, dtype, *("undef" for _ in op.params))
    # What is defined beside the kernel is inlined.
    defined = (d.splitlines()[1:] for d in e.text.declarations if d.startswith("define"))
    return (*e.text.lines(), *chain.from_iterable(defined))
