"""Kernels as plain Python: the bits of compiled code, debuggers, errors with line and thread."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportOptionalMemberAccess=false

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from types import FrameType
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.launch.dispatch import argument_leaves
from tests.fuzz.program_arguments import arguments
from tests.fuzz.statements import POINTS
from tests.fuzz.test_typed_programs import compare, define, fuzz, names
from tests.fuzz.typed_programs import Program
from tests.helpers import interpreter

Floats = kc.array(dtype=float)
Vectors = kc.array(dtype=kc.vec3)


@kc.struct
class Particle:
    mass: float
    place: kc.vec3


@kc.func
def moved(a: float, v: kc.vec3) -> Any:
    v.x = a * 0.1
    return v * a


@kc.func
def moved(a: float, v: float) -> Any:  # noqa: F811
    return v - a / 3.0


@kc.kernel
def mixed(x: Floats, y: Vectors, s: Floats, p: kc.array(dtype=Particle), n: int):
    i = kc.tid()
    v = kc.vec3(1.0, 2.0, 3.0)
    w = v
    w.y = 7.0
    y[i] = moved(x[i], v) + w
    y[i].x = 5.0
    y[i].y += 0.1
    p[i].place[2] = moved(x[i], 2.0)
    p[i].mass = p[i].place.z * 1e-3
    s[0] += float(i)
    kc.atomic_max(s, 1, x[i])
    k = n
    while k > 0:
        k -= 1
        if k == 2:
            continue
        x[i] = kc.sin(x[i]) * 2.0 + max(float(k), 0.1)
    if 0 < i <= 2:
        return
    x[i] = float(((n * 2147483 - i) << 3) // -7 % 5)


@kc.kernel
def plane(z: kc.array2d(dtype=float), top: Floats):
    i, j = kc.tid()
    row = z[i]
    row[j] = row[j] * 0.1 + top[j : j + 1][0] + kc.static(2.0**0.5)


@kc.kernel
def beyond(x: Floats):
    i = kc.tid()
    x[i + 1] = 1.0


@kc.kernel
def two_writers(x: Floats):
    i = kc.tid()
    x[i // 2] = float(i)


@kc.kernel
def reads_written(x: Floats):
    i = kc.tid()
    x[i] = x[(i + 1) % x.shape[0]] + 1.0


@kc.kernel
def unset(x: Floats):
    i = kc.tid()
    if i < 2:
        q = x[i]
    x[i] = q


@kc.kernel
def fails(x: Floats):
    i = kc.tid()
    assert x[i] < 2.0, "too large"


@kc.kernel
def flags(x: Floats, found: Floats):
    i = kc.tid()
    if x[i] > 1.0:
        found[0] = 1.0


@pytest.fixture
def _python() -> Iterator[None]:
    with kc.python_mode():
        yield


def mixed_arguments() -> list[Any]:
    x = np.linspace(0.0, 1.0, 5, dtype=np.float32)
    p = np.zeros(5, Particle.numpy_dtype())
    return [x, np.zeros((5, 3), np.float32), np.zeros(2, np.float32), p, 5]


def plane_arguments() -> list[Any]:
    z = np.linspace(0.0, 1.0, 6, dtype=np.float32).reshape(2, 3)
    return [z, np.array([0.1, 0.2, 0.3], np.float32)]


@pytest.mark.parametrize(
    ("kernel", "dim", "given"), [(mixed, 5, mixed_arguments), (plane, (2, 3), plane_arguments)]
)
def test_results_have_the_bits_of_compiled_code(kernel: kc.Kernel, dim: Any, given: Any) -> None:
    compiled, python = given(), given()
    kc.launch(kernel, dim, compiled)
    with kc.python_mode():
        kc.launch(kernel, dim, python)
    for one, other in zip(compiled, python, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("shard", range(8))
def test_random_programs_have_the_bits_of_the_interpreter(shard: int) -> None:
    def check(program: Program) -> None:
        from_python, wanted = (arguments(program, define(program.text, names())) for _ in "ab")
        kernel: kc.Kernel = define(program.text, names())["kernel"]
        run_both(program, kernel, from_python, wanted)

    fuzz(check, shard, count=40)


def run_both(program: Program, kernel: kc.Kernel, python: list[Any], wanted: list[Any]) -> None:
    interpreter.run(kernel.func, argument_leaves(kernel, wanted), POINTS)
    with kc.python_mode():
        kc.launch(kernel, POINTS, python)
    compare(program, wanted, python, "Python and interpreter")


@pytest.mark.usefixtures("_python")
@pytest.mark.parametrize(
    ("kernel", "error", "text", "line"),
    [
        (beyond, kc.KernelIndexError,
         "index 4 is outside of array 'x', whose axis 0 has 4 elements (thread 3)",
         "x[i + 1] = 1.0"),
        (two_writers, kc.KernelRaceError,
         "thread 1 writes x[0], which thread 0 wrote", "x[i // 2] = float(i)"),
        (reads_written, kc.KernelRaceError,
         "thread 1 writes x[1], which thread 0 read",
         "x[i] = x[(i + 1) % x.shape[0]] + 1.0"),
        (unset, kc.KernelNameError,
         "'q' is used before it has a value (thread 2)", "x[i] = q"),
        (fails, kc.KernelAssertionError, "too large (thread 1)",
         'assert x[i] < 2.0, "too large"'),
    ],
)  # fmt: skip
def test_an_error_names_line_and_thread(
    kernel: kc.Kernel, error: type[kc.KernelError], text: str, line: str
) -> None:
    with pytest.raises(error) as caught:
        kc.launch(kernel, 4, [np.array([0.0, 2.0, 3.0, 4.0], np.float32)])
    assert caught.value.message == text
    assert caught.value.loc is not None
    with open(__file__) as file:
        assert file.read().splitlines()[caught.value.loc.line - 1].strip() == line


@pytest.mark.usefixtures("_python")
def test_threads_that_store_the_same_bits_do_not_race() -> None:
    found = np.zeros(1, np.float32)
    kc.launch(flags, 4, [np.full(4, 2.0, np.float32), found])
    assert found[0] == 1.0


@pytest.mark.usefixtures("_python")
def test_tracing_sees_the_lines_of_the_source() -> None:
    lines: set[int] = set()

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name == "flags":
            lines.add(frame.f_lineno - flags.pyfunc.__code__.co_firstlineno)
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        kc.launch(flags, 1, [np.zeros(1, np.float32), np.zeros(1, np.float32)])
    finally:
        sys.settrace(before)
    # The line of the store is not reached.
    assert {2, 3} <= lines
    assert 4 not in lines


def test_a_launch_after_python_mode_is_compiled_and_one_inside_is_not() -> None:
    x = np.zeros(4, np.float32)
    for _ in range(3):
        kc.launch(two_writers, 4, [x])
    with kc.python_mode(), pytest.raises(kc.KernelRaceError):
        kc.launch(two_writers, 4, [x])
    kc.launch(two_writers, 4, [x])


def test_a_tape_records_what_python_ran_first() -> None:
    x = kc.array([1.0, 2.0], dtype=float, requires_grad=True)
    y = kc.zeros(2, dtype=float, requires_grad=True)
    with kc.python_mode(), kc.Tape() as tape:
        kc.launch(doubled, 2, [x], [y])
    y.grad.fill_(1.0)
    tape.backward()
    assert y.numpy().tolist() == [2.0, 4.0]
    assert x.grad.numpy().tolist() == [2.0, 2.0]


@kc.kernel
def doubled(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = 2.0 * x[i]


PROGRAM = """\
import numpy as np
import kernelcore as kc

@kc.kernel
def stops(x: kc.array(dtype=float)):
    i = kc.tid()
    twice = x[i] * 2.0
    if i == 1:
        breakpoint()
    x[i] = twice

kc.launch(stops, 3, [np.array([1.0, 2.5, 3.0], np.float32)])
"""


def test_pdb_stops_in_a_kernel_with_its_variables(tmp_path: Any) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(path)],
        input="p 'twice', float(twice), int(i)\np int(kc.tid())\nl .\nn\nc\n",
        env={**os.environ, "KC_MODE": "python", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "('twice', 5.0, 1)" in done.stdout
    assert "(Pdb) 1\n" in done.stdout
    assert f"> {path}(10)stops()" in done.stdout
    assert "-> x[i] = twice" in done.stdout


@kc.struct
class Inner:
    w: kc.vec2
    n: int


@kc.struct
class Scene:
    k: float
    x: Floats
    inner: Inner
    m: kc.mat22


@kc.func_native("return x * x + 1.0f;")
def native_square(x: float) -> float: ...


@kc.func_native("return {a * v.x, a * v.y, v.z};")
def native_vector(v: kc.vec3, a: float) -> kc.vec3: ...


@kc.func_native("a[i] += v;")
def native_put(a: Floats, i: int, v: float): ...


@kc.kernel
def gathers(x: kc.indexedarray(dtype=float), y: Floats):
    i = kc.tid()
    y[i] = x[i] * 2.0 + float(x.shape[0])


@kc.kernel
def scatters(x: kc.indexedarray2d(dtype=float), y: Floats):
    i, j = kc.tid()
    row = x[i]
    row[j] = y[j] + float(i)


@kc.kernel
def calls_native(x: Floats, v: Vectors, y: Floats):
    i = kc.tid()
    x[i] = native_square(x[i])
    v[i] = native_vector(v[i], 2.0)
    native_put(y, i, v=3.0)


@kc.kernel
def of_scene(s: Scene, y: Floats):
    i = kc.tid()
    inner = s.inner
    inner.n = 7
    y[i] = s.k * s.x[i] + s.inner.w.y * float(s.inner.n + inner.n) + s.m[1, 0]
    s.x[i] = y[i]


# Its name is that of a helper.
@kc.kernel
def store(p: kc.array(dtype=Inner), y: Floats):
    i = kc.tid()
    q = p[i]
    q.n = q.n + 1
    p[i] = q
    p[i].w.x += 1.0
    y[i] = p[i].w.x + float(p[i].n)


@kc.kernel
def of_values(v: kc.vec2, inner: Inner, y: Floats):
    y[kc.tid()] = v.x * inner.w.y + v.y


def indexed(*tables: Any) -> Any:
    data = np.arange(4 ** len(tables), dtype=np.float32).reshape((4,) * len(tables))
    return kc.indexedarray(data, list(tables))


def scene() -> Scene:
    x, w = np.arange(3, dtype=np.float32), kc.vec2(1.0, 2.0)
    return Scene(k=2.0, x=x, inner=Inner(w=w, n=3), m=kc.mat22(1.0, 2.0, 3.0, 4.0))


def elements(arg: Any) -> bytes:
    """The elements of an argument, or of the arrays in it."""
    if isinstance(arg, dict):
        return b"".join(elements(a) for a in arg.values() if isinstance(a, np.ndarray))
    data = arg.x if isinstance(arg, Scene) else getattr(arg, "data", arg)
    return np.asarray(arg if isinstance(arg, np.ndarray) else data).tobytes()


@pytest.mark.parametrize(
    ("kernel", "dim", "given"),
    [
        (gathers, 3, lambda y: [indexed(np.array([3, 0, 2], np.int32)), y]),
        (scatters, (2, 3), lambda y: [indexed(np.array([3, 1], np.int32), None), y]),
        (calls_native, 3, lambda y: [y + 2, np.ones((3, 3), np.float32), y]),
        (of_scene, 3, lambda y: [scene(), y]),
        (store, 3, lambda y: [np.zeros(3, Inner.numpy_dtype()), y]),
        (store, 3, lambda y: [{"w": np.ones((3, 2), np.float32), "n": np.ones(3, np.int32)}, y]),
        (of_scene, 3, lambda y: [{"k": 2.0, "x": y, "inner": Inner(), "m": np.eye(2)}, y]),  # pyright: ignore[reportCallIssue]
        (of_values, 3, lambda y: [(2.0, 3.0), {"w": (4.0, 5.0), "n": 1}, y]),
    ],
)
def test_every_kind_of_argument_is_taken(kernel: kc.Kernel, dim: Any, given: Any) -> None:
    results: list[list[bytes]] = []
    for mode in ("release", "python"):
        args = given(np.arange(3, dtype=np.float32))
        with kc.python_mode() if mode == "python" else nullcontext():
            kc.launch(kernel, dim, args)
        results.append([elements(a) for a in args])
    assert results[0] == results[1]


@pytest.mark.usefixtures("_python")
def test_arguments_that_do_not_fit_are_refused() -> None:
    table = np.array([3, 1], np.int32)
    with pytest.raises(kc.KernelIndexError, match="index 2 is outside of array 'x'"):
        kc.launch(gathers, 3, [indexed(table), np.zeros(3, np.float32)])

    for wrong in (np.zeros(4, np.int32), np.zeros((2, 2), np.float32)):
        with pytest.raises(kc.KernelArgumentError, match="argument 'x': expected array"):
            kc.launch(fails, 4, [wrong])
