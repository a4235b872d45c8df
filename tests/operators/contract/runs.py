"""Cases with the frameworks they run in, and their arguments and results."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportGeneralTypeIssues=false, reportOptionalMemberAccess=false

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import kernelcore as kc
from tests.operators.contract.cases import (
    BODIES,
    Case,
    Floats,
    Floats2,
    axpy,
    doubled,
    floats,
    momentum,
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
        "value of an array",
        wave,
        (floats(5), np.array(1.25, np.float32)),
        lambda x, a: (np.sin(a * x),),
        (0, 1),
        (1,),
        frameworks=("torch", "jax"),
    ),
    Case("generic float16", doubled, (floats(4).astype(np.float16),), lambda x: (x + x,)),
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
# Python mode runs kernels one by one; functions of several run compiled in graphs.
IN_PYTHON = [
    pytest.param(case, library, id=f"{case.name}-{library}")
    for case in CASES
    for library in case.frameworks
    if library in ("numpy", "kernelcore") or "function" not in case.name.split()
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
