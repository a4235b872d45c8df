"""Leaves of the arguments of a call: checked, and converted to what operands take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from kernelcore.errors import KernelArgumentError
from kernelcore.opspec import Operation, describe
from kernelcore.types import Scalar, as_array, bfloat16, element_type, float64

# Kinds of values that stand for a scalar of the key's kind without loss of meaning.
_ADAPTS = {
    "bool": ("b",),
    "int": ("i", "u"),
    "uint": ("i", "u"),
    "float": ("i", "u", "f"),
}


def operand_values(operation: Operation, leaves: Sequence[Any]) -> list[Any]:
    """One value per operand of ``operation``, of its dtype and rank.

    Raises:
        KernelArgumentError: An argument is of the wrong dtype or rank.
    """
    return [_value(operation, i, given) for i, given in enumerate(leaves)]


def check_wide_types(operation: Operation) -> None:
    """Refuse 64-bit parameters where JAX has no 64-bit types.

    Raises:
        KernelArgumentError: There is such a parameter, and ``jax_enable_x64`` is off.
    """
    if jax.dtypes.canonicalize_dtype(float64.numpy) == float64.numpy:
        return
    for index, param in enumerate(operation.func.params):
        dtype = element_type(param.type)
        if dtype.bits == 64:
            raise KernelArgumentError(
                f"{operation.func.name}(): '{param.name}' is of type {dtype}, which JAX has only "
                "with jax_enable_x64",
                operation.func.param_loc(index),
                "call jax.config.update('jax_enable_x64', True) first, or use 32-bit types",
            )


def _value(operation: Operation, index: int, given: Any) -> Any:
    wanted = operation.operands[index].type
    array = as_array(wanted)
    dtype, ndim = array.dtype, array.ndim
    if isinstance(given, jax.Array | np.ndarray):
        _check_readable(operation, index, given)
        if given.dtype == dtype.numpy and given.ndim == ndim:
            return given
        if given.ndim == ndim and _is_weak(given) and given.dtype.kind in _ADAPTS[dtype.kind]:
            if dtype.is_integer and not np.can_cast(given.dtype, dtype.numpy):
                return _narrowed(operation, index, given)
            return jax.lax.convert_element_type(given, dtype.numpy)
        raise _mismatch(operation, index, f"{given.dtype}{_rank(given.ndim)}")
    if operation.is_composite(index) and not isinstance(given, jax.Array | np.ndarray):
        return operation.composite(index, given)
    if isinstance(wanted, Scalar) and isinstance(given, bool | int | float | np.generic):
        return _number(operation, index, wanted, given)
    raise _mismatch(operation, index, f"a value of type {type(given).__name__}")


def _check_readable(operation: Operation, index: int, given: Any) -> None:
    if isinstance(given, jax.Array):
        if not isinstance(given, Tracer) and given.is_deleted():
            remedy = "do not use an array after it was donated or deleted"
            raise _mismatch(operation, index, "a deleted array", remedy)
    elif isinstance(given, np.ma.MaskedArray):
        raise _mismatch(operation, index, "a masked array", "fill it: x.filled(...)")


def _narrowed(operation: Operation, index: int, given: Any) -> Any:
    """A weak integer ``given`` as one of the wanted dtype, which is narrower."""
    wanted = operation.operands[index].type
    if isinstance(wanted, Scalar):
        try:
            return _number(operation, index, wanted, int(given))
        except jax.errors.ConcretizationTypeError:
            pass  # Traced: whether it fits is known at run time only.
    name = operation.operands[index].name
    raise _mismatch(
        operation,
        index,
        f"{given.dtype}{_rank(given.ndim)}, whose values may be out of range",
        f"cast it where they are not: {name}.astype('{as_array(wanted).dtype}')",
    )


def _number(operation: Operation, index: int, wanted: Scalar, given: Any) -> Any:
    # The smallest type of a Python integer beyond 64 bits is none of integers.
    is_int = isinstance(given, int) and not isinstance(given, bool)
    kind = "i" if is_int else _kind(given)
    if kind not in _ADAPTS[wanted.kind]:
        raise _mismatch(operation, index, f"{given!r}")
    try:
        # NumPy wraps its own integers, but checks those of Python.
        return np.asarray(int(given) if wanted.is_integer else given, wanted.numpy)
    except OverflowError:
        bits = int(given).bit_length()
        found = str(given) if bits <= 64 else f"an integer of {bits} bits"
        raise _mismatch(operation, index, f"{found}, which is out of range") from None


def _kind(number: Any) -> str:
    # NumPy takes bfloat16 for bytes without meaning.
    return "f" if isinstance(number, bfloat16.numpy.type) else np.min_scalar_type(number).kind


def _is_weak(given: Any) -> bool:
    """Whether the dtype of ``given`` is only that of a Python number."""
    return isinstance(given, jax.Array) and bool(jax.typeof(given).weak_type)


def _mismatch(
    operation: Operation, index: int, found: str, remedy: str | None = None
) -> KernelArgumentError:
    operand = operation.operands[index]
    wanted = operand.type
    if isinstance(wanted, Scalar):
        expected = f"{wanted}, a number or an array without dimensions"
        usual = f"pass a number, or jnp.asarray(..., '{wanted}')"
    else:
        expected = describe(wanted)
        usual = f"pass a JAX array of that type and rank, for example x.astype('{wanted.dtype}')"
    return KernelArgumentError(
        f"{operation.func.name}(): argument '{operand.name}': expected {expected}, found {found}",
        _loc(operation, index),
        remedy or usual,
    )


def _rank(ndim: int) -> str:
    return f" with {ndim} dimension{'' if ndim == 1 else 's'}"


def _loc(operation: Operation, index: int) -> Any:
    param = operation.param_of_operand(index)
    return operation.func.loc if param is None else operation.func.param_loc(param)
