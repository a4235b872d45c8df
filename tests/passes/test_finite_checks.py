"""``config.check_finite``: a write that is not finite names kernel, line, thread and element."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.launch.dispatch import argument_leaves
from tests.helpers import interpreter

F = np.float32
INFINITY = float("inf")
Floats = kc.array(dtype=float)


@pytest.fixture(autouse=True)
def _checks() -> Iterator[None]:
    with kc.check_finite():
        yield


@kc.struct
class Particle:
    place: kc.vec3
    mass: float


@kc.kernel
def invert(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):
    i = kc.tid()
    y[i] = type(x[i])(1) / x[i]


@kc.kernel
def roots(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = kc.sqrt(x[i])


@kc.kernel
def plane(x: kc.array2d(dtype=float), y: kc.array2d(dtype=float)):
    i, j = kc.tid()
    y[i, j] = kc.log(x[i, j])


@kc.kernel
def vectors(x: Floats, y: kc.array(dtype=kc.vec3)):
    i = kc.tid()
    y[i] = kc.vec3(1.0, 1.0 / x[i], 2.0)


@kc.kernel
def component(x: Floats, y: kc.array(dtype=kc.vec3)):
    i = kc.tid()
    y[i].z = 1.0 / x[i]


@kc.kernel
def matrices(x: Floats, y: kc.array(dtype=kc.mat22)):
    i = kc.tid()
    y[i] = kc.mat22(0.0, 1.0, 1.0 / x[i], 2.0)


@kc.kernel
def particles(x: Floats, y: kc.array(dtype=Particle)):
    i = kc.tid()
    y[i].place = kc.vec3(0.0, 1.0, 1.0 / x[i])


@kc.kernel
def own_sum(x: Floats, y: Floats):
    i = kc.tid()
    y[i] += 1.0 / x[i]


@kc.kernel
def total(x: Floats, y: Floats):
    i = kc.tid()
    kc.atomic_add(y, 0, 1.0 / x[i])


@kc.kernel
def least(x: Floats, y: Floats):
    i = kc.tid()
    kc.atomic_min(y, 0, -1.0 / x[i])


@kc.kernel
def swap(x: Floats, y: Floats):
    i = kc.tid()
    kc.atomic_exch(y, i, 1.0 / x[i])


@kc.kernel
def compared(x: Floats, y: Floats):
    i = kc.tid()
    kc.atomic_cas(y, i, 0.0, 1.0 / x[i])


@kc.kernel
def guarded(x: Floats, y: Floats):
    i = kc.tid()
    q = 1.0 / x[i]
    if x[i] != 0.0:
        y[i] = q


@kc.kernel
def in_loop(x: Floats, y: kc.array2d(dtype=float)):
    i = kc.tid()
    for k in range(4):
        y[i, k] = float(k) / x[i]


@kc.kernel
def constant(y: Floats):
    y[0] = INFINITY


# Per kernel: the shape of the array that it writes, and what is said of thread 37.
FORMS = [
    (vectors, (100, 3), "thread 37 stores inf to y[37][1]"),
    (component, (100, 3), "thread 37 stores inf to y[37][2]"),
    (matrices, (100, 2, 2), "thread 37 stores inf to y[37][1, 0]"),
    (own_sum, 100, "thread 37 adds inf to y[37]"),
    (total, 1, "thread 37 adds inf to y[0]"),
    (least, 1, "thread 37 stores -inf to y[0]"),
    (swap, 100, "thread 37 stores inf to y[37]"),
    (compared, 100, "thread 37 stores inf to y[37]"),
    (in_loop, (100, 4), "thread 37 stores nan to y[37, 0]"),
]


def zeros(shape: Any, dtype: Any = F) -> Any:
    return np.zeros(shape, dtype)


def check(kernel: kc.Kernel, dim: Any, args: list[Any], text: str) -> None:
    """Machine code and interpreter refuse with the same message, which starts with ``text``."""
    chosen, copies = kernel.for_arguments(args), copy.deepcopy(args)
    with pytest.raises(kc.KernelFiniteError) as compiled:
        kc.launch(kernel, dim, args)
    with pytest.raises(kc.KernelFiniteError) as interpreted:
        interpreter.run(chosen.func, argument_leaves(chosen, copies), dim)
    assert str(compiled.value) == str(interpreted.value)
    assert str(compiled.value).splitlines()[0] == f"{kernel.name}(): {text}"


def with_zero(size: int = 100, at: int = 37, dtype: Any = F) -> Any:
    x = np.ones(size, dtype)
    x[at] = 0
    return x


@pytest.mark.parametrize(("kernel", "shape", "text"), FORMS)
def test_every_form_of_a_write_is_checked(kernel: kc.Kernel, shape: Any, text: str) -> None:
    check(kernel, 100, [with_zero(), zeros(shape)], text)


@pytest.mark.parametrize("dtype", [kc.float32, kc.float64, kc.float16, kc.bfloat16])
def test_every_float_is_checked(dtype: Any) -> None:
    array = kc.array(dtype=dtype)
    x, y = with_zero(dtype=dtype.numpy), zeros(100, dtype.numpy)
    check(invert.overload({"x": array, "y": array}), 100, [x, y], "thread 37 stores inf to y[37]")
    assert not np.isinf(y.astype(F)).any()


def test_what_a_narrow_float_cannot_hold_is_found() -> None:
    @kc.kernel
    def narrow(x: Floats, y: kc.array(dtype=kc.float16)):
        i = kc.tid()
        y[i] = kc.float16(x[i])

    x = np.array([1.0, 65504.0, 1e5], F)
    check(narrow, 3, [x, zeros(3, np.float16)], "thread 2 stores inf to y[2]")


def test_structs_name_the_field() -> None:
    args = [with_zero(), kc.zeros(100, Particle)]
    with pytest.raises(kc.KernelFiniteError, match=r"thread 37 stores inf to y\.place\[37\]\[2\]"):
        kc.launch(particles, 100, args)


def test_the_message_shows_the_line() -> None:
    with pytest.raises(kc.KernelFiniteError) as error:
        kc.launch(roots, 1, [np.full(1, -1.0, F)], [zeros(1)])
    assert isinstance(error.value, FloatingPointError)
    first, where, line, caret, remedy = str(error.value).splitlines()
    assert first == "roots(): thread 0 stores nan to y[0]"
    assert f'File "{__file__}", line' in where
    assert line.strip() == "y[i] = kc.sqrt(x[i])"
    assert caret.strip() == "^" * len("y[i]")
    assert "kc.check_finite(False)" in remedy


def test_a_grid_of_several_axes_names_all_of_them() -> None:
    x = np.ones((3, 50), F)
    x[2, 45] = -1
    check(plane, (3, 50), [x, zeros((3, 50))], "thread (2, 45) stores nan to y[2, 45]")


def test_a_sum_that_overflows_is_found_where_a_thread_knows_it() -> None:
    big = np.full(100, 3e38, F)
    check(own_sum, 100, [1 / big, big.copy()], "thread 0 adds 3e+38 to y[0], which makes inf")


def test_an_atomic_that_leaves_the_element_finite_passes() -> None:
    x, y = with_zero(), np.full(1, -5.0, F)
    largest = kc.Kernel(least.pyfunc)
    kc.launch(largest, 37, [x[:37]], [y])
    assert y[0] == -5.0
    y[0] = np.inf
    kc.launch(largest, 37, [x[:37]], [y])
    assert y[0] == -1.0
    # It keeps 1, which is not 0.
    kept = np.ones(100, F)
    kc.launch(compared, 100, [with_zero()], [kept])
    assert (kept == 1.0).all()


@pytest.mark.parametrize("size", [1, 7, 100, 100_000])
def test_inactive_lanes_and_finite_values_pass(size: int) -> None:
    x, y = np.ones(size, F), zeros(size)
    x[::3] = 0
    kc.launch(guarded, size, [x], [y])
    assert (y == x).all()


def test_a_literal_is_checked_and_a_launch_can_be_let_through() -> None:
    y = zeros(1)
    check(constant, 1, [y], "a thread stores inf to y[0]")
    with kc.check_finite(False):
        kc.launch(constant, 1, [y])
    assert np.isinf(y[0])
    assert kc.config.check_finite


def test_launches_follow_the_setting() -> None:
    kernel = kc.Kernel(roots.pyfunc)
    args = [np.full(1, -1.0, F), zeros(1)]
    for _ in range(3):
        kc.config.check_finite = False
        for _ in range(2):
            kc.launch(kernel, 1, args)
        kc.config.check_finite = True
        for _ in range(2):
            with pytest.raises(kc.KernelFiniteError):
                kc.launch(kernel, 1, args)


def test_without_the_setting_the_code_is_the_same() -> None:
    checked = kc.Kernel(roots.pyfunc).inspect("ir")
    kc.config.check_finite = False
    before = kc.Kernel(roots.pyfunc)
    assert "assert" in checked
    assert "assert" not in before.inspect("ir")


def test_debug_mode_still_finds_indices_first() -> None:
    @kc.kernel
    def beyond(x: Floats, y: Floats):
        i = kc.tid()
        y[i + 1] = 1.0 / x[i]

    try:
        kc.config.mode = "debug"
        with pytest.raises(kc.KernelIndexError, match="index 1 is outside of axis 0 of 'y'"):
            kc.launch(beyond, 1, [zeros(1)], [zeros(1)])
        with pytest.raises(kc.KernelFiniteError, match=r"thread 0 stores inf to y\[1\]"):
            kc.launch(beyond, 1, [zeros(1)], [zeros(2)])
    finally:
        kc.config.mode = "release"


def test_adjoints_name_the_forward_line_and_the_array() -> None:
    x, ct_x = np.array([1.0, 0.0], F), zeros(2)
    with pytest.raises(kc.KernelFiniteError) as error:
        kc.launch(roots, 2, [x], [zeros(2)], [ct_x], [np.ones(2, F)], adjoint=True)
    text = str(error.value)
    assert text.startswith("roots_vjp(): thread 1 adds inf to the gradient of x[1]\n")
    assert "y[i] = kc.sqrt(x[i])" in text


def test_tapes_are_checked() -> None:
    x = kc.array([1.0, 0.0], dtype=float, requires_grad=True)
    y = kc.zeros(2, dtype=float, requires_grad=True)
    tape = kc.Tape()
    with tape:
        kc.launch(roots, 2, [x], [y])
    y.grad.fill_(1.0)
    with pytest.raises(kc.KernelFiniteError, match=r"adds inf to the gradient of x\[1\]"):
        tape.backward()
    with pytest.raises(kc.KernelFiniteError, match=r"thread 0 stores nan to y\[0\]"), kc.Tape():
        kc.launch(roots, 2, [kc.array([-1.0, 0.0], dtype=float, requires_grad=True)], [y])


def test_tangents_are_checked() -> None:
    x, t_x = np.array([1.0, 0.0], F), np.ones(2, F)
    with pytest.raises(kc.KernelFiniteError, match=r"stores inf to the tangent of y\[1\]"):
        kc.jvp(roots, 2, [x], [t_x], [zeros(2)])


def test_graphs_and_recorded_launches_keep_the_checks_they_were_made_with() -> None:
    x, y = np.ones(2, F), zeros(2)
    with kc.ScopedCapture() as capture:
        kc.launch(roots, 2, [x], [y])
    command = kc.launch(roots, 2, [x], [y], record_cmd=True)
    x[1] = -1.0
    kc.config.check_finite = False
    for run in (lambda: kc.capture_launch(capture.graph), command.launch):
        with pytest.raises(kc.KernelFiniteError, match=r"thread 1 stores nan to y\[1\]"):
            run()


def test_kernels_with_the_setting_pickle() -> None:
    kernel = pickle.loads(pickle.dumps(roots))
    check(kernel, 1, [np.full(1, -1.0, F), zeros(1)], "thread 0 stores nan to y[0]")


@pytest.mark.parametrize("flag", ["0", "1"])
def test_the_environment_sets_the_flag(flag: str) -> None:
    code = "import kernelcore as kc; print(int(kc.config.check_finite))"
    environment = {**os.environ, "KC_CHECK_FINITE": flag}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == flag
    with pytest.raises(kc.KernelArgumentError, match="check_finite: expected a bool, found 1"):
        kc.config.check_finite = 1


@pytest.mark.parametrize(("kernel", "shape", "text"), FORMS)
def test_python_mode_has_the_messages_of_compiled_code(
    kernel: kc.Kernel, shape: Any, text: str
) -> None:
    messages: list[list[str]] = []
    for mode in ("release", "python"):
        try:
            kc.config.mode = mode
            with pytest.raises(kc.KernelFiniteError) as error:
                kc.launch(kernel, 100, [with_zero(), zeros(shape)])
        finally:
            kc.config.mode = "release"
        messages.append(str(error.value).splitlines())
    (compiled, python) = messages
    assert compiled[0] == f"{kernel.name}(): {text}"
    # The line of an update is that of the statement to Python.
    assert [*compiled[:3], compiled[4]] == [*python[:3], python[4]]


def test_python_mode_lets_through_what_compiled_code_does() -> None:
    with kc.python_mode():
        y = np.full(1, np.inf, F)
        kc.launch(least, 37, [with_zero()[:37]], [y])
        assert y[0] == -1.0
        kept = np.full(100, np.inf, F)
        kc.launch(compared, 100, [with_zero()], [kept])
        x, y = with_zero(9, 3), zeros(9)
        kc.launch(guarded, 9, [x], [y])
        assert (y == x).all()
        with pytest.raises(kc.KernelFiniteError, match=r"inf to y\.place\[37\]\[2\]"):
            kc.launch(particles, 100, [with_zero(), kc.zeros(100, Particle)])
        big = np.full(2, 3e38, F)
        with pytest.raises(kc.KernelFiniteError, match=r"adds 3e\+38 to y\[0\], which makes inf"):
            kc.launch(own_sum, 2, [1 / big, big.copy()])
