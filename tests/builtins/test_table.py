"""Every check over the whole table of built-ins: a new entry is tested by being in it."""

from __future__ import annotations

import ast
import ctypes
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernelcore.base.errors import KernelGradError
from kernelcore.builtins import BUILTINS, OPS
from kernelcore.builtins.declare import Float, Int, builtin, registering
from kernelcore.builtins.lowering import identity
from kernelcore.builtins.syntax import BINARY, BOOLEAN, COMPARE, UNARY
from kernelcore.codegen.llvm.emitter import scalar_type
from kernelcore.codegen.target import cpu
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Func, Var
from kernelcore.ir.op import LOAD, STORE, Op
from kernelcore.language.types import TYPE_CLASSES, ArrayType, Scalar, float32, float64
from kernelcore.passes.autodiff.jvp import jvp
from kernelcore.passes.autodiff.vjp import vjp
from tests.helpers import interpreter
from tests.helpers.kernel_harness import elementwise, emit_lanes, is_float, launch, make, one_call
from tests.helpers.maths_reference import INTEGER_DOMAIN, float_domain

SAMPLES = 200
LANES = 8


def dtypes(op: Op) -> tuple[Scalar, ...]:
    """Types that the last operand of ``op``, the one with its type variable, can have."""
    return TYPE_CLASSES[list(op.params.values())[-1]]


def special_values(dtype: Scalar) -> list[Any]:
    if dtype.kind == "bool":
        return [False, True]
    if dtype.is_integer:
        least, most = dtype.limits
        near = [-33, -2, -1, 0, 1, 3, 7, 8, 31, 32, 64]
        return [least, least + 1, *(v for v in near if v >= least), most - 1, most]
    limits = ml_dtypes.finfo(dtype.numpy)
    exact = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, float(limits.max), float(limits.smallest_subnormal)]
    return [np.nan, np.inf, -np.inf, *exact, *(-v for v in exact)]


def special_operands(func: Func) -> list[np.ndarray]:
    """All combinations of special values along the parameters of ``func``."""
    values = [special_values(scalar_type(p)) for p in func.params]
    rows = list(itertools.product(*values))
    columns = zip(*rows, strict=True)
    return [np.array(c, scalar_type(p).numpy) for c, p in zip(columns, func.params, strict=True)]


def random_operands(op: Op, func: Func) -> list[np.ndarray]:
    """Values drawn from the domain of ``op``."""
    rng = np.random.default_rng(7)
    columns: list[np.ndarray] = []
    for param in func.params:
        match scalar_type(param).kind:
            case "bool":
                drawn = rng.integers(0, 2, SAMPLES)
            case "int" | "uint":
                least = max(INTEGER_DOMAIN[0], scalar_type(param).limits[0])
                drawn = rng.integers(least, INTEGER_DOMAIN[1] + 1, SAMPLES)
            case _:
                drawn = rng.uniform(*float_domain(op.name), SAMPLES)
        columns.append(drawn.astype(scalar_type(param).numpy))
    return columns


def interpret(func: Func, columns: list[np.ndarray]) -> np.ndarray:
    results = [interpreter.run_function(func, row)[0] for row in zip(*columns, strict=True)]
    return np.array(results, scalar_type(func.body.yields[0]).numpy)


def check(found: np.ndarray, expected: np.ndarray, columns: list[np.ndarray]) -> None:
    wrong = found != expected
    if is_float(expected.dtype):
        wrong &= ~(np.isnan(found) & np.isnan(expected))
        wrong |= (np.signbit(found) != np.signbit(expected)) & ~np.isnan(expected)
    wrong = wrong.astype(bool)
    operands = [tuple(c[wrong][:5]) for c in columns]
    assert not wrong.any(), (operands, found[wrong][:5], expected[wrong][:5])


CASES = [pytest.param(op, t, id=f"{op.name}-{t}") for op in OPS.values() for t in dtypes(op)]


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_machine_code_agrees_with_the_interpreter(op: Op, dtype: Scalar) -> None:
    func = one_call(op, dtype)
    kernel = elementwise(func)
    for columns in (random_operands(op, func), special_operands(func)):
        found = np.zeros(len(columns[0]), scalar_type(func.body.yields[0]).numpy)
        assert launch(kernel, [*columns, found], len(found)) == 0
        check(found, interpret(func, columns), columns)


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_several_lanes_agree_with_the_interpreter(op: Op, dtype: Scalar) -> None:
    func = one_call(op, dtype)
    symbol = f"lanes_{op.name}_{dtype}"
    code = cpu.object_code(emit_lanes(func, symbol, LANES))
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(func.params) + 1))(
        cpu.load(code, symbol)
    )
    columns = [np.ascontiguousarray(c[:LANES]) for c in random_operands(op, func)]
    found = np.zeros(LANES, scalar_type(func.body.yields[0]).numpy)
    call(*(c.ctypes.data for c in (*columns, found)))
    check(found, interpret(func, columns), columns)


DERIVATIVES = [
    pytest.param(op, argument, formula, id=f"{op.name}-{argument}")
    for op in OPS.values()
    if op.grad is not None and float64 in dtypes(op)
    for argument, formula in ({a: op.grad.get(a, "0.0 * ct") for a in op.params}).items()
    if float64 in TYPE_CLASSES[op.params[argument]]
]


@pytest.mark.parametrize(("op", "argument", "formula"), DERIVATIVES)
def test_derivative_formula_agrees_with_central_differences(
    op: Op, argument: str, formula: str
) -> None:
    func = one_call(op, float64)
    names, step, ct = list(op.params), 1e-6, 1.7
    at = names.index(argument)
    for row in zip(*random_operands(op, func), strict=True):
        below, above = list(row), list(row)
        below[at], above[at] = row[at] - step, row[at] + step
        (low,), (high,) = (
            interpreter.run_function(func, below),
            interpreter.run_function(func, above),
        )
        (out,) = interpreter.run_function(func, row)
        env = {**BUILTINS, **dict(zip(names, row, strict=True)), "out": out, "ct": ct}
        expected = ct * (high - low) / (2 * step)
        np.testing.assert_allclose(eval(formula, {}, env), expected, rtol=1e-5, atol=1e-7)


def test_formulas_at_ties_and_zeros_follow_the_documented_choice() -> None:
    def derivative(name: str, argument: str, **values: float) -> Any:
        op = OPS[name]
        assert op.ref is not None
        assert op.grad is not None
        env = {k: np.float64(v) for k, v in values.items()} | {"ct": 1.0}
        with np.errstate(all="ignore"):
            env["out"] = op.ref(*(env[p] for p in op.params))
            return eval(op.grad[argument], {}, {**BUILTINS, **env})

    assert derivative("min", "x", x=1, y=1) == 0.5
    assert derivative("max", "y", x=1, y=1) == 0.5
    assert derivative("abs", "x", x=0) == 0
    assert derivative("sqrt", "x", x=0) == np.inf
    assert derivative("pow", "y", x=0, y=2) == 0
    assert derivative("pow", "x", x=0, y=0) == 0
    assert derivative("pow", "x", x=0, y=1) == 1
    assert derivative("clamp", "x", x=1, lo=1, hi=2) == 1
    assert derivative("clamp", "x", x=2, lo=1, hi=2) == 1
    assert derivative("clamp", "lo", x=0, lo=1, hi=2) == 1
    assert derivative("clamp", "hi", x=3, lo=1, hi=2) == 1


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_every_entry_is_documented_and_decides_on_its_derivative(op: Op) -> None:
    assert op.doc.endswith(".")
    assert (op.grad is None) != (op.no_grad is None)
    for formula in (op.grad or {}).values():
        names = {n.id for n in ast.walk(ast.parse(formula)) if isinstance(n, ast.Name)}
        assert names <= {*op.params, "out", "ct", *OPS}
        assert "ct" in names


def test_entries_without_a_derivative_give_no_float() -> None:
    # Hence no value that varies goes through one of them.
    results = {op.result for op in OPS.values() if op.no_grad is not None}
    assert not any(t.is_float for name in results for t in TYPE_CLASSES[name])


def test_a_float_without_a_derivative_is_refused_with_its_reason() -> None:
    def staircase(x: Float) -> Float:
        """Steps."""
        ...  # noqa: PIE790  tells type checkers that there is no body

    with registering():
        entry = builtin(lower=identity, ref=np.floor, no_grad="it has steps")(staircase)

    def write(b: Builder, x: Var, y: Var) -> None:
        b.emit_effect(STORE, y, b.emit(entry.op, b.emit(LOAD, x)))

    func = make("steps", [ArrayType(float64, 0)] * 2, write)
    for differentiate in (lambda: jvp(func, [0]), lambda: vjp(func, [0], [1])):
        with pytest.raises(KernelGradError, match=r"staircase\(\) has no derivative: it has steps"):
            differentiate()


def test_host_calls_evaluate_the_reference() -> None:
    assert BUILTINS["sin"](0.5) == np.sin(0.5)
    assert BUILTINS["pow"](y=3, x=2) == 8.0
    assert BUILTINS["exp2"](np.arange(3, dtype=np.float32)).tolist() == [1, 2, 4]
    assert BUILTINS["atan2"](y=1.0, x=0.0) == np.pi / 2
    assert BUILTINS["where"](True, 1, 2) == 1
    assert BUILTINS["div"](np.float32(1), np.float32(0)) == np.inf
    with pytest.raises(TypeError, match="expected the arguments x"):
        BUILTINS["sin"]()


def test_operators_map_to_entries_of_the_table() -> None:
    for table in (BINARY, UNARY, COMPARE, BOOLEAN):
        assert all(entry.op is OPS[entry.op.name] for entry in table.values())
    assert BINARY[ast.FloorDiv].op is OPS["floordiv"]


def test_table_is_sealed() -> None:
    def late(x: Float) -> Float: ...

    with pytest.raises(TypeError):
        OPS["late"] = OPS["sin"]  # pyright: ignore[reportIndexIssue]
    with pytest.raises(ValueError, match="sealed"):
        builtin(lower=str, ref=float, grad={})(late)


def test_inconsistent_declarations_are_refused() -> None:
    def entry(x: Float) -> Float: ...

    def untyped(x: complex) -> Int: ...

    with registering():
        with pytest.raises(ValueError, match="exactly one"):
            builtin(lower=str, ref=float)(entry)
        with pytest.raises(ValueError, match="exactly one"):
            builtin(lower=str, ref=float, grad={}, no_grad="both")(entry)
        with pytest.raises(ValueError, match=r"\['z'\]: no arguments"):
            builtin(lower=str, ref=float, grad={"z": "ct"})(entry)
        with pytest.raises(ValueError, match="no type classes"):
            builtin(lower=str, ref=float, grad={})(untyped)
        builtin(lower=str, ref=float, grad={})(entry)
        with pytest.raises(ValueError, match="declared twice"):
            builtin(lower=str, ref=float, grad={})(entry)


def test_float32_results_are_float32() -> None:
    func = one_call(OPS["erf"], float32)
    assert interpreter.run_function(func, [0.5])[0].dtype == np.float32
