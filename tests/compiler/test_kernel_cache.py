"""Launches that the disk cache knows: found where all is as it was, and nowhere else."""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kernelcore as kc
from kernelcore.base.errors import (
    KernelArgumentError,
    KernelIndexError,
    KernelNameError,
    KernelSyntaxError,
    KernelTypeError,
)
from kernelcore.compiler import code_store, kernel_cache
from kernelcore.frontend.specialize import specialize_kernel
from kernelcore.language.definition_key import definition_key
from kernelcore.language.types import Scalar, type_of
from kernelcore.launch import kernel_facts
from kernelcore.launch.kernel import Kernel
from tests.helpers.cached_programs import BODIES, FUNCTIONS, OPEN, OTHERS, SCALE

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

    monkeypatch.setattr(kernel_facts.specialize, "specialize_kernel", lower)
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


def test_parameters_of_all_kinds_are_stored(lowered: Lowerings, build: Build) -> None:
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


def test_a_text_that_is_not_that_of_the_code_is_refused(
    lowered: Lowerings, build: Build, tmp_path: Path
) -> None:
    text = SCALE.format("2.0")
    path = tmp_path / "program.py"
    for old, new in (
        ("f(x: float)", "f(*, x: float)"),
        ("x * 2.0", "x * 3.0"),
        ("@kc.f", "\n@kc.f"),
    ):
        build("f(1.0)", text)
        code = compile(path.read_text(), str(path), "exec", dont_inherit=True)
        path.write_text(path.read_text().replace(old, new))
        names: dict[str, Any] = {}
        exec(code, names)
        kernel = names["write"]
        with pytest.raises(KernelSyntaxError, match="has changed since it was defined"):
            result(kernel)
    assert lowered.count == 2
    assert result(build("f(1.0)", text)) == 2.0


def test_a_kernel_that_is_known_needs_its_file_no_more(build: Build, tmp_path: Path) -> None:
    kernel = build("2.0")
    assert result(kernel) == 2.0
    assert result(build("3.0")) == 3.0
    (tmp_path / "program.py").write_text("")
    out = np.zeros(1, np.float32)
    kc.launch(kernel, 1, inputs=[out], device="cpu")
    assert out[0] == 2.0
    with pytest.raises(KernelArgumentError, match="expected 1 argument"):
        kc.launch(kernel, 1, inputs=[out, out], device="cpu")


def test_integers_of_any_size_are_refused_as_they_are_without_a_cache(
    lowered: Lowerings, build: Build
) -> None:
    with pytest.raises(KernelTypeError, match="an integer too large for any type"):
        result(build("A", "A = 10**5000"))


def test_known_ir_is_not_lowered_twice(lowered: Lowerings, build: Build) -> None:
    for _ in range(2):
        kernel = build("2.0")
        assert result(kernel) == 2.0
    assert lowered.count == 1
    assert kernel.func.name == "write"
    assert [e.writes for e in kernel.effects] == [True]
    assert "write" in kernel.inspect("llvm")
    assert lowered.count == 1


READ = {**OTHERS, **FUNCTIONS, **OPEN}


@pytest.mark.parametrize("name", READ)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_key_covers_everything_that_a_kernel_reads(
    lowered: Lowerings, build: Build, name: str
) -> None:
    first, second, value, *expected = READ[name]
    found = [result(build(value, around)) for around in (first, second, first, second)]
    assert found == [np.float32(x) for x in (*expected, *expected)]
    assert lowered.count == (4 if name in OPEN else 2)


@pytest.mark.parametrize("name", BODIES)
def test_all_that_the_compiler_reads_decides_what_is_found(
    lowered: Lowerings, build: Build, name: str
) -> None:
    *programs, first, second = BODIES[name]
    for expected in ((first, second), (first, second)):
        texts = [PROGRAM.replace("out[i] = {value}", body) for _, body in programs]
        rows = zip(texts, programs, strict=True)
        found = [result(build("", around, text=text)) for text, (around, _) in rows]
        assert found == [np.float32(x) for x in expected]


@pytest.mark.parametrize(
    ("around", "value", "change", "after"),
    [
        ("A = 2.0", "x[i] * A", "A = 3.0", 3.0),
        ("A = [2.0]", "x[i] * A[0]", "A[0] = 3.0", 2.0),
        ("A = kc.vec2(2.0, 2.0)", "x[i] * A[0]", "A[0] = 3.0", 2.0),
        ("A = types.SimpleNamespace(b=2.0)", "x[i] * A.b", "A.b = 3.0", 3.0),
        ("A = 2.0\n" + SCALE.format("A"), "f(x[i])", "A = 3.0", 3.0),
        (SCALE.format("2.0"), "f(x[i])", "f.overloads.clear()", 2.0),
    ],
)
@pytest.mark.parametrize("is_known", [False, True])
def test_ir_that_is_built_late_has_the_values_of_its_launch(
    lowered: Lowerings,
    build: Build,
    around: str,
    value: str,
    change: str,
    after: float,
    is_known: bool,
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
    # Names that stand for other objects are followed; what changes inside of an object is not.
    assert (out.tolist(), ct_x.tolist()) == ([10.0], [after])
    assert lowered.count == (1 if after == 2.0 else 2)


def test_settings_are_part_of_the_key(lowered: Lowerings, build: Build) -> None:
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


@pytest.mark.parametrize("kept", ["o", "launch", "ir"])
def test_half_of_the_entries_is_enough(
    lowered: Lowerings, build: Build, tmp_path: Path, kept: str
) -> None:
    for _ in range(2):
        code_store.CPU.known.clear()
        assert result(build("2.5")) == 2.5
        for path in (tmp_path / "cache").iterdir():
            if path.suffix[1:] not in (kept, "host"):
                path.unlink()
    assert lowered.count == (1 if kept == "ir" else 2)


def test_nothing_is_found_without_a_cache(
    lowered: Lowerings, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KC_CACHE", "0")
    assert [result(build("2.0")) for _ in range(2)] == [2.0, 2.0]
    assert lowered.count == 2


def test_threads_that_flush_small_numbers_store_nothing(lowered: Lowerings, build: Build) -> None:
    value = "kc.float32(1e-30) * kc.float32(1e-10) * kc.float32(1e30)"
    for flushes in (True, False):
        assert torch.set_flush_denormal(flushes)
        try:
            kernel = build(value)
            _ = kernel.executable.signature
        finally:
            torch.set_flush_denormal(False)
    assert lowered.count == 2
    assert result(kernel) == np.float32(1e-40) * np.float32(1e30)


@pytest.mark.parametrize("problem", [AttributeError, OSError, ValueError])
def test_systems_need_not_tell_the_version_of_their_c_library(
    lowered: Lowerings, build: Build, monkeypatch: pytest.MonkeyPatch, problem: type[Exception]
) -> None:
    def confstr(name: str) -> str:
        raise problem(name)

    monkeypatch.setattr(kernel_cache.os, "confstr", confstr)
    monkeypatch.setattr(kernel_cache, "_environment", kernel_cache._environment.__wrapped__)
    assert [result(build("2.0")) for _ in range(2)] == [2.0, 2.0]
    assert lowered.count == 1


def test_errors_are_those_of_the_whole_kernel(lowered: Lowerings, build: Build) -> None:
    for _ in range(2):
        with pytest.raises(KernelNameError, match="did you mean 'SCALE'"):
            result(build("SCALES * 2.0", "SCALE = 1.0"))
        with pytest.raises(KernelTypeError, match="found 'A', a module"):
            result(build("A", "A = enum"))


def test_types_are_told_apart_to_their_last_field() -> None:
    def f() -> None: ...

    rows = [
        *(kc.float32, kc.vec3, kc.vec3d, kc.vec4, kc.quat, kc.mat22, kc.array(dtype=float)),
        *(kc.array(dtype=float, ndim=2), kc.array(dtype=kc.vec3), kc.indexedarray(dtype=float)),
    ]
    rows += [
        kc.struct(type("A", (), {"__annotations__": fields}))
        for fields in ({"x": float}, {"x": int}, {"y": float}, {"x": kc.array(dtype=float)})
    ]
    types = [t for row in rows if (t := type_of(row)) is not None]
    keys = {definition_key(f, [type_]) for type_ in types}
    assert None not in keys
    assert len(keys) == len(rows)
    assert definition_key(f, [Scalar("float32", "float", 16)]) is None
