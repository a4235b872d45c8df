"""Elementwise operators as functions of whole arrays: NumPy's give the bits of machine code."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportGeneralTypeIssues=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalCall=false

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.builtins.table import OPS
from kernelcore.language.types import SCALARS, Scalar, float32
from kernelcore.operators import (
    Arithmetic,
    Operation,
    computed,
    derive,
    evaluate,
    fits,
    is_fused,
)
from kernelcore.operators.bound_kernel import bound_kernel
from kernelcore.operators.spec import with_results

Floats = kc.array(dtype=float)
Doubles = kc.array(dtype=kc.float64)
Ints = kc.array(dtype=int)
Table = kc.array2d(dtype=float)
AnyRank = kc.arraynd[float]


class NumPy:
    """Functions of the array API on NumPy arrays."""

    def __getattr__(self, name: str) -> Any:
        def quiet(*args: Any) -> Any:
            with np.errstate(all="ignore"):
                return getattr(np, name)(*args)

        return quiet

    def scalar(self, t: Scalar, value: float) -> Any:
        return np.full((), value, t.numpy)

    def value(self, t: Scalar, given: Any) -> Any:
        return np.asarray(given, t.numpy)

    def astype(self, x: Any, t: Scalar) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(x).astype(t.numpy)

    def indices(self, count: int) -> Any:
        return np.arange(count, dtype=np.int32)

    def result(self, x: Any, shape: Sequence[int], is_new: bool) -> Any:
        whole = np.broadcast_to(x, shape)
        return whole if is_new else whole.copy()


def operation_of(op: Any) -> Operation:
    return bound_kernel(op.kernel, with_results(op.kernel, op.spec)).operation


def same(operation: Operation, args: Sequence[Any]) -> None:
    """Assert that functions of arrays give what machine code gives."""
    assert fits(operation, args)
    found = computed(operation, NumPy(), args)
    shapes = operation.shapes(args)
    results = operation.results[: operation.visible]
    wanted = [np.full(evaluate(r.shape, shapes), 7, r.type.dtype.numpy) for r in results]
    operation.native.run(args, wanted)
    for one, want in zip(found, wanted, strict=False):
        assert one.dtype == want.dtype
        np.testing.assert_array_equal(bits(one), bits(want))


def bits(x: Any) -> Any:
    """``x`` as integers; all NaN are one."""
    if x.dtype.kind != "f":
        return x
    return np.where(np.isnan(x), -1, x.view(f"i{x.dtype.itemsize}"))


def samples(dtype: Scalar, count: int, seed: int = 3) -> Any:
    """Numbers of a type, among them those at its limits."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return rng.random(count) < 0.5
    if dtype.is_float:
        odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e9, -3e9, 2.5, -0.5, 127.5, 1e20]
        found = rng.normal(0, 100, count).astype(dtype.numpy)
        found[: count // 2] = rng.choice(np.array(odd), count // 2)
        return found
    low, high = dtype.limits
    found = rng.integers(low, high, count, dtype.numpy, endpoint=True)
    small = [n for n in (0, 1, 2, 3, 7, -1, -2, -7, low, high) if low <= n <= high]
    found[: count // 2] = rng.choice(np.array(small, dtype.numpy), count // 2)
    return found


@kc.op
@kc.kernel
def arithmetic(x: Floats, y: Floats, a: float, z: Floats):
    i = kc.tid()
    v = kc.clamp(x[i] * y[i] + a, -50.0, 70.0) / (y[i] - 1.0)
    z[i] = kc.min(v, kc.max(x[i], kc.abs(y[i]))) + kc.sqrt(x[i]) * kc.sign(y[i]) + kc.frac(x[i])


@kc.op
@kc.kernel
def branches(x: Floats, y: Floats, z: Floats, w: Ints):
    i = kc.tid()
    if x[i] > y[i]:
        z[i] = -x[i]
        if kc.isnan(y[i]) or not (y[i] < 0.0):
            w[i] = int(kc.round(y[i]))
    else:
        w[i] = i
        v = kc.floor(x[i]) if y[i] == 0.0 else kc.trunc(y[i])
        z[i] = kc.where(v != x[i], kc.ceil(v), kc.copysign(1.0, y[i]))


@kc.op
@kc.kernel
def integers(x: Ints, y: Ints, quotient: Ints, rest: Ints, others: Ints):
    i = kc.tid()
    quotient[i] = x[i] // y[i]
    rest[i] = x[i] % y[i]
    others[i] = (
        ((x[i] << y[i]) ^ (x[i] >> y[i])) + (~x[i] & y[i] | kc.abs(x[i])) - kc.min(x[i], y[i])
    )


@kc.op(in_out="y")
@kc.kernel
def updated(x: Doubles, y: Doubles):
    i = kc.tid()
    if x[i] > 0.0:
        y[i] = y[i] * x[i]
    y[i] += 1.0


@kc.op(launch_dims="x")
@kc.kernel
def grid(x: kc.array2d(dtype=float), row: Floats, z: kc.array2d(dtype=float)):
    i, j = kc.tid()
    z[i, j] = x[i, j] - row[i] * float(j)


@kc.op(outputs=("y", "t"), launch_dims=1, output_dims={"y": "s", "t": (2, 2)})
@kc.kernel
def right_side(s: Floats, rate: float, y: Floats, t: Table):
    y[0] = rate * (s[1] - s[0])
    if s[0] > rate:
        y[2] = s[0] * s[1] - y[0]
        t[1, 0] += s[3] + y[2]
    y[1] = y[2] * s[2]


@kc.op(outputs="y", launch_dims="x.shape[0]", output_dims="x")
@kc.kernel
def components(x: Table, w: Table, y: Table):
    i = kc.tid()
    y[i, 1] = x[i, 0] * w[1, 0] + w[0, i]
    y[i, 0] = x[i, 2] - y[i, 1]


FLOATS = samples(float32, 500), samples(float32, 500, 4)
INTS = samples(kc.int32, 500), samples(kc.int32, 500, 4)


def elementary() -> Iterator[tuple[str, Any, list[Any], Any]]:
    """Functions of the frameworks' own: name, spelling, float32 arguments, results in float64."""
    rng = np.random.default_rng(8)
    ranges = ((-1, 1), (-80, 80), (-1e3, 1e3), (-1e8, 1e8), (1e-30, 1e-3))
    for name, op in OPS.items():
        if op.array is None or not op.array.ulp:
            continue
        args = [
            np.concatenate([rng.uniform(*r, 20000) for r in ranges]).astype(np.float32)
            for _ in op.params
        ]
        for arg in args:
            rng.shuffle(arg)
        with np.errstate(all="ignore"):
            yield name, op.array, args, op.ref(*(a.astype(np.float64) for a in args))


def ulps(found: Any, want: Any) -> float:
    """By how many units in the last place float32 results err at most; NaN must be NaN."""
    assert np.array_equal(np.isnan(found), np.isnan(want))
    is_normal = np.isfinite(want) & (np.abs(want) > 2e-38) & (np.abs(want) < 3e38)
    with np.errstate(all="ignore"):
        errors = np.abs(found.astype(np.float64) - want) / np.spacing(
            np.abs(want).astype(np.float32)
        )
    return float(errors[is_normal].max())


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "arithmetic": (arithmetic, (*FLOATS, 0.25)),
    "branches": (branches, FLOATS),
    "integers": (integers, INTS),
    "updated": (updated, (samples(kc.float64, 300), samples(kc.float64, 300, 4))),
    "grid": (grid, (samples(float32, 60).reshape(6, 10), samples(float32, 6))),
    "right side": (right_side, (samples(float32, 4), 0.25)),
    "components": (
        components,
        (samples(float32, 60).reshape(20, 3), FLOATS[1][:40].reshape(2, 20)),
    ),
    "empty": (grid, (np.zeros((0, 10), np.float32), np.zeros(0, np.float32))),
}


@pytest.mark.parametrize("name", CASES)
def test_results_have_the_bits_of_machine_code(name: str) -> None:
    op, args = CASES[name]
    operation = operation_of(op)
    assert is_fused(operation, "auto", Arithmetic())
    same(operation, args)


CASTS = [
    (source, target)
    for source in SCALARS
    for target in SCALARS
    if not any(t.is_float and t.bits == 16 for t in (source, target))
]


@pytest.mark.parametrize(("source", "target"), CASTS, ids=str)
def test_conversions_are_those_of_the_language(source: Scalar, target: Scalar) -> None:
    @kc.kernel
    def convert(x: kc.array1d[Any], y: kc.array1d[Any]):
        i = kc.tid()
        y[i] = target(x[i])

    typed = convert.overload([kc.array(dtype=source), kc.array(dtype=target)])
    same(operation_of(kc.op(typed)), [samples(source, 200)])


def test_derivatives_are_fused_too() -> None:
    operation = operation_of(arithmetic)
    x, y = FLOATS
    adjoint = derive.vjp(operation, (0, 1), (0,)).operation
    tangent = derive.jvp(operation, (0, 1)).operation
    second = derive.vjp(adjoint, (0, 1), (0,)).operation
    batch = derive.batch(operation, (True, False, True))
    for derived in (adjoint, tangent, second, batch):
        assert is_fused(derived, "auto", Arithmetic())
    ct = samples(float32, 500, 6)
    np.testing.assert_array_equal(
        *[np.asarray(run(adjoint, (x, y, 0.25, ct)))[:, 100:] for run in (by_arrays, by_code)]
    )
    same(tangent, (x, y, 0.25, ct, ct))
    rows = np.stack([x, y, x])
    same(batch, (rows, y, np.arange(3, dtype=np.float32)))


def test_components_of_batches_and_derivatives_are_fused_too() -> None:
    operation = operation_of(right_side)
    batch = derive.batch(operation, (True, False))
    s, t, rate = (samples(float32, 4 * 50, k).reshape(50, 4) for k in (1, 2, 3))
    same(batch, (s, 0.25))
    same(derive.batch(operation, (True, True)), (s, rate[:, 0]))
    same(derive.jvp(batch, (0,)).operation, (s, 0.25, t))
    adjoint = derive.vjp(batch, (0,), (0,)).operation
    assert is_fused(adjoint, "auto", Arithmetic())
    assert not is_fused(batch, "auto", Arithmetic(components=False))
    assert is_fused(batch, True, Arithmetic(components=False))
    # The launch has more points than the kernel asks for, or elements than it writes.
    assert not fits(operation, [s[0, :3], 0.25])
    assert not fits(batch, [s[:, :3], 0.25])


def by_arrays(operation: Operation, args: Sequence[Any]) -> list[Any]:
    return computed(operation, NumPy(), args)


def by_code(operation: Operation, args: Sequence[Any]) -> list[Any]:
    wanted = [np.zeros(args[0].shape, r.type.dtype.numpy) for r in operation.results]
    operation.native.run(args, wanted)
    return wanted


@kc.kernel
def summed(x: Floats, y: Floats):
    i = kc.tid()
    kc.atomic_add(y, 0, x[i])


@kc.kernel
def shifted(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = x[kc.max(i - 1, 0)]


@kc.kernel
def spread(x: Floats, y: Floats):
    i = kc.tid()
    y[i // 2] = x[i]


@kc.kernel
def looped(x: Floats, y: Floats):
    i = kc.tid()
    v = x[i]
    while v > 1.0:
        v = 0.5 * v
    y[i] = v


@kc.kernel
def vectors(x: kc.array(dtype=kc.vec3), y: Floats):
    i = kc.tid()
    y[i] = kc.dot(x[i], x[i])


@kc.kernel
def halves(x: kc.array(dtype=kc.float16), y: kc.array(dtype=kc.float16)):
    i = kc.tid()
    y[i] = x[i] + x[i]


@kc.kernel
def errors(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = kc.erf(x[i])


@kc.kernel
def printed(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = x[i]
    print(x[i])


REFUSED = (summed, shifted, spread, looped, vectors, halves, errors, printed)


@pytest.mark.parametrize("kernel", REFUSED, ids=lambda k: k.name)
def test_kernels_that_cannot_be_fused_are_refused_where_they_have_to_be(
    kernel: Any, golden_error: Callable[[str, str], None]
) -> None:
    x = np.ones(4, np.float16 if kernel is halves else np.float32)
    args = np.ones((4, 3), np.float32) if kernel is vectors else x
    with pytest.raises(kc.KernelArgumentError) as caught:
        kc.op(kernel, fuse=True, output_dims=4)(args)
    first = kernel.pyfunc.__code__.co_firstlineno - 1
    text = str(caught.value).replace(__file__, "kernels.py")
    golden_error(kernel.name, re.sub(r"line (\d+)", lambda m: f"line {int(m[1]) - first}", text))
    assert "fusable with other code of a compiled program: no" in str(kc.explain(kernel))


def test_options_that_say_nothing_of_fusion() -> None:
    with pytest.raises(kc.KernelArgumentError, match="fuse: expected True, False or 'auto'"):
        kc.op(summed, fuse="always")

    def twice(x: Floats, y: Floats):
        kc.launch(shifted, x.shape, [x], [y])

    with pytest.raises(kc.KernelArgumentError, match="a function that launches kernels"):
        kc.op(twice, fuse=True)(np.ones(3, np.float32))


def test_explanations_say_what_is_fused() -> None:
    told = [str(kc.explain(k)) for k in (arithmetic.kernel, waves, right_side.kernel)]
    assert "fusable with other code of a compiled program: yes\n" in told[0]
    assert "yes in torch; in JAX with fuse=True: line" in told[1]
    assert "yes in JAX; in torch with fuse=True: line" in told[2]
    assert "'sin', of which frameworks give other bits, within 5 ulp" in told[1]


@kc.kernel
def waves(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = kc.sin(x[i])


def test_checks_of_debug_mode_are_no_reason_to_refuse() -> None:
    with kc.check_finite():
        op = kc.op(branches.kernel, fuse=True)
        assert op(np.ones(2, np.float32), np.ones(2, np.float32)).z.tolist() == [1.0, 1.0]
