"""The launch descriptor of a kernel, from its IR."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.base import native
from kernelcore.base.config import config
from kernelcore.base.dataclass import replace
from kernelcore.base.errors import CHECKS, KernelAssertionError, excerpt
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.own_elements import own_elements
from kernelcore.codegen.analysis.small_rows import rows_as_elements
from kernelcore.codegen.code_form import code_form, running_form
from kernelcore.codegen.simd.gathering import Gathering, choose_detours
from kernelcore.codegen.simd.strategy import panel_rows, points_at_once
from kernelcore.compiler.code_store import Compiled
from kernelcore.compiler.launch_descriptor import (
    Binding,
    LaunchDescriptor,
    ParameterSlot,
    Role,
)
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import AddForm, OpKind
from kernelcore.ir.walk import assertions, is_check, walk_eqns
from kernelcore.language.types import ArrayType, Scalar, as_array
from kernelcore.passes.access.accumulation_plan import OwnElements, accumulated_arrays, form_of
from kernelcore.passes.access.effects import AccessMap, GridIndexedAxis, effects
from kernelcore.passes.access.reads import Reads, reads_of

# A thread of a kernel that has one of these may take as long as it likes.
_UNBOUNDED = frozenset({OpKind.PRINT, OpKind.WHILE})


def parameter_slots(func: Func, bindings: Sequence[Binding]) -> list[ParameterSlot]:
    """The slots of the parameters of ``func``, in order."""
    slots: list[ParameterSlot] = []
    fields, _ = abi.layout(func.params)
    for param, bound, field in zip(func.params, bindings, fields, strict=True):
        assert isinstance(param.type, ArrayType | Scalar)
        array = as_array(param.type)
        rows, columns = (*array.components, 0, 0)[:2]
        slots.append(
            ParameterSlot(
                field.offset,
                int(bound.role),
                array.dtype.index,
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
    """Parameters that ``func`` writes in a form that holds only if nothing else reaches them.

    Gathered sums read operands after other threads have stored theirs.
    """
    added = {
        e.inputs[0]
        for e in walk_eqns(func.body)
        if e.op.kind is OpKind.ATOMIC_ADD and form_of(e) is not AddForm.ATOMIC
    }
    early = stored(func) if added else []
    if early and choose_detours(code_form(func))[0] is None:
        early = []
    return [i for i, p in enumerate(func.params) if p in added or i in early]


def stored(func: Func) -> list[int]:
    """Parameters to whose elements ``func`` stores: several indices of one would race."""
    targets = {e.inputs[0] for e in walk_eqns(func.body) if e.op.kind is OpKind.STORE}
    return [i for i, p in enumerate(func.params) if p in targets]


def native_text(text: str) -> str:
    """``text`` without what native texts cannot hold, lone surrogates and NUL, which are escaped.

    File names that are not UTF-8 have such surrogates.
    """
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def messages(func: Func) -> list[str]:
    """What failed assertions of ``func`` report, in the order of their status codes.

    The message of a check starts with its kind.
    """
    return [native_text(_message(eqn)) for eqn in assertions(func)]


def _message(eqn: Eqn) -> str:
    if is_check(eqn):
        kind, error = CHECKS[eqn.attrs["check"]]
        return kind + str(error.of(eqn.attrs["text"], eqn.loc))
    return str(KernelAssertionError.of(eqn.attrs["text"], eqn.loc))


def own_bindings(func: Func) -> list[Binding]:
    """Every parameter bound to the argument of its place."""
    bindings: list[Binding] = []
    for index, (param, effect) in enumerate(zip(func.params, effects(func), strict=True)):
        role = Role.OUTPUT if effect.writes else Role.INPUT
        is_array = isinstance(param.type, ArrayType)
        bindings.append(Binding(role if is_array else Role.VALUE, index))
    return bindings


def describe_launch(
    func: Func,
    bindings: Sequence[Binding],
    *,
    is_serial: bool = False,
    covered: Sequence[GridIndexedAxis] = (),
) -> LaunchDescriptor:
    """What launchers know of ``func``, whose errors quote the user's source.

    Args:
        func: A kernel that is ready for code generation.
        bindings: What its parameters are bound to.
        is_serial: Whether one thread has to run all points, in order.
        covered: Axes on which launches refuse arrays that are larger than the grid.
    """
    wheres = [
        "" if (loc := func.param_loc(i)) is None else excerpt(loc) for i in range(len(func.params))
    ]
    accesses, form = AccessMap(func), running_form(rows_as_elements(func))
    _, other = choose_detours(code_form(func))
    return LaunchDescriptor(
        name=func.name,
        block=bytes(abi.layout(func.params)[1]),
        parameter_slots=parameter_slots(func, bindings),
        param_names=[p.name for p in func.params],
        wheres=[native_text(where) for where in wheres],
        grid_rank=func.grid_rank,
        where="" if func.loc is None else native_text(excerpt(func.loc)),
        grid_indexed_axes=accesses.grid_indexed_axes(),
        messages=messages(func),
        may_block=any(e.op.kind in _UNBOUNDED for e in walk_eqns(func.body)),
        accumulated=[] if is_serial else accumulated_rows(accesses),
        exclusive=exclusive(func),
        is_serial=is_serial,
        stored=stored(func),
        flush_denormals=func.flush_denormals,
        covered_axes=covered,
        panel_rows=panel_rows(form),
        points_at_once=points_at_once(form),
        other_axis=-1 if other is None else other.axis,
        other_axis_points=0 if other is None else other.most_points,
    )


def accumulated_rows(accesses: AccessMap) -> list[tuple[int, ...]]:
    """Per accumulated array of a kernel a row of integers, in the order of the native ABI."""
    found = accumulated_arrays(accesses)
    if not found:
        return []
    func = code_form(accesses.func)
    gathering, _ = choose_detours(func)
    if gathering is not None:
        own = _own_elements(gathering)
        found = tuple(replace(a, is_gathered=a.param in own, own=own.get(a.param)) for a in found)
    return [a.row() for a in found]


def _own_elements(gathering: Gathering) -> dict[int, OwnElements | None]:
    """Per gathered array, by its position, how chunks can add to elements of their own.

    Code that is not optimised gathers no sums, so that its chunks cannot.
    """
    sums, params = gathering.sums, gathering.sums.func.params
    divided = zip(sums.sums, own_elements(sums, gathering.least_trips), strict=True)
    pairs = divided if config.optimize else ()
    own = {array: how for one, how in pairs for array in one.arrays if how is not None}
    return {params.index(array): own.get(array) for array in sums.arrays}


def operand_reads(func: Func, bindings: Sequence[Binding], count: int) -> list[Reads]:
    """How often a thread reads each of ``count`` operands; zeros for those that are no inputs."""
    accesses, found = AccessMap(func), [Reads(0, 0)] * count
    params = zip(func.params, rows_as_elements(func).params, strict=True)
    for (param, as_coded), bound in zip(params, bindings, strict=True):
        if bound.role is Role.INPUT:
            assert isinstance(as_coded.type, ArrayType | Scalar)
            components = () if as_coded is param else as_array(as_coded.type).components
            rows, columns = (*components, 0, 0)[:2]
            found[bound.operand] = reads_of(accesses, param)._replace(element=(rows, columns))
    return found


def make_signature(
    func: Func,
    compiled: Compiled,
    bindings: Sequence[Binding],
    covered: Sequence[GridIndexedAxis] = (),
) -> native.LaunchDescriptor:
    """The native description of ``func``, whose code is ``compiled``.

    Launches refuse arrays that are larger than the grid on the axes ``covered``.
    """
    described = describe_launch(func, bindings, covered=covered)
    return described.signature(compiled.key, compiled.address)
