"""Names and signatures that differ between the supported versions of JAX (0.8 and later)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import jax
import jax.ffi
from jax.interpreters import mlir

if TYPE_CHECKING:
    from jax.extend.core import Primitive
else:
    # The package jax.extend imports Pallas: 14 ms of 250 that a first call of a kernel takes.
    Primitive = type(jax.lax.add_p)


def varying_axes(x: Any) -> frozenset[Any]:
    """The manual mesh axes over which ``x`` differs; empty outside of shard_map."""
    aval = jax.typeof(x)
    manual = getattr(aval, "manual_axis_type", None)
    return frozenset(aval.vma if manual is None else manual.varying)


def to_varying(x: Any, axes: Iterable[Any]) -> Any:
    """``x``, marked as different over ``axes``."""
    pcast = getattr(jax.lax, "pcast", None)
    if pcast is None:
        return jax.lax.pvary(x, tuple(axes))  # pyright: ignore[reportAttributeAccessIssue]
    return pcast(x, tuple(axes), to="varying")


def register_state_type(name: str, type_id: object, type_info: object, platform: str) -> None:
    """Make the state of an FFI handler known to the backend of a platform."""
    if hasattr(jax.ffi, "register_ffi_type"):
        registration: Any = {"type_id": type_id, "type_info": type_info}
        jax.ffi.register_ffi_type(name, registration, platform=platform)
    else:
        jax.ffi.register_ffi_type_id(name, type_id, platform=platform)


def register_lowering(primitive: Any, rule: Any, platform: str) -> None:
    """Register ``rule``, whose operations keep the locations that it gives them.

    JAX gives those of rules that it caches its own.
    """
    known = inspect.signature(mlir.register_lowering).parameters
    options: Any = {"cacheable": False} if "cacheable" in known else {}
    mlir.register_lowering(primitive, rule, platform=platform, **options)
