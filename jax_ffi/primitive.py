"""The primitive that every kernel call is: what it takes, what it yields, how it runs eagerly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import xla
from jax.sharding import NamedSharding, PartitionSpec

from jax_ffi import compat
from jax_ffi.adjoints import Primal
from kernelcore.operators import (
    Fuse,
    Operation,
    evaluate,
    run_in_python,
    runs_in_python,
    shaped_splits,
)

launch_p = compat.Primitive("kernelcore_launch")
launch_p.multiple_results = True


@dataclass(frozen=True, slots=True)
class Launch:
    """The parameters of one application of the primitive.

    Attributes:
        operation: What is computed; one JAX value per operand and per visible result.
        linear: Operands in which ``operation`` is jointly linear.
        differentiable: Whether derivatives were asked for by the user.
        has_side_effect: Whether the call stays although its results are not used.
        block_dim: Threads per block on GPUs; 0 leaves the choice to the launcher.
        fuse: Whether XLA computes it in its own code.
        is_transpose: Whether the ``linear`` operands are cotangents of one launch, which a program
            seldom needs afterwards.
        is_saving: Whether its last results are what an adjoint takes, beside those of the kernel.
        primal: The kernel whose tangents ``operation`` computes, if its adjoint is the transpose.
    """

    operation: Operation
    linear: tuple[int, ...] = ()
    differentiable: bool = True
    has_side_effect: bool = False
    block_dim: int = 0
    fuse: Fuse = False
    is_transpose: bool = False
    is_saving: bool = False
    primal: Primal | None = None


def bind(operands: Sequence[Any], launch: Launch) -> list[Any]:
    """Apply the primitive; its operands vary over the same mesh axes from here on."""
    return launch_p.bind(*match_varying(operands), launch=launch)


def match_varying(operands: Sequence[Any]) -> Sequence[Any]:
    """``operands``, all of them varying over every manual axis that one of them varies over."""
    axes = [compat.varying_axes(x) for x in operands]
    union = frozenset().union(*axes)
    if not union:
        return operands
    return [
        compat.to_varying(x, sorted(union - own)) if union - own else x
        for x, own in zip(operands, axes, strict=True)
    ]


def result_avals(results: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Abstract values for ``results`` (of an Operation), given those of its operands."""
    shapes = [a.shape for a in operands]
    return [_aval(evaluate(r.shape, shapes), r.type.dtype.numpy, operands) for r in results]


def _aval(shape: tuple[Any, ...], dtype: Any, operands: Sequence[Any]) -> Any:
    if not operands:
        return ShapedArray(shape, dtype)
    # A copy of an operand's aval keeps what it says of the mesh; results are replicated over it.
    like = operands[0]
    sharding = NamedSharding(like.sharding.mesh, PartitionSpec(*(None,) * len(shape)))
    return like.update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)


@launch_p.def_effectful_abstract_eval
def _abstract_eval(*operands: Any, launch: Launch) -> tuple[list[Any], Any]:
    effects = side_effect() if launch.has_side_effect else frozenset()
    avals = result_avals(launch.operation.outputs, operands)
    return _with_shardings(launch.operation, operands, avals), effects


def _with_shardings(operation: Operation, operands: Sequence[Any], avals: list[Any]) -> list[Any]:
    """``avals`` of the results, cut as the operands are, where shardings are part of the type."""
    cut = {k: a.sharding.spec for k, a in enumerate(operands) if any(a.sharding.spec)}
    if not cut:
        return avals
    specs: list[list[Any]] = [[None] * len(a.shape) for a in avals]
    used: set[Any] = set()
    mesh = operands[next(iter(cut))].sharding.mesh
    for split in shaped_splits(operation, [a.shape for a in operands]).values():
        given = (cut[k][w.axis] for k, w in split.operands.items() if k in cut)
        names = next((n for n in given if n is not None and used.isdisjoint(_names(n))), None)
        if names is not None:
            used.update(_names(names))
            for k, window in split.results.items():
                parts = math.prod(mesh.shape[n] for n in _names(names))
                if k < len(specs) and avals[k].shape[window.axis] % parts == 0:
                    specs[k][window.axis] = names
    return [
        a.update(sharding=NamedSharding(mesh, PartitionSpec(*spec)))
        for a, spec in zip(avals, specs, strict=True)
    ]


def _names(entry: Any) -> tuple[Any, ...]:
    """The mesh axes of an entry of a PartitionSpec."""
    return entry if isinstance(entry, tuple) else (entry,)


@cache
def side_effect() -> Any:
    """The effect of ``jax.debug.callback``, which control flow, remat and custom rules let pass.

    That of FFI calls is refused by remat.
    """
    return jax.make_jaxpr(lambda: jax.debug.callback(lambda: None))().effects


def _run(*operands: Any, launch: Launch) -> list[Any]:
    if runs_in_python(launch.operation) and all(_is_on_cpu(a) for a in operands):
        found = run_in_python(launch.operation, [np.asarray(a) for a in operands])
        return [jax.device_put(a, *_devices(operands)) for a in found]
    # A call outside of a program has nothing to be fused with.
    if launch.fuse:
        derived = launch.operation.derived
        launch = derived.get(launch) or derived.setdefault(launch, replace(launch, fuse=False))
    try:
        return xla.apply_primitive(launch_p, *operands, launch=launch)
    except FloatingPointError as error:
        # Of jax_debug_nans, which knows the primitive only.
        raise FloatingPointError(f"{error} of kernel {label(launch.operation)}") from None


def label(operation: Operation) -> str:
    """The name of a kernel and the place of its definition, as traces and errors show them."""
    return operation.func.label


def _is_on_cpu(operand: Any) -> bool:
    return all(d.platform == "cpu" for d in _devices((operand,)))


def _devices(operands: Sequence[Any]) -> list[Any]:
    """The first device of the first array; none without arrays of JAX."""
    arrays = (a for a in operands if isinstance(a, jax.Array))
    return [next(iter(a.devices())) for a in arrays][:1]


# Compiles and caches per Launch, also where jit is disabled.
launch_p.def_impl(_run)
