"""Printed text and assertions: machine code does what the interpreter does."""

from __future__ import annotations

import math
import os
import threading

import jax
import numpy as np
import pytest
import torch
from jax.errors import JaxRuntimeError

import kernelcore as kc
from jax_ffi import jax_kernel
from kernelcore.base.errors import KernelAssertionError, SrcLoc
from kernelcore.builtins import OPS
from kernelcore.codegen import abi
from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Func, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import (
    SCALARS,
    ArrayOf,
    ArrayType,
    Scalar,
    Type,
    boolean,
    float32,
    float64,
    int32,
)
from kernelcore.launch.executable import Executable
from kernelcore.launch.infer_types import Parameter
from kernelcore.launch.kernel import Kernel
from kernelcore.passes.pipeline import normalize, optimize
from kernelcore.passes.vmap import batch
from tests.helpers import interpreter
from tests.helpers.kernel_harness import agree, call, const, launch, make, region
from tests.helpers.threads import run, run_on_host, samples
from torch_ext import torch_op

COUNT = 100_000
ZERO, HERE = const(int32, 0), SrcLoc(__file__, 1, 0, 3)


def kernel_of(func: Func) -> Kernel:
    """A Kernel whose IR is ``func``."""

    def pyfunc() -> None:
        raise NotImplementedError

    made = Kernel(pyfunc)
    made.name = func.name
    normal = normalize(func)
    made.__dict__.update(
        func=normal,
        executable=Executable(lambda: optimize(normal)),
        parameters=tuple(Parameter(p.name, _declared(p.type), None) for p in func.params),
    )
    return made


def _declared(type_: Type) -> ArrayOf | Scalar:
    if isinstance(type_, ArrayType):
        return ArrayOf(type_.dtype, type_.ndim)
    assert isinstance(type_, Scalar)
    return type_


def printing(dtype: Scalar, pieces: tuple[str, str]) -> Func:
    def write(b: Builder, x: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        value = b.emit(ops.LOAD, x, i)
        b.emit_effect(ops.PRINT, i, value, pieces=("", *pieces))

    return make("printing", [ArrayType(dtype, 1)], write, 1)


@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_printed_text_is_that_of_the_interpreter(
    dtype: Scalar, capfd: pytest.CaptureFixture[str]
) -> None:
    func, values = printing(dtype, (": ", "\n")), samples(dtype, 40)
    values[:2] = dtype.limits if dtype.is_integer else [0, 1]
    interpreter.run(func, [values], 40)
    expected = capfd.readouterr().out
    assert launch(func, [values], 40, in_order=True) == abi.STATUS_OK
    assert capfd.readouterr().out == expected
    assert launch(func, [values], 40) == abi.STATUS_OK
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(expected.splitlines())
    shown = [line.split(": ")[1] for line in expected.splitlines()]
    if dtype.is_float:
        assert {"inf", "-inf", "nan", "-0"} <= set(shown)
        assert shown == [f"{float(v):g}" for v in values]
    else:
        assert shown == [str(v) for v in values.tolist()]


def test_the_sign_of_a_nan_is_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    func, values = printing(float32, (" ", "\n")), np.array([-np.nan, np.nan], np.float32)
    launch(func, [values], 2, in_order=True)
    assert capfd.readouterr().out == "0 nan\n1 nan\n"


@pytest.mark.parametrize("text", ["100% %d %%\n", "π → ∞ 🙂\n", 'a"b\\c\t', "a\0b", ""])
def test_literal_text_is_printed_as_it_is(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    func = printing(int32, (text, text))
    interpreter.run(func, [np.array([7], np.int32)], 1)
    expected = capfd.readouterr().out
    launch(func, [np.array([7], np.int32)], 1)
    assert capfd.readouterr().out == expected == f"0{text}7{text}"


@pytest.mark.usefixtures("four_threads")
def test_lines_of_many_threads_stay_whole(capfd: pytest.CaptureFixture[str]) -> None:
    values = np.arange(5000, dtype=np.int32)
    run(printing(int32, (" is ", ", the line of one thread\n")), 5000, [values])
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"{i} is {i}, the line of one thread" for i in range(5000))


def test_a_python_thread_can_read_the_output_of_one_point() -> None:
    def write(b: Builder, x: Var) -> None:
        body = region(b, [int32], lambda k: b.emit_effect(ops.PRINT, k, pieces=("", "\n")))
        b.emit_for(ZERO, b.emit(ops.LOAD, x, ZERO), const(int32, 1), [], body)

    read_end, write_end = os.pipe()
    found: list[str] = []

    def read() -> None:
        with os.fdopen(read_end) as lines:
            found.extend(lines)

    reader, before = threading.Thread(target=read), os.dup(1)
    reader.start()
    os.dup2(write_end, 1)
    os.close(write_end)
    try:
        counting = make("counting", [ArrayType(int32, 1)], write)
        run_on_host(counting, 1, [np.array([COUNT], np.int32)])
    finally:
        os.dup2(before, 1)
        os.close(before)
        reader.join()
    assert found == [f"{k}\n" for k in range(COUNT)]


def asserting() -> Func:
    """Stores ``x`` after two assertions about it."""

    def write(b: Builder, x: Var, y: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        value = b.emit(ops.LOAD, x, i)
        b.loc = HERE
        b.emit_effect(ops.ASSERT, call(b, "less", value, const(float32, 100.0)), text="small")
        b.loc = None
        above = call(b, "greater", value, const(float32, -100.0))
        b.emit_effect(ops.ASSERT, above, text="")
        b.emit_effect(ops.STORE, y, i, call(b, "mul", value, value))

    return make("asserting", [ArrayType(float32, 1)] * 2, write, 1)


SMALL = f'^assertion failed: small\n  File "{__file__}", line 1\n    """Printed'


@pytest.mark.parametrize("points", [1, 10_000])
@pytest.mark.parametrize(
    ("value", "match"), [(200.0, SMALL), (-200.0, "^assertion failed$"), (math.nan, SMALL)]
)
def test_a_failed_assertion_raises_its_message(points: int, value: float, match: str) -> None:
    kernel = kernel_of(asserting())
    x, y = np.ones(points, np.float32), np.zeros(points, np.float32)
    kc.launch(kernel, points, [x], [y])
    assert (y == 1).all()
    x[points // 2] = value
    with pytest.raises(KernelAssertionError, match=match) as compiled:
        kc.launch(kernel, points, [x], [y])
    with pytest.raises(KernelAssertionError, match=match) as interpreted:
        interpreter.run(kernel.func, [x, y], points)
    assert str(compiled.value) == str(interpreted.value)
    assert isinstance(compiled.value, kc.KernelError)
    assert isinstance(compiled.value, AssertionError)


def test_the_status_tells_which_assertion_failed() -> None:
    y = np.zeros(1, np.float32)
    for value, index in ((200.0, 0), (-200.0, 1)):
        status = launch(asserting(), [np.array([value], np.float32), y], 1)
        assert status == abi.STATUS_FIRST_ASSERTION + index
    assert y[0] == 0


def test_torch_operators_report_assertions() -> None:
    operator = torch_op(kernel_of(asserting()))
    assert operator(torch.full((3,), 2.0)).tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(KernelAssertionError, match="assertion failed: small"):
        operator(torch.tensor([1.0, 200.0]))
    found = torch.full((2,), 3.0, requires_grad=True)
    operator(found).sum().backward()
    assert found.grad is not None
    assert found.grad.tolist() == [6.0, 6.0]


def test_jax_functions_report_assertions() -> None:
    function = jax_kernel(kernel_of(asserting()))
    assert np.asarray(function(np.full(3, 2.0, np.float32))[0]).tolist() == [4.0, 4.0, 4.0]
    bad = np.array([1.0, 200.0], np.float32)
    if jax.default_backend() == "cpu":
        with pytest.raises(JaxRuntimeError, match="assertion failed: small"):
            np.asarray(function(bad)[0])
        return
    # A GPU has queued the run when the call returns: what waits next, or runs next, reports it.
    jax.block_until_ready(function(bad))
    with pytest.raises(KernelAssertionError, match="assertion failed: small"):
        kc.synchronize()
    jax.block_until_ready(function(bad))
    with pytest.raises(JaxRuntimeError, match="assertion failed: small"):
        jax.block_until_ready(function(np.ones(2, np.float32)))
    assert np.asarray(function(np.ones(2, np.float32))[0]).tolist() == [1.0, 1.0]


def test_messages_are_no_dead_code() -> None:
    def write(b: Builder, x: Var) -> None:
        value = b.emit(ops.LOAD, x, ZERO)
        b.emit_effect(ops.PRINT, value, pieces=("x is ", "\n"))
        b.emit_effect(ops.ASSERT, call(b, "greater", value, const(float64, 0.0)), text="positive")
        b.emit_effect(ops.ASSERT, const(boolean, True), text="holds always")

    func = normalize(make("messages", [ArrayType(float64, 1)], write))
    kinds = [e.op.kind for e in walk_eqns(func.body)]
    assert kinds == [OpKind.LOAD, OpKind.PRINT, OpKind.PURE, OpKind.ASSERT]


def test_batches_print_and_count_per_instance(capfd: pytest.CaptureFixture[str]) -> None:
    def write(b: Builder, x: Var, count: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        value = b.emit(ops.LOAD, x, i)
        b.emit(ops.ATOMIC, count, ZERO, value, update=OPS["max"])
        b.emit_effect(ops.PRINT, value, pieces=("", ";"))

    func = batch(make("largest", [ArrayType(int32, 1)] * 2, write, 1), [True, True])
    x = np.array([[3, 1], [4, 9]], np.int32)
    _, largest = agree(func, [x, np.zeros((2, 1), np.int32)], [2, 2], in_order=True)
    assert largest.tolist() == [[3], [9]]
    assert capfd.readouterr().out == "3;1;4;9;" * 2
