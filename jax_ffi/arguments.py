"""Leaves of the arguments of a call: checked, and converted to what operands take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from kernelcore import ArrayType, types
from kernelcore.base.errors import KernelArgumentError, KernelTypeError, SrcLoc
from kernelcore.operators import (
    SCALARS,
    Operand,
    Operation,
    Result,
    Scalar,
    annotation_text,
    array_text,
    as_array,
    cached_property,
    dimensions_text,
    element_type,
    rank_remedy,
    take_array,
)

# Kinds of values that stand for a scalar of the key's kind without loss of meaning.
_ADAPTS = {
    "bool": ("b",),
    "int": ("i", "u"),
    "uint": ("i", "u"),
    "float": ("i", "u", "f"),
}


@dataclass(frozen=True)
class Operands:
    """The operands of a kernel or a function.

    Attributes:
        name: Of the kernel or function.
        loc: Where it is.
        operands: One per leaf of a parameter.
        results: What it gives.
        locs: Where the parameter of each operand is declared.
    """

    name: str
    loc: SrcLoc | None
    operands: tuple[Operand, ...]
    results: tuple[Result, ...]
    locs: tuple[SrcLoc | None, ...]

    @staticmethod
    def of(operation: Operation) -> Operands:
        """Those of ``operation``."""
        func = operation.func
        params = [operation.param_of_operand(k) for k in range(len(operation.operands))]
        locs = tuple(None if p is None else func.param_loc(p) for p in params)
        return Operands(func.name, func.loc, operation.operands, operation.results, locs)

    def values(self, leaves: Sequence[Any]) -> list[Any]:
        """One value per operand, of its dtype and rank.

        Raises:
            KernelArgumentError: An argument is of the wrong dtype or rank, or of a type that JAX
                has not.
        """
        if self._wide and jax.dtypes.canonicalize_dtype(types.float64.numpy) != types.float64.numpy:
            self._refuse_wide_types()
        return [_value(self, i, given) for i, given in enumerate(leaves)]

    @cached_property
    def _wide(self) -> list[tuple[str, Scalar]]:
        named = [(o.name, element_type(o.type)) for o in (*self.operands, *self.results)]
        return [(name, dtype) for name, dtype in named if dtype.bits == 64]

    def _refuse_wide_types(self) -> NoReturn:
        name, dtype = self._wide[0]
        locs = {o.name: loc for o, loc in zip(self.operands, self.locs, strict=True)}
        raise KernelArgumentError(
            f"{self.name}(): '{name}' is of type {dtype}, which JAX has only with jax_enable_x64",
            locs.get(name) or self.loc,
            "call jax.config.update('jax_enable_x64', True) first, or use 32-bit types",
        )


def _value(operands: Operands, index: int, given: Any) -> Any:
    wanted = operands.operands[index].type
    array = as_array(wanted)
    dtype, ndim = array.dtype, array.ndim
    if isinstance(given, jax.Array | np.ndarray):
        _check_readable(operands, index, given)
        if given.dtype == dtype.numpy and given.ndim == ndim:
            return given
        if given.ndim == ndim and _is_weak(given) and given.dtype.kind in _ADAPTS[dtype.kind]:
            if dtype.is_integer and not np.can_cast(given.dtype, dtype.numpy):
                return _narrowed(operands, index, given)
            return jax.lax.convert_element_type(given, dtype.numpy)
        remedy = _remedy(operands.operands[index].name, array, given)
        raise _mismatch(operands, index, dimensions_text(given.dtype, given.ndim), remedy)
    if array.components and array.outer_ndim == 0 and not isinstance(given, jax.Array | np.ndarray):
        return _composite(operands, index, array, given)
    if isinstance(wanted, Scalar) and isinstance(given, bool | int | float | np.generic):
        return _number(operands, index, wanted, given)
    raise _mismatch(operands, index, f"a value of type {type(given).__name__}")


def _remedy(name: str, wanted: ArrayType, given: Any) -> str | None:
    """The remedy for the array ``given``, unless it is a cast."""
    if jnp.issubdtype(given.dtype, np.complexfloating):
        return f"pass its parts, which are {name}.real and {name}.imag"
    if given.dtype != wanted.dtype.numpy:
        remedy = f"convert it with {name}.astype('{wanted.dtype}')"
        if any(given.dtype == scalar.numpy for scalar in SCALARS):
            remedy += f", or annotate the parameter {annotation_text(wanted, str(given.dtype))}"
        return remedy
    if wanted.ndim and given.ndim > wanted.ndim:
        return f"map over further axes: jax.vmap; or {rank_remedy(wanted)}"
    return rank_remedy(wanted)


def _composite(operands: Operands, index: int, array: ArrayType, given: Any) -> Any:
    """``given``, a sequence of numbers or a value of its own, as an array of components."""
    try:
        return take_array(array.dtype, given, array.components)
    except KernelTypeError as error:
        name = operands.operands[index].name
        raise KernelArgumentError(
            f"{operands.name}(): argument '{name}': {error.message}",
            operands.locs[index] or operands.loc,
            error.remedy,
        ) from None


def _check_readable(operands: Operands, index: int, given: Any) -> None:
    if isinstance(given, jax.Array):
        if not isinstance(given, Tracer) and given.is_deleted():
            remedy = "do not use an array after it was donated or deleted"
            raise _mismatch(operands, index, "a deleted array", remedy)
    elif isinstance(given, np.ma.MaskedArray):
        raise _mismatch(operands, index, "a masked array", "fill it: x.filled(...)")


def _narrowed(operands: Operands, index: int, given: Any) -> Any:
    """A weak integer ``given`` as one of the wanted dtype, which is narrower."""
    wanted = operands.operands[index].type
    if isinstance(wanted, Scalar):
        try:
            return _number(operands, index, wanted, int(given))
        except jax.errors.ConcretizationTypeError:
            pass  # Traced: whether it fits is known at run time only.
    name = operands.operands[index].name
    raise _mismatch(
        operands,
        index,
        f"{dimensions_text(given.dtype, given.ndim)}, whose values may be out of range",
        f"pass {name}.astype('{as_array(wanted).dtype}') if they are not",
    )


def _number(operands: Operands, index: int, wanted: Scalar, given: Any) -> Any:
    # NumPy gives Python integers beyond 64 bits the type object.
    is_int = isinstance(given, int) and not isinstance(given, bool)
    kind = "i" if is_int else _kind(given)
    if kind not in _ADAPTS[wanted.kind]:
        raise _mismatch(operands, index, f"{given!r}")
    try:
        # NumPy wraps its own integers, but checks those of Python.
        return np.asarray(int(given) if wanted.is_integer else given, wanted.numpy)
    except OverflowError:
        bits = int(given).bit_length()
        found = str(given) if bits <= 64 else f"an integer of {bits} bits"
        raise _mismatch(operands, index, f"{found}, which is out of range") from None


def _kind(number: Any) -> str:
    # NumPy takes bfloat16 for bytes without meaning.
    return "f" if isinstance(number, types.bfloat16.numpy.type) else np.min_scalar_type(number).kind


def _is_weak(given: Any) -> bool:
    """Whether the dtype of ``given`` is only that of a Python number."""
    return isinstance(given, jax.Array) and bool(jax.typeof(given).weak_type)


def _mismatch(
    operands: Operands, index: int, found: str, remedy: str | None = None
) -> KernelArgumentError:
    operand = operands.operands[index]
    wanted = operand.type
    if isinstance(wanted, Scalar):
        expected = f"{wanted}, a number or an array without dimensions"
        usual = f"pass a number, or jnp.asarray(..., '{wanted}')"
    else:
        expected = array_text(wanted)
        usual = f"pass a JAX array of that type and rank, for example x.astype('{wanted.dtype}')"
    return KernelArgumentError(
        f"{operands.name}(): argument '{operand.name}': expected {expected}, found {found}",
        operands.locs[index] or operands.loc,
        remedy or usual,
    )
