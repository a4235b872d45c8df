"""One operator gives the same on the arrays of every framework."""

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
from tests.operators.contract.cases import Case, polar, ramp
from tests.operators.contract.libraries import LAYOUTS, LIBRARIES, converted, laid_out
from tests.operators.contract.runs import (
    CASES,
    IN_PYTHON,
    RUNS,
    as_tuple,
    expected,
    given,
    wide,  # noqa: F401
    wide_args,
)


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


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("case", "library"), RUNS)
def test_strides_change_no_bit(case: Case, library: str, layout: str) -> None:
    args = [laid_out(library, a, case.dtypes.get(k), layout) for k, a in enumerate(case.args)]
    found = as_tuple(case.op(*args, **case.options))
    wanted = as_tuple(case.op(*given(case, library), **case.options))
    for one, want in zip(found, wanted, strict=True):
        numbers = LIBRARIES[library].numbers
        assert numbers(one).tobytes() == numbers(want).tobytes()


@pytest.mark.parametrize(("case", "library"), IN_PYTHON)
def test_python_mode_gives_the_same_bits(case: Case, library: str) -> None:
    wanted = as_tuple(case.op(*given(case, library), **case.options))
    with kc.python_mode():
        found = as_tuple(case.op(*given(case, library), **case.options))
    for one, want in zip(found, wanted, strict=True):
        numbers = LIBRARIES[library].numbers
        assert numbers(one).tobytes() == numbers(want).tobytes()


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
