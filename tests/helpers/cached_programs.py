"""What may be around a kernel: pairs that differ in one thing that the kernel reads."""

from __future__ import annotations

import numpy as np

# What is around the kernel in one process and in another one, what it stores, and what that is.
OTHERS: dict[str, tuple[str, str, str, float, float]] = {
    "number": ("A = 2.0", "A = 3.0", "A", 2.0, 3.0),
    "kind of number": ("A = 7", "A = 7.0", "float(type(A)(2.5))", 2.0, 2.5),
    "truth": ("A = False", "A = True", "kc.where(A, 2.0, 3.0)", 3.0, 2.0),
    "sign of zero": ("A = 0.0", "A = -0.0", "1.0 / A", np.inf, -np.inf),
    "bits": ("A = np.float32(1)", "A = np.float32(1.0000001)", "A", 1.0, 1.0000001),
    "width": ("A = np.int8(100)", "A = np.int16(100)", "float(A + A)", -56.0, 200.0),
    "attribute": (
        "A = types.SimpleNamespace(b=types.SimpleNamespace(c=2.0))",
        "A = types.SimpleNamespace(b=types.SimpleNamespace(c=3.0))",
        *("A.b.c", 2.0, 3.0),
    ),
    "class": ("class A: b = 2.0", "class A: b = 3.0", "A.b", 2.0, 3.0),
    "module": (
        "A = types.ModuleType('A'); A.b = 2.0",
        "A = types.ModuleType('A'); A.b = 3.0",
        *("A.b", 2.0, 3.0),
    ),
    "tuple": ("A = (1.0, (2.0, 3))", "A = (1.0, (4.0, 3))", "A[1][0]", 2.0, 4.0),
    "list": ("A = [1.0, 2.0]", "A = [1.0, 3.0]", "A[1]", 2.0, 3.0),
    "range": ("A = range(3, 5)", "A = range(4, 5)", "float(A[0])", 3.0, 4.0),
    "nesting": ("A = ((1, 2), 3)", "A = (1, 2, 3)", "float(len(A))", 2.0, 3.0),
    "vector": ("A = kc.vec2(1.0, 2.0)", "A = kc.vec2(1.0, 3.0)", "A.y", 2.0, 3.0),
    "vector and part": ("A = kc.vec2(0, 2)", "A = kc.vec2(0, 3)", "A.y + kc.length(A)", 4.0, 6.0),
    "type of a vector": ("A = kc.vec2h(2049, 0)", "A = kc.vec2(2049, 0)", "float(A.x)", 2048, 2049),
    "built-in": ("A = kc.min", "A = kc.max", "A(2.0, 3.0)", 2.0, 3.0),
    "library": ("A = kc.length", "A = kc.length_sq", "A(kc.vec2(3.0, 4.0))", 5.0, 25.0),
    "Python's function": ("A = min", "A = max", "A(2.0, 3.0)", 2.0, 3.0),
    "hidden name": ("", "min = max", "float(min(2.0, 3.0))", 2.0, 3.0),
    "type": ("A = kc.int32", "A = kc.float64", "float(A(2.5))", 2.0, 2.5),
    "Python's type": ("A = int", "A = float", "float(A(2.5))", 2.0, 2.5),
    "class of vectors": ("A = kc.vec2", "A = kc.vec3", "float(len(A()))", 2.0, 3.0),
    "maker of vectors": (
        "A, B = kc.vector, 2",
        "A, B = kc.vector, 3",
        "float(len(A(length=B)))",
        2,
        3,
    ),
    "struct": (
        "A = kc.struct(type('A', (), {'__annotations__': {'x': kc.vec2}}))",
        "A = kc.struct(type('A', (), {'__annotations__': {'x': kc.vec3}}))",
        *("float(len(A().x))", 2.0, 3.0),
    ),
}
SCALE = "@kc.func\ndef f(x: float): return x * {}"
LAMBDA = "f = kc.func(lambda x: x * {})"
MAKE = "def make(c):\n  @kc.func\n  def f(x: float): return x * c\n  return f\n"
TWO = "@kc.func\ndef f(x: T): return 2.0\n@kc.func\ndef f(x: S): return 3.0"
# The same for functions that the kernel calls.
FUNCTIONS: dict[str, tuple[str, str, str, float, float]] = {
    "lambda": (LAMBDA.format("2.0"), LAMBDA.format("3.0"), "f(1.0)", 2.0, 3.0),
    "text of a function": (SCALE.format("2.0"), SCALE.format("3.0"), "f(1.0)", 2.0, 3.0),
    "number of a function": (
        "A = 2.0\n" + SCALE.format("A"),
        "A = 3.0\n" + SCALE.format("A"),
        *("f(1.0)", 2.0, 3.0),
    ),
    "function of a function": (
        SCALE.format("2.0") + "\n@kc.func\ndef g(x: float): return f(x) + f(x)",
        SCALE.format("3.0") + "\n@kc.func\ndef g(x: float): return f(x) + f(x)",
        *("g(1.0)", 4.0, 6.0),
    ),
    "closure of a function": (
        MAKE + "f = make(2.0)",
        MAKE + "f = make(3.0)",
        *("f(1.0)", 2.0, 3.0),
    ),
    "parameter of a function": (
        "T = float\n@kc.func\ndef f(x: T): return type(x)(2.5)",
        "T = int\n@kc.func\ndef f(x: T): return type(x)(2.5)",
        *("float(f(1))", 2.5, 2.0),
    ),
    "result of a function": (
        "T = float\n@kc.func\ndef f() -> T: return 7",
        "T = int\n@kc.func\ndef f() -> T: return 7",
        *("float(type(f())(2.5))", 2.5, 2.0),
    ),
    "results of a function": (
        "T = 'tuple[float, int]'\n@kc.func\ndef f() -> T: return 7, 7",
        "T = 'tuple[int, float]'\n@kc.func\ndef f() -> T: return 7, 7",
        *("float(type(f()[0])(2.5))", 2.5, 2.0),
    ),
    "default": (
        "A = 2.0\n@kc.func\ndef f(x: float = A): return x",
        "A = 3.0\n@kc.func\ndef f(x: float = A): return x",
        *("f()", 2.0, 3.0),
    ),
    "overload": (
        "T, S = float, kc.vec2\n" + TWO,
        "T, S = float, int\n" + TWO,
        *("f(1)", 2.0, 3.0),
    ),
    "order of overloads": (
        "T, S = typing.Any, float\n" + TWO,
        "T, S = float, typing.Any\n" + TWO,
        *("f(1.0)", 3.0, 2.0),
    ),
    "function as argument": (
        "A = kc.min\n@kc.func\ndef f(g: typing.Callable): return g(2.0, 3.0)",
        "A = kc.max\n@kc.func\ndef f(g: typing.Callable): return g(2.0, 3.0)",
        *("f(A)", 2.0, 3.0),
    ),
    "function of a module": (
        "m = types.SimpleNamespace()\n" + SCALE.format("2.0") + "\nm.f = f",
        "m = types.SimpleNamespace()\n" + SCALE.format("3.0") + "\nm.f = f",
        *("m.f(1.0)", 2.0, 3.0),
    ),
    "gradient": (SCALE.format("2.0"), SCALE.format("3.0"), "kc.grad(f)(2.0)", 2.0, 3.0),
    "rule": (
        SCALE.format("2.0") + "\n@kc.func_grad(f)\ndef _(x: float, ct: float): kc.adjoint[x] += ct",
        SCALE.format("3.0") + "\n@kc.func_grad(f)\ndef _(x: float, ct: float): kc.adjoint[x] += ct",
        *("f(1.0)", 2.0, 3.0),
    ),
    "type variable": (
        "T = typing.TypeVar('T', bound=float)\n@kc.func\ndef f(x: T): return 2.0",
        "T = typing.TypeVar('T', bound=float)\n@kc.func\ndef f(x: T): return 3.0",
        *("f(1.0)", 2.0, 3.0),
    ),
}
# The same for what has no key.
OPEN: dict[str, tuple[str, str, str, float, float]] = {
    "number and part": (
        "class F(float): b = 1.0\nA = F(1.0)",
        "class F(float): b = 1.0\nA = F(2.0)",
        *("A + A.b", 2.0, 3.0),
    ),
    "conversion": (
        "class F(float): __float__ = lambda self: 2.0\nA = F(1)",
        "class F(float): __float__ = lambda self: 3.0\nA = F(1)",
        *("A", 2.0, 3.0),
    ),
    "enumeration": (
        "class A(enum.IntEnum): B = 2",
        "class A(enum.IntEnum): B = 3",
        *("float(A.B)", 2.0, 3.0),
    ),
    "static": ("A = {1: 2.0}", "A = {1: 3.0}", "kc.static(A[1])", 2.0, 3.0),
}
NATIVE = '@kc.func_native("return x * {};")\ndef f(x: float) -> float: ...'
# What is around the kernel and its body in one process, and in another one; what it stores.
BODIES: dict[str, tuple[tuple[str, str], tuple[str, str], float, float]] = {
    "annotation in the body": (
        ("", "x: kc.float16 = 2049.0\n    out[i] = float(x)"),
        ("", "x: kc.float32 = 2049.0\n    out[i] = float(x)"),
        *(2048.0, 2049.0),
    ),
    "name in an annotation": (
        ("T = kc.float16", "x: T = 2049.0\n    out[i] = float(x)"),
        ("T = kc.float32", "x: T = 2049.0\n    out[i] = float(x)"),
        *(2048.0, 2049.0),
    ),
    "function in the body": (
        ("A = 2.0", "def g(x: float): return x * A\n    out[i] = g(1.0)"),
        ("A = 3.0", "def g(x: float): return x * A\n    out[i] = g(1.0)"),
        *(2.0, 3.0),
    ),
    "default in the body": (
        ("A = 2.0", "def g(x: float = A): return x\n    out[i] = g()"),
        ("A = 3.0", "def g(x: float = A): return x\n    out[i] = g()"),
        *(2.0, 3.0),
    ),
    "code without effect": (
        ("", "if 0: out[i] = A\n    out[i] = 2.0"),
        ("", "if 0: out[i] = B\n    out[i] = 3.0"),
        *(2.0, 3.0),
    ),
    "name that hides": (
        ("", "out[i] = float(max(2.0, 3.0))"),
        ("max = min", "out[i] = float(max(2.0, 3.0))"),
        *(3.0, 2.0),
    ),
    "public name that is replaced": (
        (
            "import types; kc = types.SimpleNamespace("
            "kernel=kc.kernel, array=kc.array, tid=kc.tid, f=kc.sin)",
            "out[i] = kc.f(0.0) + 2.0",
        ),
        (
            "import types; kc = types.SimpleNamespace("
            "kernel=kc.kernel, array=kc.array, tid=kc.tid, f=kc.cos)",
            "out[i] = kc.f(0.0) + 2.0",
        ),
        *(2.0, 3.0),
    ),
    "struct": (
        ("@kc.struct\nclass S: a: float\nA = S(a=2.0)", "out[i] = A.a"),
        ("@kc.struct\nclass S: a: float\nA = S(a=3.0)", "out[i] = A.a"),
        *(2.0, 3.0),
    ),
    "whole struct": (
        ("@kc.struct\nclass S: a: float\nA = S(a=2.0)", "s = A\n    out[i] = s.a"),
        ("@kc.struct\nclass S: a: float\nA = S(a=3.0)", "s = A\n    out[i] = s.a"),
        *(2.0, 3.0),
    ),
    "static of numbers": (
        ("A = 1", "out[i] = kc.static(A + 1.0)"),
        ("A = 2", "out[i] = kc.static(A + 1.0)"),
        *(2.0, 3.0),
    ),
    "static before the name is assigned": (
        ("A = 2.0", "A = kc.static(A)\n    out[i] = A"),
        ("A = 3.0", "A = kc.static(A)\n    out[i] = A"),
        *(2.0, 3.0),
    ),
    "static of a part of a class": (
        ("class C: n = 2.0\nA = [C()]", "out[i] = kc.static(A[0].n)"),
        ("class C: n = 3.0\nA = [C()]", "out[i] = kc.static(A[0].n)"),
        *(2.0, 3.0),
    ),
    "static of an operator of a class": (
        (
            "class F(float): __add__ = lambda self, o: 2.0\nA = F(1)",
            "out[i] = kc.static(A + 1.0)",
        ),
        (
            "class F(float): __add__ = lambda self, o: 3.0\nA = F(1)",
            "out[i] = kc.static(A + 1.0)",
        ),
        *(2.0, 3.0),
    ),
    "annotation as text of a function in the body": (
        ("T = float", "def g() -> 'T': return 7\n    out[i] = float(type(g())(2.5))"),
        ("T = int", "def g() -> 'T': return 7\n    out[i] = float(type(g())(2.5))"),
        *(2.5, 2.0),
    ),
    "static that calls Python": (
        ("def count(): return 2.0", "out[i] = kc.static(count())"),
        ("def count(): return 3.0", "out[i] = kc.static(count())"),
        *(2.0, 3.0),
    ),
    "keyword default": (
        ("A = 2.0\n@kc.func\ndef f(*, x: float = A): return x", "out[i] = f()"),
        ("A = 3.0\n@kc.func\ndef f(*, x: float = A): return x", "out[i] = f()"),
        *(2.0, 3.0),
    ),
    "native function": (
        (NATIVE.format("2.0f"), "out[i] = f(1.0)"),
        (NATIVE.format("3.0f"), "out[i] = f(1.0)"),
        *(2.0, 3.0),
    ),
    "property": (
        ("class P:\n  b = property(lambda self: 2.0)\nA = P()", "out[i] = A.b"),
        ("class P:\n  b = property(lambda self: 3.0)\nA = P()", "out[i] = A.b"),
        *(2.0, 3.0),
    ),
    "names as text": (
        ("T = float\n@kc.func\ndef f(x: 'T'): return type(x)(2.5)", "out[i] = float(f(1))"),
        ("T = int\n@kc.func\ndef f(x: 'T'): return type(x)(2.5)", "out[i] = float(f(1))"),
        *(2.5, 2.0),
    ),
    "part of an indexed constant": (
        ("A = [kc.vec2(2.0, 0.0)]", "out[i] = A[0].x"),
        ("A = [kc.vec2(3.0, 0.0)]", "out[i] = A[0].x"),
        *(2.0, 3.0),
    ),
    "attribute of a function of the kernel": (
        ("@kc.func\ndef f(x: float): return x\nf2 = f\nA = 2.0", "g = f2\n    out[i] = g(A)"),
        ("@kc.func\ndef f(x: float): return x + 1.0\nf2 = f\nA = 2.0", "g = f2\n    out[i] = g(A)"),
        *(2.0, 3.0),
    ),
}
