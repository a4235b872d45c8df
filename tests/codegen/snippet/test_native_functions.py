"""Native functions: C++ texts in kernels, how they are compiled, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.disk_cache import DiskCache
from kernelcore.builtins.reference import is_narrow
from kernelcore.codegen.snippet import toolchain
from kernelcore.compiler import code_store
from kernelcore.compiler.native_code import compile_func
from kernelcore.ir.snippet import Use
from kernelcore.ir.snippet_effects import array_use
from kernelcore.language.types import SCALARS, Scalar
from kernelcore.passes.pipeline import normalize
from kernelcore.passes.vmap import batch
from tests.helpers.kernel_harness import agree
from tests.helpers.native_programs import floats, random, roots, saxpy, saxpy_kernel

# Forward


def test_a_snippet_reads_and_writes_arrays() -> None:
    x, y, out = random(100), random(100), np.zeros(100, np.float32)
    kc.launch(saxpy_kernel, 100, [2.5, x, y], [out])
    np.testing.assert_allclose(out, np.float32(2.5) * x + y, rtol=1e-6)


def test_strides_of_arrays_are_kept() -> None:
    x, y, out = random(30)[::3], random(10)[::-1], np.zeros((10, 2), np.float32)[:, 1]
    (*_, found) = agree(saxpy_kernel.func, [np.float32(2), x, y, out], 10)
    np.testing.assert_array_equal(found, 2 * x + y)


def test_a_result_is_a_value() -> None:
    x, y = random(50), np.zeros(50, np.float32)
    kc.launch(roots, 50, [x], [y])
    np.testing.assert_allclose(y, np.where(x > 1, 6 * np.sqrt(x), 0), rtol=1e-6)


def annotated(**types: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function annotations that are no names of this module."""

    def annotate(pyfunc: Callable[..., Any]) -> Callable[..., Any]:
        pyfunc.__annotations__.update({"return" if n == "ret" else n: t for n, t in types.items()})
        return pyfunc

    return annotate


@pytest.mark.parametrize("dtype", [s for s in SCALARS if not is_narrow(s)], ids=repr)
def test_every_scalar_type_is_passed(dtype: Scalar) -> None:
    array = kc.array(dtype=dtype)

    @kc.func_native("out[0] = x[0]; out[1] = v; return v;")
    @annotated(v=dtype, x=array, out=array, ret=dtype)
    def copy(v: Any, x: Any, out: Any) -> Any: ...

    @kc.kernel
    @annotated(x=array, out=array)
    def run(x: Any, out: Any):
        kc.tid()
        out[2] = copy(x[1], x, out)

    x = np.array([1, 0], dtype.numpy)
    found = agree(run.func, [x, np.ones(3, dtype.numpy)], 1)[-1]
    assert found.tolist() == [1, 0, 0]


def test_elements_of_arrays_have_further_indices_for_components() -> None:
    @kc.func_native("out[i] = v(i, 0) + v[i][1] * v.shape[1];")
    def first(v: kc.array(dtype=kc.vec2), out: floats, i: int): ...

    @kc.kernel
    def run(v: kc.array(dtype=kc.vec2), out: floats):
        first(v, out, kc.tid())

    v = random(5, 2)
    found = agree(run.func, [v, np.zeros(5, np.float32)], 5)[-1]
    np.testing.assert_array_equal(found, v[:, 0] + 2 * v[:, 1])


def test_a_row_of_an_array_is_passed() -> None:
    @kc.func_native("float s = 0; for (int k = 0; k < r.shape[0]; ++k) s += r[k]; return s;")
    def total(r: floats) -> float: ...

    @kc.kernel
    def run(a: kc.array2d[float], out: floats):
        i = kc.tid()
        out[i] = total(a[i])

    a = random(3, 4)
    found = agree(run.func, [a, np.zeros(3, np.float32)], 3)[-1]
    np.testing.assert_allclose(found, a.sum(1), rtol=1e-6)


def test_a_batch_is_passed_instance_by_instance() -> None:
    func = normalize(batch(saxpy_kernel.func, [True, True, False, True]))
    a, x, y = random(3), random(3, 5), random(5)
    found = agree(func, [a, x, y, np.zeros((3, 5), np.float32)], (3, 5))[-1]
    np.testing.assert_allclose(found, a[:, None] * x + y, rtol=1e-6)


# What a text does to its arrays


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("y = x[i] + x(i, 2) * sqrtf(x[i]);", Use.LOAD),
        ("int n = x.shape[0];", Use.NONE),
        ("x[i] = 1; if (c) x[i + 1] = 2;", Use.STORE),
        ("x[i] = x[i - 1];", Use.LOAD | Use.STORE),
        ('// x\nchar* s = "x"; xs[i] = 1;', Use.NONE),
        ("x[x[0]] = 1;", Use.LOAD | Use.STORE),
        *(
            (text, Use.LOAD | Use.STORE | Use.ADD)
            for text in (
                "x[i] += 1;",
                "x[i]++;",
                "--x[i];",
                "float* p = &x[i];",
                "float* p = x.data;",
                "float& r = x[i];",
                "auto& r{x[i]};",
                "change(x[i]);",
                "std::swap(x[i], y[i]);",
                "change(x);",
                "y = x[i] = 3;",
                "#define EL x[i]\nEL = 3;",
            )
        ),
    ],
)
def test_effects_of_a_snippet_are_read_from_its_text(text: str, use: Use) -> None:
    assert array_use(text, "x") == use


def test_cotangents_that_are_summed_into_are_no_loads() -> None:
    assert array_use("adj_x[i] += 2 * adj_y[i];", "adj_x", sums=True) == Use.ADD


def test_effects_are_those_of_the_text() -> None:
    kinds = [(e.loads, e.stores, e.accumulates) for e in saxpy_kernel.effects]
    assert kinds == [(False,) * 3, (True, False, False), (True, False, False), (False, True, False)]


# Errors


def test_without_a_compiler_the_error_says_which_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @kc.func_native("return x + 41.0f;")
    def shift(x: float) -> float: ...

    @kc.kernel
    def run(x: floats):
        i = kc.tid()
        x[i] = shift(x[i])

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("KC_CACHE", "0")
    monkeypatch.setenv("CXX", "nonesuch")
    expected = r"(?s)shift\(\) needs a C\+\+ compiler.*nonesuch.*c\+\+, g\+\+.*install"
    with pytest.raises(kc.KernelCompileError, match=expected):
        kc.launch(run, 1, [np.zeros(1, np.float32)])


@pytest.mark.parametrize(
    ("command", "text"),
    [("g++ 'x", "No closing quotation"), ("/bin/false", "ended with status 1 and no message")],
)
def test_a_command_that_is_no_compiler_is_named(
    command: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @kc.func_native("return x + 43.0f;")
    def shift(x: float) -> float: ...

    @kc.kernel
    def run(x: floats):
        i = kc.tid()
        x[i] = shift(x[i])

    monkeypatch.setenv("KC_CACHE", "0")
    monkeypatch.setenv("CXX", command)
    with pytest.raises(kc.KernelCompileError, match=text):
        kc.launch(run, 1, [np.zeros(1, np.float32)])


def test_an_entry_without_the_function_counts_as_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @kc.func_native("return x + 44.0f;")
    def shift(x: float) -> float: ...

    @kc.kernel
    def run(x: floats):
        i = kc.tid()
        x[i] = shift(x[i])

    monkeypatch.setenv("KC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(DiskCache, "load", lambda self, key: b"")
    x = np.zeros(1, np.float32)
    kc.launch(run, 1, [x])
    assert x[0] == 44.0


def test_a_rejected_text_is_shown_with_its_line() -> None:
    @kc.func_native(
        """
        float y = x;
        return y + nonsense;
        """
    )
    def broken(x: float) -> float: ...

    @kc.kernel
    def run(x: floats):
        i = kc.tid()
        x[i] = broken(x[i])

    with pytest.raises(kc.KernelCompileError) as caught:
        kc.launch(run, 1, [np.zeros(1, np.float32)])
    message = str(caught.value)
    assert caught.value.loc is not None
    line = Path(__file__).read_text().splitlines()[caught.value.loc.line - 1]
    assert line.strip() == "return y + nonsense;"
    assert f"{__file__}:{caught.value.loc.line}" in message
    assert "broken()" in message


def test_an_input_cannot_be_written_by_a_text_that_hides_it() -> None:
    @kc.func_native("(c ? x[i] : x[i]) = 1.0f;")
    def sneak(x: floats, c: bool, i: int): ...

    @kc.kernel
    def run(x: floats):
        sneak(x, True, kc.tid())

    with pytest.raises(kc.KernelCompileError, match="rejected the native snippet"):
        kc.launch(run, 1, [np.zeros(1, np.float32)])


def test_wrong_arguments_are_refused() -> None:
    @kc.kernel
    def run(x: kc.array(dtype=kc.float64), y: floats):
        saxpy(1.0, x, y, y, kc.tid())

    with pytest.raises(kc.KernelTypeError, match=r"saxpy\(\): argument 'x'.*float32.*float64"):
        _ = run.func


def test_types_that_cxx_lacks_are_refused() -> None:
    @kc.func_native("return x;")
    def half(x: kc.float16) -> float: ...

    @kc.kernel
    def run(x: kc.array(dtype=kc.float16), y: floats):
        i = kc.tid()
        y[i] = half(x[i])

    with pytest.raises(kc.KernelTypeError, match=r"parameter 'x': .* text cannot be passed"):
        _ = run.func


def test_names_of_cotangents_are_refused() -> None:
    @kc.func_native("return x;")
    def clash(x: float, adj_x: float) -> float: ...

    @kc.kernel
    def run(x: floats):
        x[kc.tid()] = clash(1.0, 2.0)

    with pytest.raises(kc.KernelSyntaxError, match="parameter 'adj_x' has the name"):
        _ = run.func


def test_parameters_may_have_the_names_of_generated_code() -> None:
    @kc.func_native("return snippet + block;")
    def named(block: float, snippet: float) -> float: ...

    @kc.kernel
    def run(x: floats):
        i = kc.tid()
        x[i] = named(1.0, 2.0)

    assert agree(run.func, [np.zeros(1, np.float32)], 1)[0].tolist() == [3]


def test_a_slice_is_refused() -> None:
    @kc.func_native("return x[0];")
    def head(x: floats) -> float: ...

    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        y[i] = head(x[1:3])

    with pytest.raises(kc.KernelTypeError, match="takes whole arrays and their rows"):
        _ = run.func


def test_a_native_function_has_no_python_body() -> None:
    @kc.func_native("return x;")
    def both(x: float) -> float:
        return x

    @kc.kernel
    def run(x: floats):
        i = kc.tid()
        x[i] = both(x[i])

    with pytest.raises(kc.KernelSyntaxError, match="code in Python"):
        _ = run.func
    with pytest.raises(kc.KernelError, match="called from Python"):
        both(1.0)


# Compilation


def test_a_second_process_calls_no_compiler(tmp_path: Path) -> None:
    script = (
        "import numpy as np, kernelcore as kc\n"
        "from tests.helpers.native_programs import roots\n"
        "x = np.full(2, 4, np.float32); y = np.zeros_like(x)\n"
        "kc.launch(roots, 2, [x], [y]); print(y.tolist())"
    )
    env = {**os.environ, "KC_CACHE_DIR": str(tmp_path / "objects"), "KC_CACHE": "1"}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)

    def run(**more: str) -> str:
        command = [sys.executable, "-c", script]
        done = subprocess.run(
            command, env={**env, **more}, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert run() == "[12.0, 12.0]"
    assert run(PATH=str(tmp_path), CXX="") == "[12.0, 12.0]"


def test_an_entry_of_the_cache_is_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KC_CACHE_DIR", str(tmp_path / "objects"))
    monkeypatch.delenv("KC_CACHE", raising=False)
    monkeypatch.setattr(code_store.CPU, "known", {})
    key = compile_func(saxpy_kernel.func).key

    def refuse(snippet: object) -> bytes:
        raise AssertionError(snippet)

    monkeypatch.setattr(toolchain, "compile_snippet", refuse)
    code_store.CPU.known.clear()
    assert code_store.resolve(key) is not None
