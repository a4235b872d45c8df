"""Ill-formed IR is a VerifyError, whatever is wrong with it."""

from __future__ import annotations

import pytest

from kernelcore.base.errors import VerifyError
from kernelcore.builtins.arithmetic import add, bitand, neg
from kernelcore.builtins.logic import less
from kernelcore.ir import op as ops
from kernelcore.ir.core import Const, Eqn, Func, Region, Var
from kernelcore.ir.verify import verify
from kernelcore.language.types import ArrayType, StackType, boolean, float32, float64, int32

X = Var(ArrayType(float32, 1), "x")
A = Var(float32, "a")
FLAGS = Var(ArrayType(boolean, 1), "flags")
I = Var(int32, "i")  # noqa: E741 - an index
ZERO, ONE, TRUE = Const(int32, 0), Const(float32, 1.0), Const(boolean, True)
EMPTY = Region((), ())


def out(dtype=float32) -> Var:
    return Var(dtype, "out")


STACK = Var(StackType(float32), "stack")
TWICE = out()

ILL_FORMED: dict[str, list[Eqn]] = {
    "used before it is bound": [Eqn(add.op, (out(), ONE), (out(),))],
    "bound twice": [Eqn(add.op, (ONE, ONE), (TWICE,)), Eqn(add.op, (ONE, ONE), (TWICE,))],
    "operands of two types": [Eqn(add.op, (ONE, Const(float64, 1.0)), (out(),))],
    "too few operands": [Eqn(add.op, (ONE,), (out(),))],
    "result of another type": [Eqn(add.op, (ONE, ONE), (out(float64),))],
    "literal of another type": [Eqn(add.op, (ONE, Const(float32, 1)), (out(),))],
    "pure with a region": [Eqn(add.op, (ONE, ONE), (out(),), {}, (EMPTY,))],
    "cast to nothing": [Eqn(ops.CAST, (ONE,), (out(),))],
    "cast of an array": [Eqn(ops.CAST, (X,), (out(),), {"dtype": float32})],
    "tid of no axis": [Eqn(ops.TID, (), (out(int32),))],
    "tid of another axis": [Eqn(ops.TID, (), (out(int32),), {"axis": 1})],
    "dim of a scalar": [Eqn(ops.DIM, (A,), (out(int32),), {"axis": 0})],
    "dim of another axis": [Eqn(ops.DIM, (X,), (out(int32),), {"axis": 1})],
    "load of nothing": [Eqn(ops.LOAD, (), (out(),))],
    "load of a scalar": [Eqn(ops.LOAD, (A, ZERO), (out(),))],
    "load without an index": [Eqn(ops.LOAD, (X,), (out(),))],
    "load at a float": [Eqn(ops.LOAD, (X, ONE), (out(),))],
    "store of another type": [Eqn(ops.STORE, (X, ZERO, Const(float64, 1.0)))],
    "store of nothing": [Eqn(ops.STORE, (X, ZERO))],
    "stack of nothing": [Eqn(ops.STACK, (), (out(),))],
    "push of another type": [
        Eqn(ops.STACK, (), (STACK,), {"dtype": float32}),
        Eqn(ops.PUSH, (STACK, ZERO)),
    ],
    "pop of an array": [Eqn(ops.POP, (X,), (out(),))],
    "if without branches": [Eqn(ops.IF, (TRUE,))],
    "if on a number": [Eqn(ops.IF, (ONE,), (), {}, (EMPTY, EMPTY))],
    "if that yields on one side": [
        Eqn(ops.IF, (TRUE,), (out(),), {}, (Region((), (), (ONE,)), EMPTY))
    ],
    "for without bounds": [Eqn(ops.FOR, (), (), {}, (Region((I,), ()),))],
    "for that carries another type": [
        Eqn(
            ops.FOR,
            (ZERO, ZERO, ZERO, ONE),
            (out(),),
            {},
            (Region((Var(int32), Var(float64)), (), (ONE,)),),
        )
    ],
    "while on a number": [Eqn(ops.WHILE, (), (), {}, (Region((), (), (ONE,)), EMPTY))],
    "while without a body": [Eqn(ops.WHILE, (), (), {}, (Region((), (), (TRUE,)),))],
    "atomic update by a function of one argument": [
        Eqn(ops.ATOMIC, (X, ZERO, ONE), (out(),), {"update": neg.op})
    ],
    "atomic update to another type": [
        Eqn(ops.ATOMIC, (X, ZERO, ONE), (out(),), {"update": less.op})
    ],
    "atomic update of bits of a float": [
        Eqn(ops.ATOMIC, (X, ZERO, ONE), (out(),), {"update": bitand.op})
    ],
    "atomic arithmetic on bools": [
        Eqn(ops.ATOMIC, (FLAGS, ZERO, TRUE), (out(boolean),), {"update": add.op})
    ],
    "atomic without an update": [Eqn(ops.ATOMIC, (X, ZERO, ONE), (out(),))],
    "compare and swap of one value": [Eqn(ops.ATOMIC_CAS, (X, ZERO, ONE), (out(),))],
    "print with too few texts": [Eqn(ops.PRINT, (A,), (), {"pieces": ("x",)})],
    "print of an array": [Eqn(ops.PRINT, (X,), (), {"pieces": ("", "")})],
    "assert of a number": [Eqn(ops.ASSERT, (ONE,), (), {"text": ""})],
    "assert without a text": [Eqn(ops.ASSERT, (TRUE,))],
    "call of nothing": [Eqn(ops.CALL, ())],
}


@pytest.mark.parametrize("case", ILL_FORMED)
def test_ill_formed_ir_is_refused(case: str) -> None:
    func = Func("ill", Region((X, A, FLAGS), tuple(ILL_FORMED[case])), 1)
    with pytest.raises(VerifyError, match=r"^ill: "):
        verify(func)


def test_well_formed_ir_passes() -> None:
    index = Var(int32, "i")
    eqns = (Eqn(ops.TID, (), (index,), {"axis": 0}), Eqn(ops.STORE, (X, index, A)))
    func = Func("well", Region((X, A), eqns), 1)
    assert verify(func) is func
