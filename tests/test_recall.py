"""Launches that the disk cache knows: found where all is as it was, and nowhere else."""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore import compile as compiler
from kernelcore import recall
from kernelcore.errors import KernelIndexError, KernelNameError, KernelTypeError
from kernelcore.frontend.closed import close
from kernelcore.frontend.copies import describe
from kernelcore.frontend.source import read_source
from kernelcore.frontend.specialize import specialize_kernel
from kernelcore.ir.text import canonical
from kernelcore.kernel import Kernel
from kernelcore.types import Scalar, type_of
from tests.patterns import (
    arrays,
    atomics,
    composites,
    exits,
    functions,
    loops,
    memory,
    rotations,
    structs,
    views,
)

MODULES = (
    *(arrays, atomics, composites, exits, functions, loops, memory, rotations, structs, views),
)
PROGRAM = """\
import enum
import types
import typing
import numpy as np
import kernelcore as kc
{around}

@kc.kernel
def write(out: kc.array(dtype={dtype})):
    i = kc.tid()
    out[i] = {value}
"""
Build = Callable[..., Kernel]


class Lowerings:
    """How often kernels were lowered."""

    count = 0


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lowerings:
    monkeypatch.setenv("KC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("KC_CACHE", raising=False)
    counted = Lowerings()

    def lower(*args: Any) -> Any:
        counted.count += 1
        return specialize_kernel(*args)

    monkeypatch.setattr(recall, "specialize_kernel", lower)
    return counted


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Makes the kernel of PROGRAM, as another process would, in the same file each time."""
    ticks = itertools.count()

    def made(value: str, around: str = "", dtype: str = "float", text: str = PROGRAM) -> Kernel:
        path = tmp_path / "program.py"
        path.write_text(text.format(value=value, around=around, dtype=dtype) + "#" * next(ticks))
        return runpy.run_path(str(path))["write"]

    return made


def result(kernel: Kernel, dtype: Any = np.float32) -> float:
    out = np.full(2, 77, dtype)
    kc.launch(kernel, 2, inputs=[out])
    assert out[0] == out[1] or np.isnan(out[0])
    return out[0]


def test_a_kernel_is_lowered_once_for_all_processes(lowered: Lowerings, build: Build) -> None:
    kernels = [build("kc.max(SCALE, 1.0) * 2.0", "SCALE = 1.5") for _ in range(3)]
    assert [result(k) for k in kernels] == [3.0, 3.0, 3.0]
    assert lowered.count == 1


def test_another_text_or_place_is_another_kernel(lowered: Lowerings, build: Build) -> None:
    for _ in range(2):
        assert result(build("2.0")) == 2.0
        assert result(build("3.0")) == 3.0
        assert result(build("2.0", around="\n")) == 2.0
        assert result(build("2.0", dtype="kc.float64"), np.float64) == 2.0
    assert lowered.count == 4


def test_parameters_of_all_kinds_are_recalled(lowered: Lowerings, build: Build) -> None:
    around = "@kc.struct\nclass S:\n    v: kc.vec2\n    a: kc.array(dtype=float)"
    text = PROGRAM.replace("(out:", "(s: S, w: kc.vec2, k: int, x: typing.Any, out:")
    for _ in range(2):
        for value in (kc.vec3(0.5), kc.vec2(0.5, 0.0)):
            kernel = build("s.v[k] + s.a[i] + w.y + x[0]", around, text=text)
            struct = kernel.pyfunc.__globals__["S"](v=(1.0, 2.0), a=np.ones(1, np.float32))
            out = np.zeros(1, np.float32)
            kc.launch(kernel, 1, inputs=[struct, kc.vec2(0.0, 8.0), 1, value, out])
            assert out[0] == 11.5
    assert lowered.count == 2


def test_what_is_not_a_launch_builds_the_ir_later(lowered: Lowerings, build: Build) -> None:
    for _ in range(2):
        kernel = build("2.0")
        assert result(kernel) == 2.0
    assert lowered.count == 1
    assert kernel.func.name == "write"
    assert [e.writes for e in kernel.effects] == [True]
    assert lowered.count == 2


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
    "enumeration": (
        "class A(enum.IntEnum): B = 2",
        "class A(enum.IntEnum): B = 3",
        *("float(A.B)", 2.0, 3.0),
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
MAKE = "def make(c):\n  @kc.func\n  def f(x: float): return x * c\n  return f\n"
TWO = "@kc.func\ndef f(x: T): return 2.0\n@kc.func\ndef f(x: S): return 3.0"
# The same for functions that the kernel calls.
FUNCTIONS: dict[str, tuple[str, str, str, float, float]] = {
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
}
LAMBDA = "f = kc.func(lambda x: x * {})"
# The same for what only a kernel that is lowered knows.
OPEN: dict[str, tuple[str, str, str, float, float]] = {
    "lambda": (LAMBDA.format("2.0"), LAMBDA.format("3.0"), "f(1.0)", 2.0, 3.0),
    "static": ("A = {1: 2.0}", "A = {1: 3.0}", "kc.static(A[1])", 2.0, 3.0),
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
READ = {**OTHERS, **FUNCTIONS, **OPEN}


@pytest.mark.parametrize("name", READ)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_a_kernel_reads_decides_what_it_finds(
    lowered: Lowerings, build: Build, name: str
) -> None:
    first, second, value, *expected = READ[name]
    found = [result(build(value, around)) for around in (first, second, first, second)]
    assert found == [np.float32(x) for x in (*expected, *expected)]
    assert lowered.count == (4 if name in OPEN else 2)


@pytest.mark.parametrize(
    ("around", "value", "change"),
    [
        ("A = 2.0", "x[i] * A", "A = 3.0"),
        ("A = [2.0]", "x[i] * A[0]", "A[0] = 3.0"),
        ("A = kc.vec2(2.0, 2.0)", "x[i] * A[0]", "A[0] = 3.0"),
        ("A = types.SimpleNamespace(b=2.0)", "x[i] * A.b", "A.b = 3.0"),
        ("A = 2.0\n" + SCALE.format("A"), "f(x[i])", "A = 3.0"),
        (SCALE.format("2.0"), "f(x[i])", "f.overloads.clear()"),
    ],
)
@pytest.mark.parametrize("is_known", [False, True])
def test_ir_that_is_built_late_has_the_values_of_the_launch(
    lowered: Lowerings, build: Build, around: str, value: str, change: str, is_known: bool
) -> None:
    text = PROGRAM.replace("(out:", "(x: kc.array(dtype=float), out:")
    x, out = np.full(1, 5, np.float32), np.zeros(1, np.float32)
    for _ in range(1 + is_known):
        kernel = build(value, around, text=text)
        kc.launch(kernel, 1, inputs=[x, out])
    assert lowered.count == 1
    exec(change, kernel.pyfunc.__globals__)
    ct_x, ct_out = np.zeros_like(x), np.ones_like(x)
    kc.launch(kernel, 1, [x], [out], [ct_x], [ct_out], adjoint=True)
    assert (out.tolist(), ct_x.tolist()) == ([10.0], [2.0])
    assert lowered.count == 1 + is_known


def test_settings_decide_what_is_found(lowered: Lowerings, build: Build) -> None:
    value = "out[i + 7] * 0.0 + 2.0"
    try:
        for _ in range(2):
            for kc.config.mode in ("debug", "release"):
                out = np.zeros(9, np.float32)
                kernel = build(value)
                kc.launch(kernel, 2, inputs=[out])
                assert out[0] == 2.0
                if kc.config.mode == "debug":
                    with pytest.raises(
                        KernelIndexError, match=r"index 9 .*\n.*program.py.*line 11"
                    ):
                        kc.launch(kernel, 9, inputs=[out])
    finally:
        kc.config.mode = "release"
    assert lowered.count == 2


def test_settings_that_change_in_between_store_nothing(lowered: Lowerings, build: Build) -> None:
    kernel = build("out[i + 7] * 0.0 + 2.0")
    _ = kernel.func
    try:
        kc.config.mode = "debug"
        kc.launch(kernel, 1, inputs=[np.zeros(9, np.float32)])
        kernel = build("out[i + 7] * 0.0 + 2.0")
        with pytest.raises(KernelIndexError):
            kc.launch(kernel, 9, inputs=[np.zeros(9, np.float32)])
    finally:
        kc.config.mode = "release"
    assert lowered.count == 2


@pytest.mark.parametrize("kept", ["o", "launch"])
def test_half_of_what_was_stored_is_enough(
    lowered: Lowerings, build: Build, tmp_path: Path, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        monkeypatch.setattr(compiler, "_registry", dict)
        assert result(build("2.5")) == 2.5
        for path in (tmp_path / "cache").iterdir():
            if path.suffix[1:] not in (kept, "host"):
                path.unlink()
    assert lowered.count == 2


def test_nothing_is_found_without_a_cache(
    lowered: Lowerings, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KC_CACHE", "0")
    assert [result(build("2.0")) for _ in range(2)] == [2.0, 2.0]
    assert lowered.count == 2


@pytest.mark.parametrize("first", [2.0, 3.0])
def test_what_a_copy_lacks_keeps_a_kernel_from_being_recalled(
    lowered: Lowerings, build: Build, first: float
) -> None:
    for number in (first, 5.0 - first, first):
        kernel = build("A + A.b", f"class F(float): b = 1.0\nA = F({number})")
        assert result(kernel) == number + 1.0
    assert lowered.count == 6


def test_errors_are_those_of_the_whole_kernel(lowered: Lowerings, build: Build) -> None:
    for _ in range(2):
        with pytest.raises(KernelNameError, match="did you mean 'SCALE'"):
            result(build("SCALES * 2.0", "SCALE = 1.0"))
        with pytest.raises(KernelTypeError, match="found 'A', a module"):
            result(build("A", "A = enum"))


KERNELS = [
    k for m in MODULES for k in vars(m).values() if isinstance(k, Kernel) and not k.is_generic
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_a_copy_of_what_is_around_a_kernel_is_enough(kernel: Kernel) -> None:
    types = [p.type for p in kernel.parameters if p.type is not None]
    closed = close(read_source(kernel.pyfunc), types)
    plain = canonical(specialize_kernel(kernel.pyfunc, types))
    if closed is not None:
        assert canonical(specialize_kernel(kernel.pyfunc, types, closed.source)) == plain
        again = close(read_source(kernel.pyfunc), types)
        assert again is not None
        assert again.text == closed.text


def test_types_are_described_to_their_last_field() -> None:
    rows = [
        *(kc.float32, kc.vec3, kc.vec3d, kc.vec4, kc.quat, kc.mat22, kc.array(dtype=float)),
        *(kc.array(dtype=float, ndim=2), kc.array(dtype=kc.vec3), kc.indexedarray(dtype=float)),
    ]
    rows += [
        kc.struct(type("A", (), {"__annotations__": fields}))
        for fields in ({"x": float}, {"x": int}, {"y": float}, {"x": kc.array(dtype=float)})
    ]
    texts = [describe(type_of(row)) for row in rows]
    assert None not in texts
    assert len(set(texts)) == len(texts)
    assert describe(Scalar("float32", "float", 16)) is None
    assert describe(kc.Kernel) is None
