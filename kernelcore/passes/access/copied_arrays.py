"""Arrays that a kernel fills with the elements of another array, which it only reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.ir.core import Atom, Eqn, Func, Var
from kernelcore.ir.op import WRITES, OpKind
from kernelcore.ir.walk import array_type
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.effects import Access, AccessMap
from kernelcore.passes.access.final_elements import Covers, first_writes


@dataclass(frozen=True, slots=True)
class Copied:
    """Where an array gets its elements.

    Attributes:
        source: The parameter that has them.
        axes: For each axis of the source, the axis of the array with the same index; they grow.
            Along all other axes the elements repeat.
    """

    source: int
    axes: tuple[int, ...]


def copied_arrays(func: Func, goes_through: Covers) -> Mapping[int, Copied]:
    """The parameters that a launch fills with elements of another one, and of which one.

    The kernel may add the elements, to an array that holds zeros; a copy then differs in the sign
    of zeros.

    Args:
        func: A kernel.
        goes_through: Whether an axis of an array is as long as what an index goes through.
    """
    accesses = AccessMap(func)
    if accesses.snippets or func.flush_denormals:
        return {}
    loads: dict[Atom, Eqn] = {}
    for array, found in accesses.by_array.items():
        if not accesses.has(array, *WRITES) and array in func.params:
            loads |= {a.eqn.out: a.eqn for a in found if a.eqn.op.kind is OpKind.LOAD}
    copied: dict[int, Copied] = {}
    for k, param in enumerate(func.params):
        found = accesses.of(param)
        copies = {_copy(func, a, loads) for a in found}
        first = copies.pop() if len(copies) == 1 else None
        writes = first_writes(accesses, param, goes_through) if first is not None else None
        if first is not None and writes is not None and len(writes) == len(found):
            copied[k] = first
    return copied


def _copy(func: Func, write: Access, loads: Mapping[Atom, Eqn]) -> Copied | None:
    """What an array is a copy of if it is made of elements as ``write`` writes one."""
    type_ = array_type(write.eqn)
    load = loads.get(write.eqn.inputs[-1])
    if load is None:
        return None
    source = load.inputs[0]
    if not (isinstance(source, Var) and isinstance(source.type, ArrayType)):
        return None
    if (source.type.dtype, source.type.components) != (type_.dtype, type_.components):
        return None
    outer = source.type.outer_ndim
    place, given = write.indices, load.inputs[1:]
    axes = _places(place[: type_.outer_ndim], given[:outer])
    if axes is None or place[type_.outer_ndim :] != given[outer:]:
        return None
    components = range(type_.outer_ndim, type_.ndim)
    return Copied(func.params.index(source), (*axes, *components))


def _places(where: Sequence[Atom], given: Sequence[Atom]) -> tuple[int, ...] | None:
    """Where each of ``given`` is in ``where``, in the same order; None if one is not there."""
    if not all(index in where for index in given):
        return None
    found = tuple(where.index(index) for index in given)
    return found if list(found) == sorted({*found}) else None
