"""Functions, overloads, generics, compile-time code, map and printf."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable
from enum import IntFlag
from typing import Any, TypeVar

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.builtins import BUILTINS
from tests.helpers.language import run_both
from tests.helpers.maths_reference import INTEGER_DOMAIN, float_domain

RNG = np.random.default_rng(5)


@kc.func
def describe(x: int) -> int:
    return 1


@kc.func
def describe(x: float) -> int:  # noqa: F811
    return 2


@kc.func
def describe(x: kc.vector(length=Any, dtype=Any)) -> int:  # noqa: F811
    return 10 * len(x)


@kc.func
def describe(x: kc.vec3) -> int:  # noqa: F811
    return 3


@kc.func
def describe(x: kc.array(dtype=Any)) -> int:  # noqa: F811
    return 4


@kc.func
def describe(x: Any, y: Any) -> int:  # noqa: F811
    return 5


def test_overloads_are_chosen_by_type() -> None:
    @kc.kernel
    def kernel(a: kc.array(dtype=float), out: kc.array(dtype=int)):
        out[0] = describe(1)
        out[1] = describe(a[0])
        out[2] = describe(kc.vec3())
        out[3] = describe(kc.vec4d())
        out[4] = describe(a)
        out[5] = describe(1, kc.vec3())
        out[6] = describe(2.0)

    _, out = run_both(kernel, 1, [np.zeros(1, np.float32), np.zeros(7, np.int32)])
    np.testing.assert_array_equal(out, [1, 2, 3, 40, 4, 5, 2])


Single = TypeVar("Single", bound=kc.float32)


@kc.func
def of_the_first(x: Any, y: float) -> int:
    return 1


@kc.func
def of_the_first(x: float, y: Any) -> int:  # noqa: F811
    return 2


@kc.func
def of_python(x: float) -> int:
    return 1


@kc.func
def of_python(x: int) -> int:  # noqa: F811
    return 2


@kc.func
def of_a_letter(x: Single, y: Single) -> int:
    return 1


@kc.func
def of_a_letter(x: float, y: float) -> int:  # noqa: F811
    return 2


def test_the_host_chooses_the_overload_that_a_kernel_chooses() -> None:
    @kc.kernel
    def kernel(v: float, out: kc.array(dtype=int)):
        out[0] = of_the_first(v, v)
        out[1] = of_python(1)
        out[2] = of_python(1.0)
        out[3] = of_a_letter(v, v)

    v = np.float32(1.0)
    _, out = run_both(kernel, 1, [v, np.zeros(4, np.int32)])
    found = [of_the_first(v, v), of_python(1), of_python(1.0), of_a_letter(v, v)]
    np.testing.assert_array_equal(out, found)
    np.testing.assert_array_equal(out, [1, 2, 1, 2])


Number = TypeVar("Number", bound=kc.types.AnyNumber)


def test_generic_kernels_take_the_types_of_their_arguments() -> None:
    @kc.func
    def twice(x: Number, y: Number) -> Any:
        return x + y

    @kc.kernel
    def kernel(x: kc.array(dtype=Any), s: Any, out: kc.array(dtype=Any)):
        i = kc.tid()
        out[i] = twice(x[i] * s, x[i])

    for dtype in (np.float32, np.float64, np.int16, np.uint64):
        x = np.arange(3).astype(dtype)
        *_, out = run_both(kernel, 3, [x, dtype(3), np.zeros(3, dtype)])
        np.testing.assert_array_equal(out, x * dtype(3) + x)
    chosen = kc.overload(kernel, {"x": kc.array(dtype=float), "s": float, "out": kc.array[float]})
    assert chosen is kc.overload(kernel, [kc.array(dtype=float), float, kc.array[float]])
    with pytest.raises(kc.KernelTypeError, match="generic"):
        _ = kernel.func


def test_functions_are_passed_and_nested() -> None:
    @kc.func
    def apply(f: Callable[..., Any], x: Any) -> Any:
        return f(x)

    @kc.func
    def square(x: kc.float64) -> kc.float64:
        return x * x

    @kc.kernel
    def kernel(x: kc.array(dtype=kc.float64), out: kc.array(dtype=kc.float64)):
        i = kc.tid()
        shift = x[i]

        def moved(y: kc.float64) -> kc.float64:
            def doubled(z: kc.float64) -> kc.float64:
                return 2.0 * z

            return doubled(y) + shift

        shift = 3.0
        out[i] = moved(x[i]) + apply(square, x[i]) + apply(kc.sqrt, x[i])

    x = np.array([1.0, 4.0])
    _, out = run_both(kernel, 2, [x, np.zeros(2)])
    np.testing.assert_array_equal(out, 2 * x + 3 + x * x + np.sqrt(x))


def test_functions_return_composites_on_every_path() -> None:
    @kc.func
    def pick(k: int, v: kc.vec3d) -> tuple[kc.vec3d, kc.float64]:
        for j in range(3):
            if j == k:
                return v * kc.float64(j), v[j]
        return -v, kc.float64(0.0)

    @kc.kernel
    def kernel(v: kc.vec3d, out: kc.array(dtype=kc.vec4d)):
        i = kc.tid()
        scaled, component = pick(i, v)
        out[i] = kc.vec4d(scaled, component)

    v = np.array([2.0, 3.0, 4.0])
    _, out = run_both(kernel, 4, [kc.vec3d(*v), np.zeros((4, 4))])
    np.testing.assert_array_equal(out[:3], [[0, 0, 0, 2], [2, 3, 4, 3], [4, 6, 8, 4]])
    np.testing.assert_array_equal(out[3], [-2, -3, -4, 0])


def test_static_code_runs_when_the_kernel_is_compiled() -> None:
    weights = {"a": 0.5, "b": 0.25}

    @kc.kernel
    def kernel(out: kc.array(dtype=kc.float64)):
        i = kc.tid()
        if kc.static(len(weights) == 2):
            out[i] = kc.static(sum(weights.values()))
        for name in kc.static(("x", "y") and (1.0, 2.0)):
            out[i] += name
        for k in range(kc.static(len(weights))):
            out[i] += kc.float64(k)

    (out,) = run_both(kernel, 2, [np.zeros(2)])
    np.testing.assert_array_equal(out, 0.75 + 3.0 + 1.0)


def test_tuples_are_values() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=kc.float64), out: kc.array(dtype=kc.float64)):
        i = kc.tid()
        pair = (x[i], 1.0)
        for _ in range(2):
            pair = (pair[0] + pair[1], pair[0])
        a, (b, c) = pair[0], (pair[1], len(pair))
        a, b = b, a
        out[i] = a - b * kc.float64(c)

    x = np.array([1.0, 2.0])
    _, out = run_both(kernel, 2, [x, np.zeros(2)])
    np.testing.assert_array_equal(out, (x + 1) - (2 * x + 1) * 2)


def test_map_broadcasts_as_numpy_does() -> None:
    def polar(x: Any, y: Any) -> Any:
        return kc.sqrt(x * x + y * y), kc.atan2(y, x)

    x, y = RNG.normal(size=(4, 1)), RNG.normal(size=3)
    radius, angle = kc.map(polar, x, y)
    np.testing.assert_array_equal(radius, np.sqrt(x * x + y * y))
    np.testing.assert_allclose(angle, np.arctan2(y, x), rtol=1e-14)
    out = np.zeros((4, 3))
    assert kc.map(kc.max, x, np.float64(0.0), out=np.zeros((4, 1))).shape == (4, 1)
    assert kc.map(lambda a, b: a - b, x, y, out=out) is out
    np.testing.assert_array_equal(out, x - y)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((kc.sqrt, 2.0), {}, "expected an array among the arguments"),
        ((3, np.zeros(2)), {}, "expected a function of the kernel language, found 3"),
        ((np.sin, np.zeros(2)), {}, "expected a function of the kernel language"),
        ((kc.atan2, np.zeros(2), np.zeros(3)), {}, "shape mismatch"),
        ((kc.sqrt, np.zeros(2)), {"out": np.zeros(3)}, r"expected shape \(2,\), found \(3,\)"),
        ((kc.sqrt, np.zeros(2)), {"out": 3}, "expected an array, found 3"),
        ((kc.sqrt, np.zeros(2)), {"out": [np.zeros(2)] * 2}, "expected 1 arrays in out, found 2"),
    ],
)
def test_map_refuses_other_functions_and_arguments(
    arguments: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(kc.KernelError, match=message) as caught:
        kc.map(*arguments, **options)
    assert caught.value.remedy


def test_map_over_vectors_and_values() -> None:
    @kc.func
    def rotate(q: kc.quatd, v: kc.vec3d) -> kc.vec3d:
        return kc.quat_rotate(q, v)

    points = RNG.normal(size=(5, 3))
    half = np.sqrt(0.5)
    found = kc.map(rotate, kc.quatd(0.0, 0.0, half, half), points)
    np.testing.assert_allclose(found, points[:, [1, 0, 2]] * [-1, 1, 1], atol=1e-15)


def test_printf_formats_as_c_does(capfd: pytest.CaptureFixture[str]) -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=float)):
        i = kc.tid()
        kc.printf("%03d|%-7.2f|%x|%+e 100%%\n", i, x[i], kc.int8(-1), x[i])

    kc.launch(kernel, 1, [np.array([1.5], np.float32)])
    assert capfd.readouterr().out == "000|1.50   |ff|+1.500000e+00 100%\n"


def test_operations_of_vectors_on_the_host_are_those_of_the_library() -> None:
    v = kc.vec3(3.0, 1.0, 2.0)
    assert kc.max(v) == 3.0
    assert kc.min(v) == 1.0
    assert kc.mul(kc.mat22(1.0, 2.0, 3.0, 4.0), kc.vec2(1.0, 1.0)) == kc.vec2(3.0, 7.0)
    assert kc.min(v, kc.vec3(2.0)) == kc.vec3(2.0, 1.0, 2.0)
    assert kc.clamp(v, 1.5, 2.5) == kc.vec3(2.5, 1.5, 2.0)
    assert kc.where(True, kc.mat22(1.0), kc.mat22(0.0)) == kc.mat22(1.0)
    refused = [
        (lambda: kc.min(v, kc.vec2(1.0, 1.0)), "same type"),
        (lambda: kc.floor(kc.quat(0.0, 0.0, 0.0, 1.0)), "apply it to the parts"),
        (lambda: kc.sin(kc.vec3i(1, 2, 3)), "have to be of Float"),
        (lambda: kc.max(v, "3"), "number"),
    ]
    for call, reason in refused:
        with pytest.raises(kc.KernelTypeError, match=reason):
            call()


@pytest.mark.parametrize(
    "name", [n for n, b in BUILTINS.items() if set(b.op.params.values()) != {"Bool"}]
)
def test_operations_of_scalars_take_vectors_and_arrays_element_by_element(name: str) -> None:
    function = BUILTINS[name]
    draw = np.random.default_rng(3)
    vectors: list[Any] = []
    for wanted in function.op.params.values():
        if wanted == "Bool":
            vectors.append(True)
        elif wanted == "Int":
            vectors.append(kc.vec3i(*draw.integers(*INTEGER_DOMAIN, 3).tolist()))
        else:
            vectors.append(kc.vec3(*draw.uniform(*float_domain(function.op.name), 3)))
    expected = [function(*(v if v is True else v[k] for v in vectors)) for k in range(3)]
    found = function(*vectors)
    assert str(np.asarray(found)) == str(np.array(expected))
    assert found.dtype is (kc.bool if function.op.result == "Bool" else vectors[-1].dtype)
    arrays = [v if v is True else np.array(v) for v in vectors]
    assert str(function(*arrays)) == str(np.array(expected))


class Flags(IntFlag):
    LEFT = 1
    RIGHT = 2


@kc.func
def chosen(left: bool, a: kc.float64, b: kc.float64) -> kc.float64:
    return kc.where(left, a, b)


@kc.func
def kind(x: bool) -> int:
    return 1


@kc.func
def kind(x: int) -> int:  # noqa: F811
    return 2


def test_integers_and_flags_are_bools_of_functions() -> None:
    @kc.kernel
    def kernel(
        n: kc.array(dtype=int), x: kc.array(dtype=kc.float64), out: kc.array(dtype=kc.float64)
    ):
        i = kc.tid()
        out[i] = chosen(n[i] & Flags.LEFT, x[i], 2.0) + chosen(n[i], 10.0, 20.0 * x[i])
        out[i] += chosen(Flags.RIGHT, 100.0, 0.0) + kc.float64(kind(n[i]))

    n, x = np.array([0, 1, 2, 3], np.int32), RNG.normal(size=4)
    found = run_both(kernel, 4, [n, x, np.zeros(4)])[2]
    want = np.where(n & 1, x, 2.0) + np.where(n, 10.0, 20.0 * x) + 102.0
    np.testing.assert_allclose(found, want, 1e-14)
    kc.gradcheck(kernel, 4, [n, x], [np.zeros(4)])

    @kc.kernel
    def refused(x: kc.array(dtype=kc.float64)):
        x[0] = chosen(x[0], 1.0, 2.0)

    with pytest.raises(kc.KernelTypeError, match="'left': expected bool, found float64"):
        _ = refused.func
