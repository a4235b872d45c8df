"""One operator gives the same on the arrays of every framework: values, gradients, batches."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportGeneralTypeIssues=false, reportOptionalMemberAccess=false

from __future__ import annotations

import pickle
from typing import Any

import jax
import numpy as np
import paddle
import pytest
import torch

import kernelcore as kc
from tests.operators.contract.cases import (
    BODIES,
    Body,
    Case,
    Floats,
    Floats2,
    axpy,
    floats,
    momentum,
    polar,
    ramp,
    wave,
    weighted,
)
from tests.operators.contract.cases import CASES as OWN_CASES
from tests.operators.contract.libraries import LIBRARIES, converted


@kc.op(launch_dims=("h", "w"))
@kc.kernel
def tiled(x: Floats, h: int, w: int, image: Floats2):
    i, j = kc.tid()
    image[i, j] = x[(i + j) % x.shape[0]] * x[0]


CASES = [
    *OWN_CASES,
    Case(
        "integer extents and an array",
        tiled,
        (floats(3), 2, 4),
        lambda x, h, w: (x[(np.arange(h)[:, None] + np.arange(w)) % len(x)] * x[0],),
        (0,),
        (0,),
    ),
    Case(
        "fields of an array of structs",
        lambda position, mass, v: momentum({"position": position, "mass": mass}, v),
        (BODIES["position"], BODIES["mass"], floats(4, 3)),
        lambda position, mass, v: (mass[:, None] * (v + position),),
        (0, 1, 2),
        (0, 2),
        frameworks=("torch", "jax", "paddle"),
    ),
    Case("every second", wave, (floats(9)[::2], 1.3), lambda x, a: (np.sin(a * x),), (0,), (0,)),
    Case(
        "reversed",
        wave,
        (floats(5)[::-1], 1.3),
        lambda x, a: (np.sin(a * x),),
        (0,),
        frameworks=("jax", "paddle", "numpy", "kernelcore"),
    ),
    Case(
        "strided in-out",
        axpy,
        (0.5, floats(5, 2)[:, 0], floats(10, seed=2)[::2]),
        lambda a, x, y: (y + a * x,),
        (1, 2),
        (1,),
    ),
    Case(
        "fields of a struct of arrays",
        lambda left, right: weighted({"left": left, "right": right, "factor": 1.5}),
        (floats(5), floats(5, seed=1)),
        lambda left, right: (1.5 * left * right,),
        (0, 1),
        (1,),
    ),
]
RUNS = [
    pytest.param(case, library, id=f"{case.name}-{library}")
    for case in CASES
    for library in case.frameworks
]
DIFFERENTIATED = [
    pytest.param(case, library, id=f"{case.name}-{library}")
    for case in CASES
    for library in case.frameworks
    if case.wrt and LIBRARIES[library].gradients is not None
]
BATCHED = [
    pytest.param(case, library, id=f"{case.name}-{library}")
    for case in CASES
    for library in case.frameworks
    if case.batched and LIBRARIES[library].batch is not None
]


@pytest.fixture(autouse=True)
def wide() -> Any:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def given(case: Case, library: str) -> list[Any]:
    return [converted(library, a, case.dtypes.get(k)) for k, a in enumerate(case.args)]


def wide_args(case: Case) -> list[Any]:
    """The arguments in float64."""

    def widened(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: widened(field) for name, field in value.items()}
        is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        return value.astype(np.float64) if is_float else value

    return [widened(a) for a in case.args]


def expected(case: Case, args: list[Any]) -> tuple[Any, ...]:
    named = {k: v for k, v in case.options.items() if not k.endswith("_dims")}
    return case.oracle(*args, **named)


def as_tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize(("case", "library"), RUNS)
def test_values_are_those_of_numpy(case: Case, library: str) -> None:
    found = case.op(*given(case, library), **case.options)
    wanted = expected(case, wide_args(case))
    assert isinstance(found, tuple) == (len(wanted) > 1)
    if case.names:
        assert found._fields == case.names
    for one, want in zip(as_tuple(found), wanted, strict=True):
        assert isinstance(one, LIBRARIES[library].kind)
        numbers = LIBRARIES[library].numbers(one)
        assert numbers.shape == want.shape
        np.testing.assert_allclose(numbers, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("case", "library"), RUNS)
def test_arguments_stay_as_they_are(case: Case, library: str) -> None:
    args = given(case, library)
    before = [converted(library, a) for a in wide_args(case)]
    case.op(*args, **case.options)
    for one, was in zip(args, before, strict=True):
        if isinstance(one, LIBRARIES[library].kind) and isinstance(was, LIBRARIES[library].kind):
            to_numpy = LIBRARIES[library].numbers
            assert np.array_equal(to_numpy(one), to_numpy(was))


@pytest.mark.parametrize(
    "case", [c for c in CASES if "numpy" in c.frameworks], ids=lambda c: c.name
)
def test_read_only_arrays_are_arguments(case: Case) -> None:
    def locked(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: locked(field) for name, field in value.items()}
        if isinstance(value, np.ndarray):
            value = value.copy(order="K")
            value.flags.writeable = False
        return value

    found = case.op(*map(locked, case.args), **case.options)
    for one, want in zip(
        as_tuple(found), as_tuple(case.op(*case.args, **case.options)), strict=True
    ):
        assert np.array_equal(one, want)
        assert one.flags.writeable


def test_a_tape_gives_gradients_of_arrays_of_structs() -> None:
    bodies = converted("kernelcore", BODIES, Body)
    bodies.requires_grad = True
    v = kc.array(floats(4, 3), dtype=kc.vec3)
    with kc.Tape() as tape:
        found = momentum(bodies, v)
    weights = floats(4, 3, seed=6)
    tape.backward(grads={found: kc.array(weights, dtype=kc.vec3)})
    slopes = bodies.grad.numpy()
    np.testing.assert_allclose(slopes["position"], BODIES["mass"][:, None] * weights, rtol=1e-6)
    moved = floats(4, 3) + BODIES["position"]
    np.testing.assert_allclose(slopes["mass"], (weights * moved).sum(1), rtol=1e-6)


@pytest.mark.parametrize(("case", "library"), DIFFERENTIATED)
def test_gradients_are_central_differences(case: Case, library: str) -> None:
    args = wide_args(case)
    results = expected(case, args)
    rng = np.random.default_rng(5)
    weights = [rng.uniform(-1, 1, r.shape).astype(np.float32) for r in results]
    gradients = LIBRARIES[library].gradients
    assert gradients is not None
    found = gradients(
        lambda *a: case.op(*a, **case.options), given(case, library), case.wrt, weights
    )
    for k, one in zip(case.wrt, found, strict=True):
        want = np.zeros(args[k].shape)
        for index in np.ndindex(*want.shape):
            moved = []
            for step in (1e-6, -1e-6):
                other = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
                other[k][index] += step
                values = expected(case, other)
                moved.append(sum((w * v).sum() for w, v in zip(weights, values, strict=True)))
            want[index] = (moved[0] - moved[1]) / 2e-6
        np.testing.assert_allclose(LIBRARIES[library].numbers(one), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("case", "library"), BATCHED)
def test_batches_are_calls_in_turn(case: Case, library: str) -> None:
    args = list(case.args)
    for k in case.batched:
        args[k] = np.stack([args[k], args[k] * 0.5, args[k] + 0.25])
    batch = LIBRARIES[library].batch
    assert batch is not None
    whole = [converted(library, a) for a in args]
    found = as_tuple(batch(lambda *a: case.op(*a, **case.options), whole, case.batched))
    for row in range(3):
        one = [
            converted(library, a[row] if k in case.batched else a, case.dtypes.get(k))
            for k, a in enumerate(args)
        ]
        alone = as_tuple(case.op(*one, **case.options))
        for batched, single in zip(found, alone, strict=True):
            numbers = LIBRARIES[library].numbers
            np.testing.assert_allclose(numbers(batched)[row], numbers(single), rtol=1e-6)


@pytest.mark.parametrize(("case", "library"), RUNS)
def test_compiled_calls_give_the_same(case: Case, library: str) -> None:
    args = given(case, library)
    eager = as_tuple(case.op(*args, **case.options))
    if library == "jax":
        static = [k for k, a in enumerate(args) if isinstance(a, int | tuple)]
        compiled = as_tuple(
            jax.jit(lambda *a: case.op(*a, **case.options), static_argnums=static)(*args)
        )
    elif library == "torch":
        torch.compiler.reset()
        compiled = as_tuple(
            torch.compile(lambda *a: case.op(*a, **case.options), fullgraph=True, backend="eager")(
                *args
            )
        )
    else:
        compiled = as_tuple(case.op(*args, **case.options))
    for one, want in zip(compiled, eager, strict=True):
        numbers = LIBRARIES[library].numbers
        np.testing.assert_array_equal(numbers(one), numbers(want))


@pytest.mark.parametrize("library", ["torch", "jax", "paddle"])
def test_a_call_without_arrays_has_bound_forms(library: str) -> None:
    found = getattr(ramp, library)(3, 4, 0.5)
    found = found[0] if library == "jax" else found
    assert isinstance(found, LIBRARIES[library].kind)
    assert np.array_equal(LIBRARIES[library].numbers(found), ramp(3, 4, 0.5))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda x: (x.astype(np.float64), 1.0), "argument 'x': expected array of float32"),
        (lambda x: (x[None], 1.0), "argument 'x': expected array of float32 with 1 dimension"),
        (lambda x: (x,), "argument 'a' is missing"),
        (lambda x: (x, 1.0, 2.0), "expected 2 arguments, found 3"),
        (lambda x: (x, "one"), "argument 'a': expected"),
    ],
)
def test_mistakes_are_named(library: str, change: Any, text: str) -> None:
    args = [converted(library, a) for a in change(np.ones(3, np.float32))]
    with pytest.raises(kc.KernelError, match=r"wave\(\): ") as raised:
        wave(*args)
    assert text in str(raised.value)


@pytest.mark.parametrize("library", LIBRARIES)
def test_unknown_names_are_refused(library: str) -> None:
    with pytest.raises(kc.KernelError, match="unknown argument 'b'"):
        wave(converted(library, np.ones(3, np.float32)), b=1.0)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("torch", "jax"),
        ("jax", "torch"),
        ("numpy", "torch"),
        ("torch", "numpy"),
        ("paddle", "torch"),
        ("kernelcore", "numpy"),
        ("numpy", "kernelcore"),
    ],
)
def test_frameworks_do_not_mix(first: str, second: str) -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(kc.KernelError, match="one framework") as raised:
        polar(converted(first, x), converted(second, x))
    assert "'x'" in str(raised.value)
    assert "'y'" in str(raised.value)


def test_numpy_arrays_may_go_with_those_of_jax() -> None:
    x = np.ones(3, np.float32)
    for args in ((x, converted("jax", x)), (converted("jax", x), x)):
        assert isinstance(polar(*args).radius, jax.Array)


def tripled(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = 3.0 * x[i]


def tripled_of_any_rank(x: kc.array(dtype=Any, ndim=...), y: kc.array(dtype=Any, ndim=...)):
    i = kc.tid()
    y[i] = x.dtype(3) * x[i]


def tripling(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    kc.launch(kc.kernel(tripled), x.shape, [x], [y])


def launch_shape(x: tuple[int, ...]) -> tuple[int, ...]:
    return x


FORMS = {
    "fixed": kc.op(kc.kernel(tripled)),
    "any rank": kc.op(kc.kernel(tripled_of_any_rank), outputs="y"),
    "function": kc.op(tripling),
    "dims": kc.op(kc.kernel(tripled), launch_dims=launch_shape),
}


@pytest.mark.parametrize("framework", ["torch", "jax", "paddle", "numpy"])
@pytest.mark.parametrize("name", FORMS)
def test_forms_are_pickled_with_their_operator(name: str, framework: str) -> None:
    if (name, framework) == ("function", "paddle"):
        with pytest.raises(kc.KernelArgumentError, match="is no operator of Paddle"):
            _ = FORMS[name].paddle
        return
    form = getattr(FORMS[name], framework)
    again = pickle.loads(pickle.dumps(form))
    made = {"torch": torch.asarray, "paddle": paddle.to_tensor}.get(framework, np.asarray)
    for shape in [(2,), (2, 3)] if name == "any rank" else [(2,)]:
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        for found in (form(made(x)), again(made(x))):
            y = found[0] if isinstance(found, tuple) else found
            np.testing.assert_array_equal(np.asarray(y), 3.0 * x)


@pytest.mark.parametrize("library", ["torch", "jax", "paddle", "numpy"])
def test_an_array_without_dimensions_tells_the_type_of_a_number(library: str) -> None:
    def scaled(x: kc.array(dtype=Any), a: Any, y: kc.array(dtype=Any)):
        i = kc.tid()
        y[i] = x[i] * x.dtype(a)

    f = kc.op(kc.kernel(scaled), outputs="y")
    to, x = LIBRARIES[library].array, np.ones(3, np.float32)
    for a in (np.asarray(3, np.int32), np.asarray(2.5, np.float32)):
        np.testing.assert_array_equal(np.asarray(f(to(x, None), to(a, None))), a * x)


@pytest.mark.parametrize("library", LIBRARIES)
def test_shapes_of_what_is_no_output_are_refused(library: str) -> None:
    x = converted(library, np.ones(3, np.float32))
    text = "tripled: output_dims: 'z' is no output"
    with pytest.raises(kc.KernelArgumentError, match=text):
        FORMS["fixed"](x, output_dims={"z": 3})
    with pytest.raises(kc.KernelArgumentError, match=text):
        kc.op(kc.kernel(tripled), output_dims={"z": 3})(x)
