"""Arguments of a call: matched with operands by position or name, checked, converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from kernelcore.errors import KernelArgumentError
from kernelcore.opspec import Operation
from kernelcore.types import Scalar, as_array, element_type, float64

# Kinds of values that stand for a scalar of the key's kind without loss of meaning.
_ADAPTS = {"bool": ("b",), "int": ("i", "u"), "float": ("i", "u", "f")}


def operand_values(
    operation: Operation, args: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """One value per operand of ``operation``, of its dtype and rank.

    Raises:
        KernelArgumentError: An argument is missing, unknown, or of the wrong dtype or rank.
    """
    if named or len(args) != len(operation.operands):
        args = _in_order(operation, args, named)
    return [_value(operation, i, given) for i, given in enumerate(args)]


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


def _in_order(operation: Operation, args: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
    names = [o.name for o in operation.operands]
    signature = f"{operation.func.name}({', '.join(names)})"

    def fail(text: str, index: int | None = None) -> KernelArgumentError:
        loc = operation.func.loc if index is None else _loc(operation, index)
        return KernelArgumentError(
            f"{operation.func.name}(): {text}", loc, f"call it as {signature}"
        )

    if len(args) > len(names):
        raise fail(f"expected {len(names)} arguments, found {len(args)}")
    for name in named:
        if name not in names:
            raise fail(f"unknown argument '{name}'")
        if name in names[: len(args)]:
            raise fail(f"argument '{name}' was given twice", names.index(name))
    for index, name in enumerate(names[len(args) :], len(args)):
        if name not in named:
            raise fail(f"missing argument '{name}'", index)
    return [*args, *(named[n] for n in names[len(args) :])]


def _value(operation: Operation, index: int, given: Any) -> Any:
    wanted = operation.operands[index].type
    array = as_array(wanted)
    dtype, ndim = array.dtype, array.ndim
    if isinstance(given, jax.Array | np.ndarray):
        if given.dtype == dtype.numpy and given.ndim == ndim:
            return given
        if given.ndim == ndim and _is_weak(given) and given.dtype.kind in _ADAPTS[dtype.kind]:
            return jax.lax.convert_element_type(given, dtype.numpy)
        raise _mismatch(operation, index, f"{given.dtype}{_rank(given.ndim)}")
    if isinstance(wanted, Scalar) and isinstance(given, bool | int | float | np.generic):
        return _number(operation, index, wanted, given)
    raise _mismatch(operation, index, f"a value of type {type(given).__name__}")


def _number(operation: Operation, index: int, wanted: Scalar, given: Any) -> Any:
    if np.min_scalar_type(given).kind not in _ADAPTS[wanted.kind]:
        raise _mismatch(operation, index, f"{given!r}")
    try:
        return np.asarray(given, wanted.numpy)
    except OverflowError:
        raise _mismatch(operation, index, f"{given!r}, which is out of range") from None


def _is_weak(given: Any) -> bool:
    """Whether the dtype of ``given`` is only that of a Python number."""
    return isinstance(given, jax.Array) and bool(jax.typeof(given).weak_type)


def _mismatch(operation: Operation, index: int, found: str) -> KernelArgumentError:
    operand = operation.operands[index]
    wanted = operand.type
    if isinstance(wanted, Scalar):
        expected = f"{wanted}, a number or an array without dimensions"
        remedy = f"pass a number, or jnp.asarray(..., '{wanted}')"
    else:
        expected = f"array of {wanted.dtype}{_rank(wanted.ndim)}"
        remedy = f"pass a JAX array of that type and rank, for example x.astype('{wanted.dtype}')"
    return KernelArgumentError(
        f"{operation.func.name}(): argument '{operand.name}': expected {expected}, found {found}",
        _loc(operation, index),
        remedy,
    )


def _rank(ndim: int) -> str:
    return f" with {ndim} dimension{'' if ndim == 1 else 's'}"


def _loc(operation: Operation, index: int) -> Any:
    param = operation.param_of_operand(index)
    return operation.func.loc if param is None else operation.func.param_loc(param)
