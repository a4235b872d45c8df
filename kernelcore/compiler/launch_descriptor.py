"""What native launchers know of a compiled kernel, the layout of its argument block above all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kernelcore.base import native
from kernelcore.base.errors import INDEX_PLACE, KernelAssertionError, KernelIndexError, excerpt
from kernelcore.compiler.native_code import Compiled
from kernelcore.compiler.ptx_code import DeviceCode
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import AddForm, OpKind
from kernelcore.ir.walk import assertions, walk_eqns
from kernelcore.language.types import ArrayType, Scalar, as_array
from kernelcore.passes.access.accumulation_plan import accumulated_arrays, form_of
from kernelcore.passes.access.effects import AccessMap, GridIndexedAxis


class Role(IntEnum):
    """How a kernel parameter is bound; the numbers are part of the native ABI."""

    INPUT = 0  # an operand, only read
    OUTPUT = 1  # a result
    INOUT = 2  # a result that starts as a copy of an operand
    SCRATCH = 3  # a private buffer, a copy of an operand or zeros; a hidden result
    VALUE = 4  # a scalar operand


class ZeroFill(IntEnum):
    """When a buffer is zeroed before the launch; the numbers are part of the native ABI."""

    NEVER = 0
    IF_PARTIAL = 1  # unless its shape is the launch shape
    ALWAYS = 2


@dataclass(frozen=True, slots=True)
class Binding:
    """What one kernel parameter is bound to; -1 where there is no operand or no result."""

    role: Role
    operand: int = -1
    result: int = -1
    zero: ZeroFill = ZeroFill.NEVER


class ParameterSlot(NamedTuple):
    """Where a kernel parameter lies in the argument block, and what it is bound to.

    Attributes:
        offset: Bytes from the start of the block.
        role: A ``Role``.
        dtype: The number of the dtype in the native ABI.
        ndim: Dimensions of an array; 0 for a scalar.
        zero: A ``ZeroFill``.
        operand: The operand that it is bound to, or -1.
        result: The result that it is bound to, or -1.
        rows: The first extent of the components, 0 where there are none.
        columns: The second one.
    """

    offset: int
    role: int
    dtype: int
    ndim: int
    zero: int
    operand: int
    result: int
    rows: int
    columns: int


def dtype_code(dtype: Scalar) -> int:
    """The number of ``dtype`` in the native ABI."""
    return dtype.index


def parameter_slots(
    func: Func, compiled: Compiled | DeviceCode, bindings: Sequence[Binding]
) -> list[ParameterSlot]:
    """The slots of the parameters of ``func``, in order."""
    slots: list[ParameterSlot] = []
    for param, bound, field in zip(func.params, bindings, compiled.fields, strict=True):
        assert isinstance(param.type, ArrayType | Scalar)
        array = as_array(param.type)
        rows, columns = (*array.components, 0, 0)[:2]
        slots.append(
            ParameterSlot(
                field.offset,
                int(bound.role),
                dtype_code(array.dtype),
                array.ndim,
                int(bound.zero),
                bound.operand,
                bound.result,
                rows,
                columns,
            )
        )
    return slots


def exclusive(func: Func) -> list[int]:
    """Parameters to which ``func`` adds in a form that holds only if nothing else reaches them."""
    added = {
        e.inputs[0]
        for e in walk_eqns(func.body)
        if e.op.kind is OpKind.ATOMIC_ADD and form_of(e) is not AddForm.ATOMIC
    }
    return [i for i, p in enumerate(func.params) if p in added]


def stored(func: Func) -> list[int]:
    """Parameters to whose elements ``func`` stores: several indices of one would race."""
    targets = {e.inputs[0] for e in walk_eqns(func.body) if e.op.kind is OpKind.STORE}
    return [i for i, p in enumerate(func.params) if p in targets]


def messages(func: Func) -> list[str]:
    """What failed assertions of ``func`` report, in the order of their status codes.

    The message of an index check starts with the place of the index.
    """
    return [_message(eqn) for eqn in assertions(func)]


def _message(eqn: Eqn) -> str:
    if len(eqn.inputs) > 1:
        return INDEX_PLACE + str(KernelIndexError.of(eqn.attrs["text"], eqn.loc))
    return str(KernelAssertionError.of(eqn.attrs["text"], eqn.loc))


def accumulated(accesses: AccessMap) -> list[tuple[int, int, int, int, int, int]]:
    """Per accumulated array of a kernel a row of integers, in the order of the native ABI."""
    return [a.row() for a in accumulated_arrays(accesses)]


@dataclass(frozen=True, slots=True)
class LaunchDescriptor:
    """What native launchers know of a kernel besides its code, as text of JSON may hold it."""

    name: str
    block_size: int
    parameter_slots: Sequence[ParameterSlot]
    param_names: Sequence[str]
    wheres: Sequence[str]
    grid_rank: int
    where: str
    grid_indexed_axes: Sequence[GridIndexedAxis]
    messages: Sequence[str]
    may_block: bool
    accumulated: Sequence[tuple[int, int, int, int, int, int]]
    exclusive: Sequence[int]
    is_serial: bool
    stored: Sequence[int]

    def signature(self, key: str, address: int) -> native.LaunchDescriptor:
        """The native description of the kernel whose code is at ``address``."""
        return native.LaunchDescriptor(
            self.name,
            key,
            address,
            self.block_size,
            self.parameter_slots,
            self.param_names,
            self.wheres,
            bytes(self.block_size),
            self.grid_rank,
            self.where,
            self.grid_indexed_axes,
            messages=self.messages,
            may_block=self.may_block,
            accumulated=self.accumulated,
            noalias=self.exclusive,
            is_serial=self.is_serial,
            stored=self.stored,
        )


def describe(
    func: Func,
    compiled: Compiled | DeviceCode,
    bindings: Sequence[Binding],
    *,
    is_serial: bool = False,
) -> LaunchDescriptor:
    """What launchers know of ``func``, whose errors quote the user's source.

    Args:
        func: A kernel that is ready for code generation.
        compiled: Its code for the CPU or for a device.
        bindings: What its parameters are bound to.
        is_serial: Whether one thread has to run all points, in order.
    """
    wheres = [
        "" if (loc := func.param_loc(i)) is None else excerpt(loc) for i in range(len(func.params))
    ]
    accesses = AccessMap(func)
    return LaunchDescriptor(
        name=func.name,
        block_size=compiled.block_size,
        parameter_slots=parameter_slots(func, compiled, bindings),
        param_names=[p.name for p in func.params],
        wheres=wheres,
        grid_rank=func.grid_rank,
        where="" if func.loc is None else excerpt(func.loc),
        grid_indexed_axes=accesses.grid_indexed_axes(),
        messages=messages(func),
        may_block=any(e.op.kind is OpKind.PRINT for e in walk_eqns(func.body)),
        accumulated=[] if is_serial else accumulated(accesses),
        exclusive=exclusive(func),
        is_serial=is_serial,
        stored=stored(func),
    )


def make_signature(
    func: Func,
    compiled: Compiled | DeviceCode,
    bindings: Sequence[Binding],
    *,
    is_serial: bool = False,
) -> native.LaunchDescriptor:
    """The native description of ``func``; the arguments are those of ``describe``."""
    described = describe(func, compiled, bindings, is_serial=is_serial)
    return described.signature(compiled.key, compiled.address)
