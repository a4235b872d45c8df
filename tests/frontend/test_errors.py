"""What users read when their code is not in the kernel language: golden texts."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.frontend.specialize import specialize_kernel
from tests.helpers import refused_composites, refused_language

# Run before every text below and no part of it, so that lines are counted from the kernel.
HEAD = """\
import math
import kernelcore as kc
F64 = kc.array(dtype=kc.float64)
SETTINGS = {"x": 1}
def plain(x):
    return x
@kc.func
def helper(x: kc.float64):
    return x
@kc.func
def bump(y: F64, i: int) -> kc.float64:
    y[i] = y[i] + 1.0
    return y[i]
@kc.func
def bump_twice(y: F64, i: int) -> kc.float64:
    return bump(y, i) + bump(y, i)
"""

# Bodies of kernel(x: F64, m: kc.array2d[float], n: int, a: float), by the claim that each breaks.
BODIES = {
    "unknown_name": "x[0] = y",
    "unknown_name_close": "value = 1.0\nx[0] = valeu",
    "unknown_built_in_without_module": "x[0] = sqrt(x[1])",
    "unknown_attribute": "x[0] = kc.squirt(x[1])",
    "constant_of_another_module": "x[0] = kc.types.inf",
    "unset_array": "if n > 0:\n    y = x\ny[0] = 1.0",
    "used_before_assignment": "x[0] = y\ny = 1.0",
    "module_as_value": "x[0] = math",
    "with_statement": "with x:\n    pass",
    "try_statement": "try:\n    pass\nexcept KeyError:\n    pass",
    "lambda_expression": "f = lambda v: v",
    "list_comprehension": "y = [v for v in range(3)]",
    "yield_expression": "yield n",
    "import_statement": "import os",
    "class_statement": "class A:\n    pass",
    "global_statement": "global SETTINGS",
    "raise_statement": "raise ValueError()",
    "star_arguments": "x[0] = helper(*m)",
    "star_keywords": "x[0] = helper(**x)",
    "star_target": "a, *b = n, n",
    "dict_literal": "y = {1: 2}",
    "list_literal": "y = [1, 2]",
    "string_literal": "y = 'text'",
    "f_string": "y = f'{n}'",
    "none_literal": "y = None",
    "ellipsis_literal": "y = ...",
    "bytes_literal": "y = b'text'",
    "walrus": "if (k := n) > 0:\n    pass",
    "matrix_product": "x[0] = x @ x",
    "is_operator": "if n is 3:\n    pass",
    "for_over_array": "for v in x:\n    pass",
    "for_else": "for i in range(n):\n    pass\nelse:\n    n = 1",
    "while_else": "while n > 0:\n    n -= 1\nelse:\n    n = 1",
    "attribute_target": "x.shape = 3",
    "declaration_without_value": "y: float",
    "different_types": "x[0] = x[1] * a",
    "different_integer_types": "k = kc.int64(1) + n",
    "int_with_float": "a = a * n",
    "float_literal_with_int": "k = n + 0.5",
    "int_divided_by_int": "a = n / 2",
    "int_divided_in_place": "n /= 2",
    "int_to_float_built_in": "a = kc.sin(n)",
    "bool_arithmetic": "n = n + (n > 0)",
    "bitwise_on_truth": "if (n > 0) & (n < 3):\n    pass",
    "and_of_tuples": "b = (n, n) and n",
    "store_of_another_type": "x[0] = a",
    "atomic_of_another_type": "x[0] += a",
    "missing_argument": "a = kc.atan2(a)",
    "unknown_keyword": "a = kc.sin(angle=a)",
    "type_change_in_loop": "for i in range(n):\n    a = kc.float64(a)",
    "type_change_across_branches": "if n > 0:\n    k = 1\nelse:\n    k = x[0]\nk = k + n\n",
    "counter_used_as_float": "k = 0\nfor i in range(n):\n    k += 1\nx[0] = x[1] * k",
    "loop_index_used_as_float": "for i in range(4):\n    x[i] = 0.5 * i * x[i]",
    "float_range": "for i in range(a):\n    pass",
    "too_many_indices": "a = m[0, 1, 2]",
    "float_index": "x[0] = x[a]",
    "negative_index": "x[0] = x[-1]",
    "index_of_a_scalar": "y = n[0]",
    "store_to_a_scalar": "n[0] = 1",
    "assignment_to_array": "x = 1.0",
    "array_as_number": "y = x + 1.0",
    "unpacking_count": "p, q = n, n, n",
    "return_from_kernel": "return n",
    "shape_axis": "n = m.shape[2]",
    "shape_axis_not_literal": "n = m.shape[n]",
    "big_integer": "k = 3000000000 + n",
    "big_integer_alone": "k = 3000000000\nn = int(k > 1)\nfor i in range(n):\n    k = k - 1",
    "product_too_big": "k = kc.int64(10**18 * 10)",
    "shift_too_big": "k = 1 << 64\nk = k + kc.int64(n)",
    "power_too_big": "k = 2**64\nx[k] = 1.0",
    "power_of_no_type": "x[0] = 10**400",
    "literal_divided_by_zero": "n = 7 // 0",
    "literal_shifted_back": "n = 1 << -1",
    "element_written_by_its_addend": "i = kc.tid()\nx[i] += bump(x, i)",
    "element_written_deeper": "x[0] -= 2.0 * bump_twice(x, 0)",
    "element_written_on_one_path": "x[0] += bump(x, 0) if n > 0 else 1.0",
    "element_added_to_by_its_addend": "x[0] += kc.atomic_add(x, 1, 2.0)",
    "element_written_by_its_index": "x[int(bump(x, 0))] += 1.0",
    "keyword_of_min": "n = min(1, 2, 3, default=7)",
    "keyword_of_max": "n = max(n, 3, 9, key=n)",
    "keyword_of_len": "n = len(x, axis=1)",
    "keyword_of_cast": "n = int(1, base=n)",
    "plain_function": "x[0] = plain(x[1])",
    "array_at_an_address": "y = kc.array(ptr=n, shape=3, dtype=float)",
    "array_of_ones": "y = kc.ones(3, dtype=float)",
    "function_of_math": "x[0] = math.sin(x[1])",
    "argument_of_function": "x[0] = helper(a)",
    "argument_count_of_function": "x[0] = helper(x[0], x[1])",
    "tid_of_five": "i, j, k, l, o = kc.tid()",
    "tid_of_two_ranks": "i = kc.tid()\np, q = kc.tid()",
    "tid_with_argument": "i = kc.tid(0)",
    "atomic_add_indices": "kc.atomic_add(m, 0, 1.0)",
    "atomic_add_of_scalar": "kc.atomic_add(a, 0, 1.0)",
}

# Whole modules; the kernel is called kernel.
MODULES = {
    "recursion": """
        @kc.func
        def fact(n: int):
            return n * fact(n - 1)
        def kernel(x: F64):
            x[0] = kc.float64(fact(3))
        """,
    "tid_in_function": """
        @kc.func
        def index():
            return kc.tid()
        def kernel(x: F64):
            x[index()] = 1.0
        """,
    "returns_of_two_types": """
        @kc.func
        def f(n: int, y: kc.float64):
            if n > 0:
                return y
            return n
        def kernel(x: F64):
            x[0] = f(1, x[1])
        """,
    "return_on_one_path": """
        @kc.func
        def f(n: int):
            if n > 0:
                return n
        def kernel(x: F64):
            x[f(2)] = 1.0
        """,
    "returns_of_two_lengths": """
        @kc.func
        def f(n: int):
            if n > 0:
                return n, n
            return n
        def kernel(x: F64):
            x[0] = f(2)
        """,
    "promised_result": """
        @kc.func
        def f(x: kc.float64) -> int:
            return x
        def kernel(x: F64):
            x[f(x[0])] = 1.0
        """,
    "call_without_result": """
        @kc.func
        def f(n: int):
            pass
        def kernel(x: F64):
            x[0] = f(2)
        """,
    "error_in_function": """
        @kc.func
        def f(n):
            return n + missing
        def kernel(x: F64):
            x[0] = f(2)
        """,
    "parameter_without_type": """
        def kernel(x: F64, n):
            x[0] = n
        """,
    "unsupported_annotation": """
        def kernel(x: F64, n: str):
            x[0] = 1.0
        """,
    "unsupported_array_dtype": """
        def kernel(x: "kc.array(dtype=str)"):
            x[0] = 1.0
        """,
    "unknown_annotation": """
        def kernel(x: "Missing"):
            x[0] = 1.0
        """,
    "variable_parameters": """
        def kernel(x: F64, *rest: float):
            x[0] = 1.0
        """,
    "parameter_default": """
        def kernel(x: F64, n: int = 3):
            x[0] = 1.0
        """,
    "lambda_kernel": """
        kernel = lambda x: x
        """,
}


SIGNATURE = "def kernel(x: F64, m: kc.array2d[float], n: int, a: float):\n"
MORE_MODULES = refused_language.MODULES


def module(head: str, text: str, tmp_path: Path) -> dict[str, Any]:
    """The names of ``head`` and of a module with this text, in files of their own."""
    scope: dict[str, Any] = {"__name__": "user"}
    for name, part in (("head.py", head), ("kernel.py", text)):
        file = tmp_path / name
        file.write_text(part)
        linecache.checkcache(str(file))
        exec(compile(part, str(file), "exec", dont_inherit=True), scope)
    return scope


def message(pyfunc: Callable[..., Any], tmp_path: Path) -> str:
    with pytest.raises(kc.KernelError) as caught:
        specialize_kernel(pyfunc)
    error = caught.value
    assert error.loc is not None
    return f"{type(error).__name__}: {error}".replace(f"{tmp_path}/", "")


def message_of_body(head: str, signature: str, body: str, tmp_path: Path) -> str:
    text = signature + textwrap.indent(body, "    ") + "\n"
    return message(module(head, text, tmp_path)["kernel"], tmp_path)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("name", BODIES)
def test_body_is_refused(
    name: str, tmp_path: Path, golden_error: Callable[[str, str], None]
) -> None:
    found = message_of_body(HEAD, SIGNATURE, BODIES[name], tmp_path)
    golden_error(name, found)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("name", refused_language.LANGUAGE)
def test_language_is_refused(
    name: str, tmp_path: Path, golden_error: Callable[[str, str], None]
) -> None:
    part = refused_language
    found = message_of_body(part.HEAD, part.SIGNATURE, part.LANGUAGE[name], tmp_path)
    golden_error(name, found)


@pytest.mark.parametrize("name", refused_composites.COMPOSITES)
def test_composite_is_refused(
    name: str, tmp_path: Path, golden_error: Callable[[str, str], None]
) -> None:
    part = refused_composites
    found = message_of_body(part.HEAD, part.SIGNATURE, part.COMPOSITES[name], tmp_path)
    golden_error(name, found)


@pytest.mark.parametrize("name", [*MODULES, *MORE_MODULES])
def test_module_is_refused(
    name: str, tmp_path: Path, golden_error: Callable[[str, str], None]
) -> None:
    head, table = (HEAD, MODULES) if name in MODULES else (refused_language.HEAD, MORE_MODULES)
    text = textwrap.dedent(table[name]).lstrip("\n")
    golden_error(name, message(module(head, text, tmp_path)["kernel"], tmp_path))


def test_every_error_has_a_name_of_its_own() -> None:
    tables = (
        BODIES,
        MODULES,
        MORE_MODULES,
        refused_language.LANGUAGE,
        refused_composites.COMPOSITES,
    )
    names = [name for table in tables for name in table]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("depth", [200, 600])
def test_deep_nesting_is_refused(depth: int, tmp_path: Path) -> None:
    body = "a = " + "a if n > 0 else " * depth + "a"
    found = message_of_body(HEAD, SIGNATURE, body, tmp_path)
    assert found.startswith("KernelSyntaxError: 'kernel' is nested too deeply")
    assert "help: split long expressions, long chains of branches" in found


def chain_of_branches(count: int) -> list[float]:
    """What a kernel with ``count`` branches makes of the first and the last case."""
    branches = "".join(f"    elif c == {k}:\n        v = {k}.5\n" for k in range(1, count))
    kernel = kc.kernel(
        source="def chain(s: kc.array[int], y: kc.array[float]):\n    i = kc.tid()\n"
        f"    c = s[i]\n    v = 0.0\n    if c == 0:\n        v = 0.5\n{branches}    y[i] = v\n"
    )
    y = np.zeros(2, np.float32)
    kc.launch(kernel, 2, [np.array([0, count - 1], np.int32)], [y])
    return y.tolist()


def test_chains_of_branches_run_or_are_refused() -> None:
    assert chain_of_branches(100) == [0.5, 99.5]
    # The limit is met in code generation, and beyond in the front end.
    for count in (160, 400):
        with pytest.raises(kc.KernelSyntaxError, match="nested too deeply"):
            chain_of_branches(count)


def test_long_sums_are_refused_by_their_length() -> None:
    text = f"def long(x: kc.array[float]):\n    x[0] = {' + '.join(['x[0]'] * 1500)}\n"
    with pytest.raises(kc.KernelSyntaxError, match="nested too deeply"):
        kc.launch(kc.kernel(source=text), 1, [np.ones(1, np.float32)])


GENERIC = """\
from typing import Any, TypeVar
import kernelcore as kc
T = TypeVar("T", bound=kc.types.AnyFloat)
@kc.kernel
def kernel(x: kc.array(dtype=Any), a: T, b: T):
    x[0] = a
"""
FLOATS = kc.array(dtype=float)
# Uses of a generic kernel that fail, by the claim that each breaks.
USES: dict[str, Callable[[kc.Kernel], object]] = {
    "generic_without_types": lambda k: k.func,
    "generic_called": lambda k: k(),
    "generic_overload_count": lambda k: k.overload([float]),
    "generic_overload_no_list": lambda k: kc.overload(k, 5),  # pyright: ignore[reportArgumentType]
    "generic_overload_name": lambda k: k.overload({"c": float}),
    "generic_overload_left_out": lambda k: k.overload({"x": FLOATS, "a": float}),
    "generic_overload_no_type": lambda k: k.overload(["x", float, float]),
    "generic_overload_pattern": lambda k: k.overload([kc.array(dtype=Any), float, float]),
    "generic_overload_refused": lambda k: k.overload([float, float, float]),
    "generic_overload_out_of_bound": lambda k: k.overload([FLOATS, int, int]),
    "generic_overload_two_types": lambda k: k.overload([FLOATS, kc.float64, float]),
    "generic_launch_count": lambda k: kc.launch(k, 1, [np.zeros(1)]),
    "generic_launch_unknown_type": lambda k: kc.launch(k, 1, [np.zeros(1), 1.0, "text"]),
    "generic_launch_unknown_dtype": lambda k: kc.launch(k, 1, [np.zeros(1, complex), 1.0, 1.0]),
}


@pytest.mark.parametrize("name", USES)
def test_use_of_a_generic_kernel_is_refused(
    name: str, tmp_path: Path, golden_error: Callable[[str, str], None]
) -> None:
    kernel = module("", GENERIC, tmp_path)["kernel"]
    with pytest.raises(kc.KernelError) as caught:
        USES[name](kernel)
    text = f"{type(caught.value).__name__}: {caught.value}".replace(f"{tmp_path}/", "")
    golden_error(name, text)


def test_source_must_be_available() -> None:
    scope: dict[str, Any] = {}
    exec("def kernel(x): pass", scope)
    with pytest.raises(kc.KernelSyntaxError, match="source of 'kernel' is not available"):
        specialize_kernel(scope["kernel"])


@pytest.mark.parametrize("call", [kc.tid, lambda: kc.atomic_add(None, 0, 1)])
def test_intrinsics_need_a_kernel(call: Callable[[], Any]) -> None:
    with pytest.raises(kc.KernelError, match="outside of a kernel"):
        call()
