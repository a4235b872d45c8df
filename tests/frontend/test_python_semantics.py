"""Functions of the kernel language mean what Python says: the interpreter agrees with CPython."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.frontend.specialize import specialize_kernel
from kernelcore.ir.core import Func
from kernelcore.ir.op import OpKind
from kernelcore.ir.verify import verify
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.annotations import parameter_nodes, required_type
from kernelcore.language.source import read_source
from kernelcore.passes.simplify.inline import inline
from tests.helpers import interpreter, programs_control
from tests.helpers.programs import CASES, F64, I32, X, square

# Importing this module adds to CASES.
_ = programs_control


def specialize_function(function: kc.Function) -> Func:
    """``function``, whose parameters are annotated with concrete types, on its own."""
    pyfunc = function.overloads[0].pyfunc
    source = read_source(pyfunc)
    types: list[Any] = [required_type(source, node) for node in parameter_nodes(source)]
    return specialize_kernel(pyfunc, types, is_kernel=False)


def copied(args: Sequence[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


@pytest.mark.parametrize(("function", "calls"), CASES, ids=lambda c: getattr(c, "name", ""))
def test_functions_agree_with_python(function: kc.Function, calls: list[tuple[Any, ...]]) -> None:
    func = verify(specialize_function(function))
    for lowered in (func, verify(inline(func))):
        for call in calls:
            ours, theirs = copied(call), copied(call)
            found = interpreter.run_function(lowered, ours)
            wanted = function(*theirs)
            values = wanted if isinstance(wanted, tuple) else (wanted,)
            expected = () if wanted is None else values
            np.testing.assert_allclose(np.array(found, float), np.array(expected, float), 1e-6)
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(a, b, 1e-12)


def test_closures_are_constants() -> None:
    def make(power: int) -> kc.Function:
        @kc.func
        def raised(x: kc.float64):
            out = 1.0
            for _ in range(power):
                out *= x
            return out

        return raised

    for power in (0, 2, 5):
        (found,) = interpreter.run_function(specialize_function(make(power)), [1.5])
        assert found == 1.5**power


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_tid_gives_one_index_per_target(rank: int) -> None:
    def one(o: I32):
        i = kc.tid()
        o[i] = i

    def two(o: I32):
        i, j = kc.tid()
        o[i * 2 + j] = i * 10 + j

    def three(o: I32):
        i, j, k = kc.tid()
        o[(i * 2 + j) * 2 + k] = i * 100 + j * 10 + k

    def four(o: I32):
        i, j, k, m = kc.tid()
        o[((i * 2 + j) * 2 + k) * 2 + m] = i * 1000 + j * 100 + k * 10 + m

    func = verify(specialize_kernel([one, two, three, four][rank - 1]))
    assert func.grid_rank == rank
    out = np.zeros(2**rank, np.int32)
    interpreter.run(func, [out], [2] * rank)
    np.testing.assert_array_equal(out, [int(f"{i:b}") for i in range(2**rank)])


def test_early_return_guards_the_rest_of_a_kernel() -> None:
    def guarded(x: F64, o: F64):
        i = kc.tid()
        if i >= len(x):
            return
        o[i] = 2.0 * x[i]

    out = np.zeros(6)
    interpreter.run(verify(specialize_kernel(guarded)), [X, out], [6])
    np.testing.assert_array_equal(out, [*(2 * X), 0, 0])


def test_atomic_add_gives_the_old_value() -> None:
    def tickets(count: I32, o: I32):
        i = kc.tid()
        o[i] = kc.atomic_add(count, 0, 2)

    count, out = np.zeros(1, np.int32), np.zeros(3, np.int32)
    interpreter.run(verify(specialize_kernel(tickets)), [count, out], [3])
    np.testing.assert_array_equal(out, [0, 2, 4])
    assert count[0] == 6


def kinds(func: Any) -> list[OpKind]:
    return [e.op.kind for e in walk_eqns(func.body)]


def test_a_loop_with_only_continue_stays_a_for() -> None:
    def skips(x: F64):
        for i in range(len(x)):
            if x[i] > 1.0:
                continue
            x[i] = 0.0

    assert OpKind.WHILE not in kinds(specialize_kernel(skips))


@pytest.mark.parametrize("operator", ["*=", "/="])
def test_an_element_is_read_before_its_new_value(operator: str, tmp_path: Path) -> None:
    text = f"""
        import kernelcore as kc
        F64 = kc.array(dtype=kc.float64)
        @kc.func
        def bump(y: F64, i: int) -> kc.float64:
            y[i] = y[i] + 1.0
            return y[i]
        @kc.func
        def scale(y: F64):
            y[0] {operator} bump(y, 0)
        """
    file = tmp_path / "scale.py"
    file.write_text(textwrap.dedent(text))
    scope: dict[str, Any] = {"__name__": "scale"}
    exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), scope)
    ours, theirs = X.copy(), X.copy()
    interpreter.run_function(specialize_function(scope["scale"]), [ours])
    scope["scale"](theirs)
    np.testing.assert_array_equal(ours, theirs)


def test_cheap_conditions_are_not_branches() -> None:
    def both(a: int, b: int, x: F64):
        if a > 0 and b > 0 and a < len(x):
            x[0] = 1.0

    assert kinds(specialize_kernel(both)).count(OpKind.IF) == 1


def test_every_eqn_has_a_location() -> None:
    def some(x: F64, n: int):
        i = kc.tid()
        s = 0.0
        for k in range(n):
            if x[i] > s:
                break
            s = square(x[i]) + kc.float64(k)
        x[i] = s

    func = inline(specialize_kernel(some))
    assert all(e.loc is not None for e in walk_eqns(func.body))
    assert func.loc is not None
    assert all(func.param_loc(k) is not None for k in range(2))


def test_a_function_is_specialised_once_per_types() -> None:
    def twice(x: F64):
        x[0] = square(x[0]) + square(x[1])

    func = specialize_kernel(twice)
    callees = {e.attrs["callee"] for e in walk_eqns(func.body) if e.op.kind is OpKind.CALL}
    assert len(callees) == 1


def test_annotations_may_be_objects_or_text(tmp_path: Path) -> None:
    text = """
        import kernelcore as kc
        class Box:
            def fill(x: kc.array2d[{dtype}], n: int):
                i, j = kc.tid()
                x[i, j] = float(n) + 0.5
        """
    for name, head in (("objects", ""), ("text", "from __future__ import annotations")):
        file = tmp_path / f"{name}.py"
        file.write_text(head + textwrap.dedent(text.format(dtype="float")))
        scope: dict[str, Any] = {"__name__": name}
        exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), scope)
        func = verify(specialize_kernel(scope["Box"].fill))
        out = np.zeros((2, 3), np.float32)
        interpreter.run(func, [out, 4], [2, 3])
        assert np.all(out == 4.5)
        store = func.body.eqns[-1].loc
        assert store is not None
        lines = file.read_text().splitlines()
        assert lines[store.line - 1][store.col : store.end_col] == "x[i, j]"
