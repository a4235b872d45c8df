"""What derived kernels compute once, and what they must not."""

from __future__ import annotations

import numpy as np

from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Func, Var
from kernelcore.ir.verify import verify
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import ArrayType, boolean, float64, int32
from kernelcore.passes.simplify.common_subexpressions import merge_equal
from kernelcore.passes.simplify.dead_code import dce
from tests.helpers.kernel_harness import agree, call, const, make, region

FLOATS = ArrayType(float64, 1)


def merged(func: Func) -> Func:
    return verify(dce(merge_equal(func)))


def count(func: Func, op: ops.Op) -> int:
    return sum(e.op is op for e in walk_eqns(func.body))


def test_equal_values_and_loads_of_constant_arrays_are_computed_once() -> None:
    def write(b: Builder, x: Var, y: Var) -> None:
        parts: list[Var] = []
        for _ in range(3):
            value = b.emit(ops.LOAD, x, b.emit(ops.TID, axis=0))
            parts.append(call(b, "sin", call(b, "mul", value, const(float64, 2.0))))
        total = call(b, "add", call(b, "add", parts[0], parts[1]), parts[2])
        b.emit_effect(ops.STORE, y, b.emit(ops.TID, axis=0), total)

    func = make("repeated", [FLOATS, FLOATS], write, 1)
    found = merged(func)
    assert [count(found, op) for op in (ops.TID, ops.LOAD)] == [1, 1]
    assert sum(1 for _ in walk_eqns(found.body)) == 7
    x = np.array([0.3, 0.7])
    before, after = (agree(f, [x, np.zeros(2)], 2)[1] for f in (func, found))
    np.testing.assert_array_equal(before, after)


def test_loads_of_written_arrays_stay() -> None:
    def write(b: Builder, x: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        first = b.emit(ops.LOAD, x, i)
        b.emit_effect(ops.STORE, x, i, call(b, "add", first, const(float64, 1.0)))
        again = b.emit(ops.LOAD, x, i)
        b.emit_effect(ops.STORE, x, i, call(b, "mul", first, again))

    func = make("rewritten", [FLOATS], write, 1)
    assert count(merged(func), ops.LOAD) == 2
    np.testing.assert_array_equal(agree(merged(func), [np.array([3.0])], 1)[0], [12.0])


def test_values_of_a_branch_are_not_reused_outside_of_it() -> None:
    def write(b: Builder, x: Var, y: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        value = b.emit(ops.LOAD, x, i)
        outer = call(b, "sin", value)

        def branch() -> list[Var]:
            return [call(b, "add", call(b, "sin", value), call(b, "cos", value))]

        cond = call(b, "less", value, const(float64, 0.5))
        (chosen,) = b.emit_if(cond, region(b, [], branch), region(b, [], branch))
        rest = call(b, "mul", call(b, "cos", value), outer)
        b.emit_effect(ops.STORE, y, i, call(b, "add", chosen, rest))

    func = make("branches", [FLOATS, FLOATS], write, 1)
    found = merged(func)
    names = [e.op.name for e in walk_eqns(found.body)]
    assert names.count("sin") == 1
    assert names.count("cos") == 3
    x = np.array([0.3, 0.7])
    before, after = (agree(f, [x, np.zeros(2)], 2)[1] for f in (func, found))
    np.testing.assert_array_equal(before, after)


def test_constants_are_equal_bit_for_bit_and_of_one_type() -> None:
    def write(b: Builder, y: Var, z: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        x = b.emit(ops.LOAD, y, i)
        for sign, at in ((0.0, 1), (-0.0, 2)):
            value = call(b, "div", x, call(b, "mul", x, const(float64, sign)))
            b.emit_effect(ops.STORE, z, const(int32, at), value)
        both = call(b, "logical_and", const(boolean, True), call(b, "isnan", x))
        b.emit_if(both, region(b, [], lambda: None), region(b, [], lambda: None))

    func = make("signs", [FLOATS, FLOATS], write, 1)
    found = agree(merged(func), [np.array([1.0]), np.zeros(3)], 1)[1]
    np.testing.assert_array_equal(found, [0.0, np.inf, -np.inf])
