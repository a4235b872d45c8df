"""Device code against the interpreter: run on this processor, or on a GPU (``engine.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.builtins import OPS
from kernelcore.codegen import abi
from kernelcore.ir import op as ops
from kernelcore.ir.core import Atom, Func
from kernelcore.ir.op import AddForm, OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import INTEGERS, Scalar, float32, float64
from kernelcore.operators import derive
from kernelcore.passes.access.accumulation_plan import form_of
from kernelcore.passes.pipeline import optimize
from tests.bench.suite import CASES
from tests.bench.suite.case import Case
from tests.builtins.test_table import check, interpret, special_operands
from tests.device import corpus, emulation, engine
from tests.helpers import interpreter
from tests.helpers.kernel_harness import elementwise, make, one_call
from tests.helpers.operations import run_operation, smooth
from tests.helpers.patterns import PATTERNS, Pattern
from tests.passes.autodiff.test_derivatives import directions, float_operands, setup

# Of the patterns, the part that is run.
PART = 1 if corpus.IS_WHOLE else 5
SIZES = {2: 20, 1: 300}
# Of sums whose order is that of the threads.
RTOL = 1e-12
ANGLES = [
    pytest.param(n, t, id=f"{n}-{t}") for n in ("sin", "cos", "tan") for t in (float32, float64)
]


def emulated(func: Func, args: Sequence[Any], grid: Sequence[int]) -> None:
    assert engine.run(func, args, grid) == abi.STATUS_OK


def is_exact(func: Func) -> bool:
    """Whether no sum of floats is in the order of the threads."""
    adding = [e for e in walk_eqns(func.body) if e.op.kind is OpKind.ATOMIC_ADD]
    return all(form_of(e) is AddForm.OWNED or not is_float_type(e.inputs[-1]) for e in adding)


def is_float_type(atom: Atom) -> bool:
    return isinstance(atom.type, Scalar) and atom.type.is_float


def compare(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], exact: bool) -> None:
    for x, y in zip(found, wanted, strict=True):
        if exact:
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=RTOL, atol=RTOL)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_timed_kernels_give_the_expected_results(case: Case) -> None:
    data = case.data(SIZES[len(case.data(2).dim)])
    emulated(optimize(case.make(kc).func), data.args, data.dim)
    case.check(data.outputs, data, "device code")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_arrays_of_any_strides_give_the_same_bits(case: Case) -> None:
    data = case.data(SIZES[len(case.data(2).dim)])
    func = optimize(case.make(kc).func)
    args = [spread(a) if isinstance(a, np.ndarray) else a for a in data.args]
    emulated(func, data.args, data.dim)
    emulated(func, args, data.dim)
    compare(args[data.num_inputs :], data.outputs, is_exact(func))


def spread(array: np.ndarray) -> np.ndarray:
    """``array`` with every second element of rows of twice its length."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


@pytest.mark.parametrize("pattern", PATTERNS[::PART], ids=lambda p: p.name)
def test_patterns_and_their_adjoints_are_those_of_the_interpreter(pattern: Pattern) -> None:
    op, point = setup(pattern)
    wanted = run_operation(op, point, interpret=True)
    compare(run_operation(op, point, on=emulated), wanted, is_exact(optimize(op.func)))
    wrt = float_operands(op, point)
    base = smooth(op, point, wrt)
    cts = directions(wanted, range(op.visible), 1)
    derived = derive.vjp(base.operation, wrt, range(op.visible)).operation
    args = [*base.operands, *cts]
    wanted = run_operation(derived, args, interpret=True)
    compare(run_operation(derived, args, on=emulated), wanted, is_exact(optimize(derived.func)))


@pytest.mark.parametrize(("name", "dtype"), ANGLES)
def test_rare_cases_of_elementary_functions_are_branches(name: str, dtype: Scalar) -> None:
    func = one_call(OPS[name], dtype)
    rng = np.random.default_rng(1)
    large = np.exp2(rng.uniform(10, np.log2(np.finfo(dtype.numpy).max), 60)).astype(dtype.numpy)
    columns = [np.concatenate([special_operands(func)[0], large, -large])]
    found = np.zeros_like(columns[0])
    emulated(elementwise(func), [*columns, found], [len(found)])
    check(found, interpret(func, columns), columns)


@pytest.mark.parametrize("dtype", [float32, float64], ids=repr)
@pytest.mark.parametrize("name", ["log", "pow", "tanh", "erfc"])
def test_quotients_in_elementary_functions_are_exact(name: str, dtype: Scalar) -> None:
    func = one_call(OPS[name], dtype)
    near_one = 1.0 + np.arange(-40, 40) * np.finfo(dtype.numpy).epsneg
    drawn = np.random.default_rng(2).normal(0.0, 3.0, (2, 200))
    columns = [
        np.concatenate([special, near_one, values]).astype(dtype.numpy)
        for special, values in zip(special_operands(func), drawn, strict=False)
    ]
    found = np.zeros_like(columns[0])
    emulated(elementwise(func), [*columns, found], [len(found)])
    check(found, interpret(func, columns), columns)


@pytest.mark.parametrize("dtype", [float32, float64], ids=repr)
def test_conversions_to_integers_saturate(dtype: Scalar) -> None:
    targets = [t for t in INTEGERS if t.bits in (8, 32, 64)]
    func = make(
        "casts", [dtype], lambda b, x: [b.emit(ops.CAST, x, dtype=target) for target in targets]
    )
    powers = np.exp2([0.0, 7.0, 8.0, 31.0, 32.0, 63.0, 64.0, 100.0]).astype(dtype.numpy)
    sizes = [np.nextafter(powers, 0), powers, np.nextafter(powers, powers * 2), powers * 0.75]
    x = np.concatenate([*sizes, np.array([0.0, 0.5, np.inf, np.nan], dtype.numpy)])
    x = np.concatenate([x, -x])
    found, wanted = ([np.zeros(len(x), t.numpy) for t in targets] for _ in range(2))
    emulated(elementwise(func), [x, *found], [len(x)])
    interpreter.run(elementwise(func), [x, *wanted], [len(x)])
    compare(found, wanted, True)


@kc.kernel
def reports(x: kc.array(dtype=float), count: kc.int64, name: kc.array(dtype=kc.uint8)):
    i = kc.tid()
    assert x[i] > 0.0
    print("x", i, "is", x[i], count, x[i] > 2.0, "100%")
    name[i] = kc.uint8(i)


def test_printing_is_that_of_the_processor(capfd: pytest.CaptureFixture[str]) -> None:
    args = [np.array([1.5, 2.5, 1e-7], np.float32), -7, np.zeros(3, np.uint8)]
    status, printed, _ = emulation.run(optimize(reports.func), args, 3)
    assert status == abi.STATUS_OK
    kc.launch(reports, dim=3, inputs=args)
    kc.synchronize()
    assert sorted(printed.splitlines()) == sorted(capfd.readouterr().out.splitlines())
    assert len(printed.splitlines()) == 3


@kc.kernel
def prints_zero_bytes(count: kc.int64):
    print("a\0\0\0b", count, "c\0", count + 1)


def test_zero_bytes_are_printed_between_numbers() -> None:
    status, printed, _ = emulation.run(optimize(prints_zero_bytes.func), [7], 1)
    assert (status, printed) == (abi.STATUS_OK, "a\0\0\0b 7 c\0 8\n")


def test_the_first_failing_assertion_is_reported() -> None:
    x, name = np.ones(100, np.float32), np.zeros(100, np.uint8)
    x[70] = -1.0
    status = engine.run(optimize(reports.func), [x, 1, name], 100)
    assert status == abi.STATUS_FIRST_ASSERTION
    assert name[70] == 0
    assert name[69] == 69


@kc.kernel
def accumulates(x: kc.array2d(dtype=float), y: kc.array2d(dtype=float), t: kc.array(dtype=float)):
    i, j = kc.tid()
    y[i, j] += 1.0 / x[i, j]
    kc.atomic_add(t, 0, x[i, j])


def test_a_write_that_is_not_finite_is_reported_with_thread_and_value() -> None:
    x, y, t = np.ones((3, 40), np.float32), np.zeros((3, 40), np.float32), np.zeros(1, np.float32)
    x[1, 33] = 0.0
    with kc.check_finite():
        func = optimize(kc.Kernel(accumulates.pyfunc).func)
    status, _, words = emulation.run(func, [x, y, t], x.shape)
    # The launch index, the bits of the value, the index of the element.
    infinity = int(np.array(np.inf).view(np.int64))
    assert (status, *words[:5]) == (abi.STATUS_FIRST_ASSERTION, 1, 33, infinity, 1, 33)
    x[1, 33] = 1.0
    assert emulation.run(func, [x, y, t], x.shape).status == abi.STATUS_OK


@kc.kernel
def grid_of_three(x: kc.array(dtype=kc.int64, ndim=3), y: kc.array(dtype=kc.int64, ndim=3)):
    i, j, k = kc.tid()
    y[i, j, k] = x[i, j, k] * kc.int64(100) + kc.int64(i * 25 + j * 5 + k)


@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_share_any_grid(blocks: int) -> None:
    x = np.arange(3 * 4 * 10).reshape(3, 4, 10)[:, ::-1, ::2]
    found, wanted = np.zeros((2, *x.shape), np.int64)
    func = optimize(grid_of_three.func)
    engine.run(func, [x, found], x.shape, blocks, threads=64)
    interpreter.run(func, [x, wanted], x.shape)
    np.testing.assert_array_equal(found, wanted)
    engine.run(func, [x, found], (0, 4, 5), blocks)
