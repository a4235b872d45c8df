"""What of Python, of literals and of calls the compiler refuses, for test_errors."""

from __future__ import annotations

# Run before every body and no part of it, so that lines are counted from the kernel.
HEAD = """\
import cmath
import contextlib
import enum
import numpy
from collections.abc import Callable
from typing import TypeVar
import kernelcore as kc
F64 = kc.array(dtype=kc.float64)
SIZES = {"x": 3}
NAME = "text"
class Plain:
    value = 1
class Color(enum.Enum):
    RED = 1
plain = Plain()
@kc.func
def half(x: float):
    return 0.5 * x
@kc.func
def integers(x: int):
    return x + 1
@kc.kernel
def other(x: F64):
    x[0] = 1.0
T = TypeVar("T", bound=str)
@kc.func
def of_text(x: T):
    return x
@kc.func
def of_anything(f: Callable, x: float):
    return f(x)
"""

SIGNATURE = (
    "def kernel(x: F64, y: kc.array(dtype=float), n: int, a: float, v: kc.vec3, "
    "vs: kc.array(dtype=kc.vec3), c: kc.array(dtype=int), b: kc.array(dtype=bool), "
    "u: kc.array(dtype=kc.uint32), g: kc.array2d[float]):\n"
)

# Bodies of a kernel with SIGNATURE, by the claim that each breaks.
LANGUAGE = {
    "async_function": "async def f():\n    pass",
    "match_statement": "match n:\n    case 1:\n        pass",
    "del_statement": "del n",
    "nonlocal_statement": "def f():\n    nonlocal n\n    n = 2\nf()",
    "global_in_nested_function": "def f():\n    global NAME\nf()",
    "in_operator": "if n in (1, 2):\n    pass",
    "not_in_operator": "if n not in (1, 2):\n    pass",
    "is_not_operator": "if n is not None:\n    pass",
    "comparison_with_none": "if n == None:\n    pass",
    "set_literal": "s = {1, 2}",
    "set_comprehension": "s = {e for e in range(3)}",
    "dict_comprehension": "s = {e: e for e in range(3)}",
    "generator": "s = (e for e in range(3))",
    "yield_from": "yield from range(3)",
    "star_expression": "s = (*v, 1.0)",
    "complex_literal": "s = 1j",
    "string_of_outer_scope": "s = NAME",
    "dict_of_outer_scope": "n = SIZES['x']",
    "object_of_outer_scope": "n = plain",
    "attribute_of_object": "n = plain.size",
    "enum_of_objects": "n = Color.RED",
    "text_compared": "if n == 'a':\n    pass",
    "while_of_text": "while 'a':\n    n += 1",
    "name_like_no_other": "a = kc.sigmoid(a)",
    "zeros_of_an_argument": "s = kc.zeros(shape=n, dtype=float)",
    "full_array": "s = kc.full(4, 1.0, float)",
    "formatted_text": "print('%.3f' % a)",
    "method_of_array": "x.fill(0.0)",
    "method_of_number": "n = n.bit_length()",
    "python_built_in": "n = sum(x)",
    "python_built_in_open": "f = open('file')",
    "math_of_complex": "a = cmath.sqrt(a)",
    "input_call": "n = input()",
    "range_as_value": "r = range(n)",
    "enumerate_loop": "for i, e in enumerate(x):\n    pass",
    "two_targets_of_a_loop": "for i, j in range(3):\n    pass",
    "element_as_loop_target": "for x[0] in range(3):\n    pass",
    "range_without_arguments": "for i in range():\n    pass",
    "range_with_keyword": "for i in range(stop=3):\n    pass",
    "range_of_text": "for i in range('3'):\n    pass",
    "reversed_unsigned": "for i in reversed(range(u[0])):\n    pass",
    "loop_over_array_parameter_name": "for x in range(3):\n    pass",
    "kernel_called": "other(x)",
    "type_as_value": "s = float\nx[0] = s",
    "function_as_value": "f = half\na = f + 1.0",
    "call_of_a_number": "n = n(1)",
    "call_of_an_element": "n = c[0](1)",
    "call_of_a_call": "a = half(a)(a)",
    "constructor_of_a_class": "p = Plain()",
    "chained_comparison_of_types": "if 0 < n < a:\n    pass",
    "not_of_text": "s = not 'a'",
    "inverted_float": "a = ~a",
    "inverted_truth": "s = ~(n > 0)",
    "negated_truth": "s = -(n > 0)",
    "shift_of_float": "a = a << 1",
    "remainder_of_types": "a = a % n",
    "power_of_types": "a = a ** n",
    "division_by_literal_zero": "n = n // 0\nk = 1 // 0",
    "remainder_by_literal_zero": "n = 1 % 0",
    "float_literal_divided_by_zero": "a = 1.0 / 0.0\nk = 7.0 // 0\nn = 7 % 0",
    "huge_literal": "s = 10**5000",
    "huge_float_to_int": "k = 1 << 40\nn = n + k",
    "integer_literal_too_big_for_array": "c[0] = 4294967296",
    "negative_literal_in_unsigned": "u[0] = -1",
    "float_literal_too_big": "a = a * 1e300",
    "no_such_cast": "s = complex(n)",
    "cast_of_two": "n = int(1, 2)",
    "cast_of_text": "n = int('3')",
    "cast_of_array": "n = int(x)",
    "select_of_types": "a = kc.where(n > 0, a, n)",
    "select_of_tuple": "a = kc.where((n, n), a, 1.0)",
    "ternary_of_types": "a = a if n > 0 else n",
    "too_many_arguments": "a = kc.sin(a, a)",
    "no_arguments": "a = kc.sin()",
    "argument_given_twice": "a = kc.sin(a, x=a)",
    "min_of_array": "a = min(x)",
    "len_of_number": "n = len(n)",
    "type_of_two": "s = type(n, n)",
    "type_of_array": "s = type(x)",
    "annotation_of_text": "s: str = n",
    "annotation_of_array": "s: F64 = x",
    "annotation_of_another_type": "s: int = a",
    "annotated_element": "x[0]: float = 1.0",
    "store_of_text": "x[0] = 'a'",
    "store_of_nothing": "x[0] = print(n)",
    "index_of_text": "a = y['i']",
    "index_of_truth": "a = y[n > 0]",
    "index_of_none": "s = y[None]",
    "index_of_ellipsis": "s = y[...]",
    "index_of_tuple_variable": "t = (0, 0)\na = g[t]",
    "empty_tuple": "s = ()",
    "unpacked_number": "p, q = n",
    "unpacked_array": "p, q = x",
    "augmented_unknown": "total += 1.0",
    "augmented_array": "x += 1.0",
    "augmented_constant": "SIZES += 1",
    "used_before_the_loop_assigns_it": "while n > 0:\n    x[0] = s\n    s = 1.0\n    n -= 1",
    "try_finally": "try:\n    n = 1\nfinally:\n    n = 2",
    "type_change_to_truth": "s = n\nif n > 0:\n    s = True\nc[0] = s",
    "function_changes_in_branch": "if n > 0:\n    f = half\nelse:\n    f = integers\na = f(a)",
    # static()
    "static_without_argument": "n = kc.static()",
    "static_with_keyword": "n = kc.static(expr=1)",
    "static_of_run_time_value": "k = kc.static(n + 1)",
    "static_that_fails": "k = kc.static(1 // 0)",
    "static_of_unknown_name": "k = kc.static(missing)",
    "static_of_text": "k = kc.static('text')",
    "static_of_a_list_of_texts": "k = kc.static(['a', 'b'])",
    "static_that_raises": "k = kc.static(next(iter(())))",
    "static_loop_over_number": "for k in kc.static(3):\n    pass",
    "static_that_asserts": "k = kc.static(open('/nowhere/at/all'))",
    # Nested functions
    "captured_variable_unset": "def f():\n    return s\nn = f()\ns = 1",
    "nested_function_passed_on": "def f(e: float):\n    return e * a\na = of_anything(f, a)",
    "nested_function_arity": "s = 1.0\ndef f(e: float):\n    return e * s\na = f(a, a)",
    "nested_recursion": "def f(e: int) -> int:\n    return f(e - 1)\nn = f(n)",
    "nested_function_of_one_path": "if n > 0:\n    def f():\n        return 1\nn = f()",
    "decorated_nested_function": "@contextlib.contextmanager\ndef f():\n    return 1\nn = f()",
    "nested_variable_parameters": "def f(*e):\n    return 1\nn = f()",
    "nested_default": "def f(e: int = n):\n    return e\nn = f()",
    "nested_return_from_kernel": "def f():\n    return n\nreturn f()",
    # print and assert
    "print_of_function": "print(half)",
    "print_to_a_file": "print(n, file=x)",
    "print_with_run_time_end": "print(n, end=n)",
    "print_with_format": "print(f'{a:.3f}')",
    "print_with_conversion": "print(f'{n!r}')",
    "print_as_value": "k = print(n)",
    "assert_of_a_vector": "assert v",
    "assert_with_a_number": "assert n > 0, n",
    "assert_with_an_f_string": "assert n > 0, f'{n}'",
    # Atomics and tid
    "atomic_without_arguments": "kc.atomic_add()",
    "atomic_of_a_scalar": "kc.atomic_max(n, 0, 1)",
    "atomic_without_value": "kc.atomic_add(x, 0)",
    "atomic_with_keyword": "kc.atomic_add(x, 0, value=1.0)",
    "atomic_on_truth": "kc.atomic_add(b, 0, True)",
    "atomic_of_wrong_value": "kc.atomic_min(c, 0, a)",
    "atomic_float_index": "kc.atomic_add(x, a, 1.0)",
    "atomic_on_a_row": "kc.atomic_add(g, 0, 1.0)",
    "atomic_of_a_vector_component": "kc.atomic_add(vs, 0, 1.0)",
    "compare_and_swap_of_vectors": "kc.atomic_cas(vs, 0, v, v)",
    "compare_and_swap_without_value": "kc.atomic_cas(c, 0, 1)",
    "bits_of_floats": "kc.atomic_or(x, 0, 1)",
    "atomic_as_value": "f = kc.atomic_add",
    "tid_in_a_loop_of_another_rank": "i, j = kc.tid()\nfor k in range(n):\n    i = kc.tid()",
    "tid_with_keyword": "i = kc.tid(axis=0)",
    "tid_as_value": "i = kc.tid",
    "tid_assigned_to_list_of_five": "[i, j, k, l, m] = kc.tid()",
    "tid_in_nested_function": "def f():\n    return kc.tid()\ni = f()",
    "type_variable_of_text": "a = of_text(a)",
}

# Whole modules; the kernel is called kernel.
MODULES = {
    "async_kernel": """
        async def kernel(x: F64):
            pass
        """,
    "generator_kernel": """
        def kernel(x: F64):
            yield x[0]
        """,
    "keyword_parameters": """
        def kernel(x: F64, **rest):
            pass
        """,
    "keyword_only_default": """
        def kernel(x: F64, *, n: int = 3):
            pass
        """,
    "parameter_that_is_a_function": """
        def kernel(x: F64, f: Callable):
            x[0] = f(x[1])
        """,
    "parameter_of_a_class": """
        def kernel(x: F64, p: Plain):
            pass
        """,
    "parameter_of_a_vague_array": """
        def kernel(x: "kc.array"):
            pass
        """,
    "annotation_of_a_library": """
        def kernel(x: numpy.ndarray):
            x[0] = 1.0
        """,
    "annotation_that_fails": """
        def kernel(x: "kc.array(dtype=float, ndim=1 // 0)"):
            pass
        """,
    "annotation_with_unknown_index": """
        def kernel(x: "SIZES['y']"):
            pass
        """,
    "annotation_of_many_dimensions": """
        def kernel(x: "kc.array(dtype=float, ndim=7)"):
            pass
        """,
    "generic_kernel": """
        from typing import Any
        def kernel(x: kc.array(dtype=Any), a: Any):
            x[0] = a
        """,
    "result_annotation_of_text": """
        @kc.func
        def f(x: float) -> str:
            return x
        def kernel(x: F64):
            x[0] = f(1.0)
        """,
    "result_annotation_unknown": """
        @kc.func
        def f(x: float) -> "Missing":
            return x
        def kernel(x: F64):
            x[0] = f(1.0)
        """,
    "kernel_that_promises_a_result": """
        def kernel(x: F64) -> float:
            x[0] = 1.0
        """,
    "promised_tuple": """
        @kc.func
        def f(x: float) -> tuple[float, int]:
            return x
        def kernel(x: kc.array(dtype=float)):
            x[0], n = f(1.0)
        """,
    "promised_nothing": """
        @kc.func
        def f(x: float) -> None:
            return x
        def kernel(x: kc.array(dtype=float)):
            f(1.0)
        """,
    "promised_and_not_returned": """
        @kc.func
        def f(x: float) -> float:
            y = x
        def kernel(x: kc.array(dtype=float)):
            x[0] = f(1.0)
        """,
    "mutual_recursion": """
        @kc.func
        def even(n: int) -> bool:
            return odd(n - 1)
        @kc.func
        def odd(n: int) -> bool:
            return even(n - 1)
        def kernel(x: F64):
            if even(2):
                x[0] = 1.0
        """,
    "default_of_a_function": """
        @kc.func
        def f(x: float = SIZES):
            return x
        def kernel(x: kc.array(dtype=float)):
            x[0] = f()
        """,
    "default_of_another_type": """
        @kc.func
        def f(x: int = 0.5):
            return x
        def kernel(x: F64):
            x[f()] = 1.0
        """,
    "class_inside_function": """
        @kc.func
        def f(x: float):
            class A:
                pass
            return x
        def kernel(x: kc.array(dtype=float)):
            x[0] = f(1.0)
        """,
    "assigned_captured_constant": """
        def factory():
            scale = 2.0
            def kernel(x: F64):
                scale += 1.0
                x[0] = scale
            return kernel
        kernel = factory()
        """,
    "global_used_and_assigned": """
        count = 1
        def kernel(x: F64):
            x[0] = 1.0 * count
            count = 2
        """,
    "empty_cell": """
        def factory():
            def kernel(x: F64):
                x[0] = late
            found = kernel
            if False:
                late = 1.0
            return found
        kernel = factory()
        """,
    "generator_function": """
        @kc.func
        def f(n: int):
            yield n
        def kernel(x: F64):
            x[f(1)] = 1.0
        """,
    "struct_as_array_index": """
        @kc.struct
        class P:
            n: int
        def kernel(x: F64, p: P):
            x[p] = 1.0
        """,
    "unsupported_struct": """
        class P:
            n: int
        def kernel(x: F64, p: P):
            x[p.n] = 1.0
        """,
    "decorator_with_wrapper": """
        import functools
        def loud(f):
            @functools.wraps(f)
            def wrapper(*args):
                return f(*args)
            return wrapper
        @loud
        def kernel(x: F64, n):
            x[0] = 1.0
        """,
}
