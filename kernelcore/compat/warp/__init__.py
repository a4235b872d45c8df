"""Names and results of NVIDIA Warp: ``import kernelcore.compat.warp as wp``.

Kernels decorated with ``wp.kernel`` and ``wp.func`` compute what Warp computes where kernelcore
follows NumPy and Python instead; ``semantics`` lists the differences. All other names are those of
kernelcore. What Warp has and kernelcore does not is refused with the way around it.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any

import kernelcore as _kernelcore
from kernelcore.base.errors import KernelAttributeError as _KernelAttributeError
from kernelcore.compat.warp import missing as _missing
from kernelcore.compat.warp import runtime as _runtime
from kernelcore.compat.warp import types as types
from kernelcore.compat.warp import utils as utils
from kernelcore.compat.warp.arrays import array as array
from kernelcore.compat.warp.arrays import from_numpy as from_numpy
from kernelcore.compat.warp.arrays import from_torch as from_torch
from kernelcore.compat.warp.config import config as config
from kernelcore.compat.warp.declare import Kernel as Kernel
from kernelcore.compat.warp.declare import func as func
from kernelcore.compat.warp.declare import func_grad as func_grad
from kernelcore.compat.warp.declare import func_replay as func_replay
from kernelcore.compat.warp.declare import kernel as kernel
from kernelcore.compat.warp.functions import quat_between_vectors as quat_between_vectors
from kernelcore.compat.warp.functions import transform_expand as transform_expand
from kernelcore.compat.warp.semantics import acos as acos
from kernelcore.compat.warp.semantics import asin as asin
from kernelcore.compat.warp.semantics import clamp as clamp
from kernelcore.compat.warp.semantics import cw_div as cw_div
from kernelcore.compat.warp.semantics import div_approx as div_approx
from kernelcore.compat.warp.semantics import expect_eq as expect_eq
from kernelcore.compat.warp.semantics import (
    expect_near as expect_near,  # pyright: ignore[reportUnknownVariableType]
)
from kernelcore.compat.warp.semantics import expect_neq as expect_neq
from kernelcore.compat.warp.semantics import inverse_approx as inverse_approx
from kernelcore.compat.warp.semantics import isfinite as isfinite
from kernelcore.compat.warp.semantics import isinf as isinf
from kernelcore.compat.warp.semantics import isnan as isnan
from kernelcore.compat.warp.semantics import (
    lower_bound as lower_bound,  # pyright: ignore[reportUnknownVariableType]
)
from kernelcore.compat.warp.semantics import max as max
from kernelcore.compat.warp.semantics import min as min
from kernelcore.compat.warp.semantics import mod as mod
from kernelcore.compat.warp.semantics import round as round
from kernelcore.compat.warp.semantics import sign as sign
from kernelcore.compat.warp.utils import map as map

# Modules of Warp that programs reach without an import of their own.
_MODULES = {"autograd", "context", "jax_experimental", "optim", "torch"}
# Names whose modules import more of kernelcore than most programs need at once.
_LATE = {
    "Tape": "tape",
    "closest_point_edge_edge": "geometry",
    "intersect_tri_tri": "geometry",
}
# What kernelcore has under another name.
_OTHER_NAMES = {"cast": "bitcast"}


def __getattr__(name: str) -> Any:
    """What kernelcore has under ``name``.

    Raises:
        KernelAttributeError: Neither has it, or kernelcore lacks what Warp has.
    """
    if not name.startswith("_"):
        if name in _MODULES:
            return _import_module(f"{__name__}.{name}")
        if name in _LATE:
            globals()[name] = found = getattr(_import_module(f"{__name__}.{_LATE[name]}"), name)
            return found
        home = _runtime if name in _runtime.__all__ else _kernelcore
        found = getattr(home, _OTHER_NAMES.get(name, name), _missing)
        if found is not _missing:
            globals()[name] = found
            return found
        reason = _missing.reason_of(name)
        if reason is not None:
            raise _KernelAttributeError(
                f"kernelcore has no {name}: {reason.what}", remedy=reason.remedy
            )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    own = {name for name in globals() if not name.startswith("_")}
    names = own | {*dir(_kernelcore), *_runtime.__all__, *_MODULES, *_LATE, *_OTHER_NAMES}
    # What kernelcore keeps to itself, and the command that reads programs, are not of Warp.
    return sorted(names - {"annotations", "port"})
