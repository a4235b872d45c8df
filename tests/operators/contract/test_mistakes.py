"""Mistakes in calls of an operator are named alike for the arrays of every framework."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportGeneralTypeIssues=false, reportOptionalMemberAccess=false

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.operators.contract.cases import CASES, Case, Floats, axpy, polar, wave
from tests.operators.contract.libraries import LIBRARIES, converted
from tests.operators.contract.runs import wide  # noqa: F401


@kc.op(mutates="y")
@kc.kernel
def increase(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = y[i] + x[i]


def arrays_of(case: Case, library: str) -> Iterator[tuple[int, str | None]]:
    """The places of arrays in the arguments: positions, and fields of mappings."""
    for k, arg in enumerate(case.args):
        if isinstance(arg, np.ndarray):
            yield k, None
        elif isinstance(arg, dict) and not (library == "kernelcore" and k in case.dtypes):
            yield from ((k, name) for name, field in arg.items() if isinstance(field, np.ndarray))


WRONG = [
    pytest.param(case, library, k, field, id=f"{case.name}-{library}-{k}-{field}")
    for case in CASES
    if "generic" not in case.name and case.name != "empty of any rank"
    for library in case.frameworks
    for k, field in arrays_of(case, library)
]


@pytest.mark.parametrize(("case", "library", "k", "field"), WRONG)
def test_an_array_of_another_type_is_named(
    case: Case, library: str, k: int, field: str | None
) -> None:
    args = [converted(library, a, case.dtypes.get(j)) for j, a in enumerate(case.args)]
    if field is None:
        wrong = case.args[k].astype(np.int16)
        args[k] = converted(library, wrong)
        name = list(inspect.signature(case.op).parameters)[k]
    else:
        wrong = case.args[k][field].astype(np.int16)
        args[k] = {**converted(library, case.args[k]), field: converted(library, wrong)}
        name = f"{list(inspect.signature(case.op).parameters)[k]}.{field}"
    pattern = rf"argument '{name}': expected array of .*, found int16 with \d dimension"
    with pytest.raises(kc.KernelError, match=pattern):
        case.op(*args, **case.options)


@pytest.mark.parametrize("library", ["torch", "numpy", "kernelcore"])
def test_updated_arrays_change_in_place(library: str) -> None:
    x, y = (converted(library, np.full(3, n, np.float32)) for n in (1, 2))
    assert increase(x, y) is None
    assert LIBRARIES[library].numbers(y).tolist() == [3, 3, 3]


@pytest.mark.parametrize("library", ["jax", "paddle"])
def test_frameworks_without_updates_name_the_other_spelling(library: str) -> None:
    x = converted(library, np.ones(3, np.float32))
    with pytest.raises(kc.KernelError, match="in_out"):
        increase(x, x)


def test_read_only_arrays_are_not_updated() -> None:
    x, y = np.ones(3, np.float32), np.ones(3, np.float32)
    y.flags.writeable = False
    with pytest.raises(kc.KernelError, match=r"'y': .*read-only"):
        increase(x, y)
    with pytest.raises(kc.KernelError, match=r"'y': .*read-only"):
        increase(kc.array(x), kc.array(y, copy=False))
    assert axpy(1.0, x, y).tolist() == [2, 2, 2]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda x: (x.astype(np.float16), 1.0), "argument 'x': expected array of float32"),
        (lambda x: (x[None], 1.0), "argument 'x': expected array of float32 with 1 dimension"),
        (lambda x: (x,), "argument 'a' is missing"),
        (lambda x: (x, 1.0, 2.0), "expected 2 arguments, found 3"),
        (lambda x: (x, "one"), "argument 'a': expected"),
    ],
)
def test_mistakes_are_named(library: str, change: Any, text: str) -> None:
    args = [converted(library, a) for a in change(np.ones(3, np.float32))]
    with pytest.raises(kc.KernelError, match=r"wave\(\): ") as raised:
        wave(*args)
    assert text in str(raised.value)


@pytest.mark.parametrize("library", LIBRARIES)
def test_unknown_names_are_refused(library: str) -> None:
    with pytest.raises(kc.KernelError, match="unknown argument 'b'"):
        wave(converted(library, np.ones(3, np.float32)), b=1.0)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("torch", "jax"),
        ("jax", "torch"),
        ("numpy", "torch"),
        ("torch", "numpy"),
        ("paddle", "torch"),
        ("kernelcore", "numpy"),
        ("numpy", "kernelcore"),
    ],
)
def test_frameworks_do_not_mix(first: str, second: str) -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(kc.KernelError, match="one framework") as raised:
        polar(converted(first, x), converted(second, x))
    assert "'x'" in str(raised.value)
    assert "'y'" in str(raised.value)


@kc.op
@kc.kernel
def longer(v: kc.array[kc.vec2], b: float, o: kc.array[float]):
    i = kc.tid()
    o[i] = b * v[i][0]


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize(
    ("v", "b", "help_text"),
    [
        ("float64", None, "elements of float64 components, such as kc.vec2d"),
        ("float32", np.float64(2.0), "or annotate the parameter as kc.float64"),
        ("float32", np.ones(1, np.float32), "such as x.reshape(()) of one element"),
    ],
)
def test_the_annotation_for_an_argument_is_named(
    library: str, v: str, b: Any, help_text: str
) -> None:
    scalar = 2.0 if b is None else converted(library, np.asarray(b))
    with pytest.raises(kc.KernelArgumentError, match=re.escape(help_text)):
        longer(converted(library, np.ones((3, 2), v)), scalar)
