"""Values of structs as trees of JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from kernelcore.base.errors import KernelTypeError
from kernelcore.operators import Composite, keep_in_structs

_registered: set[type] = set()
keep_in_structs(Tracer)


def register_struct(cls: type[Any]) -> type[Any]:
    """Make values of the struct ``cls`` trees, so that transformations of JAX see their fields.

    It can stand above ``@struct`` as a decorator. Derivatives with respect to a value are values.
    Inside transformations, fields are given traced values: ``Body(mass=m)``. A tree of axes, or of
    batches, has fields of other types: ``Body.of_fields({"mass": 0, "position": None})``.

    Raises:
        KernelTypeError: ``cls`` is not a struct.
    """
    declared = getattr(cls, "kernel_type", None)
    fields = getattr(declared, "fields", None)
    if fields is None:
        raise KernelTypeError(
            f"register_struct: expected a struct, found {cls!r}", remedy="decorate it with @struct"
        )
    names = tuple(name for name, _ in fields)

    def flatten(value: Any) -> tuple[tuple[Any, ...], None]:
        return tuple(_child(getattr(value, name)) for name in names), None

    def flatten_with_keys(value: Any) -> tuple[tuple[tuple[Any, Any], ...], None]:
        keys = (jax.tree_util.GetAttrKey(name) for name in names)
        return tuple(zip(keys, flatten(value)[0], strict=True)), None

    def unflatten(_: None, children: Any) -> Any:
        return cls.of_fields(dict(zip(names, children, strict=True)))

    if cls not in _registered:
        jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
        _registered.add(cls)
    return cls


def _child(value: Any) -> Any:
    """``value`` as JAX knows it: vectors and matrices are arrays."""
    return np.asarray(value) if isinstance(value, Composite) else value
