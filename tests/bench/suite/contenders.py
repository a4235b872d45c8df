"""The kernels of the suite by the programs that are compared: kernelcore, Warp and numba."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numba  # pyright: ignore[reportMissingImports]
import numpy as np
import warp  # pyright: ignore[reportMissingImports]

import kernelcore
from tests.bench.suite import numba_peers
from tests.bench.suite.case import Case, Data
from tests.bench.suite.prepared import Prepared


def in_numba(case: Case, data: Data) -> Prepared:
    """``case`` as numba's users write it."""
    function = getattr(numba_peers, case.make.__name__)
    args = [_for_numba(a) for a in data.args]
    return Prepared(lambda: function(*args), data, lambda: args[data.num_inputs :])


def _for_numba(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    # A Python float would make the arithmetic double.
    return np.float32(value) if isinstance(value, float) else value


def quiet_warp() -> ModuleType:
    """Warp, which says nothing."""
    warp.config.quiet = True  # pyright: ignore[reportAttributeAccessIssue]
    warp.init()
    return warp


def use_threads(count: int) -> None:
    """Let kernelcore and numba use ``count`` threads; Warp has one on CPUs."""
    kernelcore.set_num_threads(count)
    numba.set_num_threads(count)
