"""The vector and matrix library: values against NumPy, derivatives against differences."""

from __future__ import annotations

import linecache
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.builtins import BUILTINS, LIBRARY
from kernelcore.language.composite import value_class
from kernelcore.language.types import Dense, Scalar
from kernelcore.operators.operation import Operation
from kernelcore.operators.shape_rules import kernel_operation
from tests.helpers.algebra import Arrays, Case, type_named
from tests.helpers.algebra_table import CASES
from tests.helpers.kernel_harness import unoptimised
from tests.helpers.operations import run_operation
from tests.passes.autodiff.test_derivatives import difference, directions, dot, pull, push

POINTS = 3
# Rounding errors of a function, in units of the dtype's precision.
ERRORS = 200
cases = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
dtypes = pytest.mark.parametrize("dtype", [kc.float32, kc.float64], ids=str)


def kernel(case: Case, dtype: Scalar) -> kc.Kernel:
    """A kernel that maps ``case.function`` over arrays."""
    types = [type_named(code, dtype) for code in (*case.args, *case.results)]
    values = [value_class(t) if isinstance(t, Dense) else t for t in types]
    n, m = len(case.args), len(case.results)
    names = [f"x{k}" for k in range(n)] + [f"y{k}" for k in range(m)]
    params = ", ".join(f"{name}: T{k}" for k, name in enumerate(names))
    inputs = ", ".join(f"{name}[i]" for name in names[:n])
    found = [f"r{k}" for k in range(m)]
    lines = [
        f"def mapped({params}):",
        "    i = kc.tid()",
        f"    {', '.join(found)} = f({inputs})",
        *(f"    {y}[i] = {r}" for y, r in zip(names[n:], found, strict=True)),
    ]
    text, file = "\n".join(lines) + "\n", f"<{case.name} {dtype}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    function = case.function if isinstance(case.function, kc.Function) else kc.func(case.function)
    space: dict[str, Any] = {f"T{k}": kc.array(dtype=v) for k, v in enumerate(values)}
    space |= {"kc": kc, "f": function}
    exec(compile(text, file, "exec"), space)
    return kc.kernel(space["mapped"])


@cache
def operation(case: Case, dtype: Scalar) -> Operation:
    names = [f"y{k}" for k in range(len(case.results))]
    return kernel_operation(kernel(case, dtype), names)


@cache
def point(case: Case, dtype: Scalar) -> Arrays:
    """Arguments of ``POINTS`` threads."""
    rng = np.random.default_rng(7)
    drawn = [case.draw(rng, case.args) for _ in range(POINTS)]
    return [np.stack(column).astype(dtype.numpy) for column in zip(*drawn, strict=True)]


def reference(case: Case, args: Arrays) -> Arrays:
    rows: list[Any] = []
    for k in range(POINTS):
        found = case.reference(*(np.float64(a[k]) for a in args))
        rows.append(found if isinstance(found, tuple) else (found,))
    return [np.stack(column) for column in zip(*rows, strict=True)]


def on_host(case: Case, dtype: Scalar, args: Arrays) -> Arrays:
    """The results of calling the function on values of the host."""
    types = [type_named(code, dtype) for code in case.args]
    rows: list[Any] = []
    for k in range(POINTS):
        values = [
            value_class(t)(a[k]) if isinstance(t, Dense) else dtype(a[k])
            for t, a in zip(types, args, strict=True)
        ]
        found = case.function(*values)
        rows.append(found if isinstance(found, tuple) else (found,))
    return [np.stack([np.asarray(x) for x in column]) for column in zip(*rows, strict=True)]


def check(found: Arrays, want: Arrays, dtype: Scalar) -> None:
    """Equal up to rounding, relative to the largest number of a result."""
    eps = float(np.finfo(dtype.numpy).eps)
    for a, b in zip(found, want, strict=True):
        assert a.dtype == dtype.numpy
        bound = ERRORS * eps * max(1.0, float(np.abs(b).max()))
        np.testing.assert_allclose(a, b, rtol=0.0, atol=bound)


@cases
@dtypes
def test_host_values_have_the_closed_form(case: Case, dtype: Scalar) -> None:
    args = point(case, dtype)
    check(on_host(case, dtype, args), reference(case, args), dtype)


@cases
@dtypes
@pytest.mark.parametrize("interpret", [True, False], ids=["interpreted", "compiled"])
def test_kernels_have_the_closed_form(case: Case, dtype: Scalar, interpret: bool) -> None:
    args = point(case, dtype)
    found = run_operation(operation(case, dtype), args, interpret=interpret)
    check(found, reference(case, args), dtype)


@cases
@unoptimised()
def test_derivatives_match_central_differences(case: Case) -> None:
    op, args = operation(case, kc.float64), point(case, kc.float64)
    wrt = list(range(len(args)))
    along = directions(args, wrt, 1)
    want = difference(lambda p: run_operation(op, p), args, wrt, along)
    tangent = push(op, args, wrt, along, False)
    for a, b in zip(tangent, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    cts = directions(want, range(len(want)), 2)
    backward = dot(pull(op, args, wrt, cts, False), along)
    np.testing.assert_allclose(backward, dot(cts, tangent), rtol=1e-9, atol=1e-9)


def test_every_function_is_in_the_table() -> None:
    tested = {re.split("[-:]", case.name)[0] for case in CASES}
    modules = {"vector", "matrix", "quaternion", "transform", "spatial", "decomposition"}
    functions = {
        name
        for name, function in LIBRARY.items()
        if function.overloads[0].pyfunc.__module__.rsplit(".", 1)[1] in modules
    }
    apart = {"identity", "quat_identity", "transform_identity", "argmin", "argmax"}
    assert functions - apart <= tested


def test_composites_share_the_names_of_three_scalar_operations() -> None:
    assert set(LIBRARY) & set(BUILTINS) >= {"mul", "min", "max"}
