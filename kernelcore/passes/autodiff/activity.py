"""Activity: which values depend differentiably on chosen parameters."""

from __future__ import annotations

from collections.abc import Iterable, Set

from kernelcore.base.errors import KernelGradError
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.op import ATOMICS, MESSAGES, WRITES, OpKind
from kernelcore.ir.snippet import array_uses, has_effect
from kernelcore.ir.walk import (
    atoms_in,
    first_array_at_address,
    replace_body,
    rewrite,
    slot,
    walk_eqns,
    without,
)
from kernelcore.language.types import element_type
from kernelcore.passes.access.effects import AccessMap
from kernelcore.passes.access.unshared_atomics import without_owned_atomics
from kernelcore.passes.autodiff.rules import own_code, written
from kernelcore.passes.simplify.dead_code import dce, without_checks

_EFFECTS = WRITES | {OpKind.PUSH, OpKind.POP}
_RETURN_OLD = ATOMICS | {OpKind.ATOMIC_ADD}


def is_float(atom: Atom) -> bool:
    """Whether ``atom`` is a float, or an array or stack of floats."""
    return element_type(atom.type).is_float


def active_values(func: Func, sources: Iterable[Var]) -> set[Atom]:
    """Values, arrays and stacks of floats that depend on ``sources``, these included.

    Raises:
        KernelGradError: A float result of an operation without a derivative depends on them.
    """
    found: set[Atom] = {v for v in sources if is_float(v)}
    before = -1
    # Loops and memory feed values backwards in program order, hence the fixpoint.
    while len(found) != before:
        before = len(found)
        _spread(func.body, found)
    return found


def _spread(region: Region, found: set[Atom]) -> None:
    for eqn in region.eqns:
        for inner in eqn.regions:
            _spread(inner, found)
        _spread_eqn(eqn, found)


def _spread_eqn(eqn: Eqn, found: set[Atom]) -> None:
    match eqn.op.kind:
        case OpKind.PURE:
            if is_float(eqn.out) and any(a in found for a in _differentiable_inputs(eqn)):
                found.add(eqn.out)
        case OpKind.CAST | OpKind.LOAD | OpKind.POP:
            if eqn.inputs[0] in found and is_float(eqn.out):
                found.add(eqn.out)
        case OpKind.STORE | OpKind.PUSH:
            if eqn.inputs[-1] in found:
                found.add(eqn.inputs[0])
        case OpKind.ATOMIC_ADD | OpKind.ATOMIC | OpKind.ATOMIC_CAS:
            # Indices are integers, which never vary.
            if any(a in found for a in eqn.inputs):
                found.update((eqn.inputs[0], eqn.out))
        case OpKind.IF | OpKind.FOR | OpKind.WHILE:
            for index in range(len(eqn.outputs)):
                targets, sources = slot(eqn, index)
                if any(a in found for a in sources):
                    found.update(targets)
        case OpKind.SNIPPET:
            _spread_native(eqn, found)
        case OpKind.CUSTOM:
            if any(a in found for a in eqn.inputs):
                found.update(v for v in (*eqn.outputs, *written(eqn)) if is_float(v))
        case _:
            pass


def _spread_native(eqn: Eqn, found: set[Atom]) -> None:
    uses = list(array_uses(eqn))
    unseen = {u.array for u in uses} - {u.array for u in uses if u.loads}
    if any(a in found and a not in unseen for a in eqn.inputs):
        found.update(v for v in (*eqn.outputs, *(u.array for u in uses if u.writes)) if is_float(v))


def _differentiable_inputs(eqn: Eqn) -> list[Atom]:
    if eqn.op.grad is None:
        return list(eqn.inputs)
    return [a for name, a in zip(eqn.op.params, eqn.inputs, strict=True) if name in eqn.op.grad]


def check_derivative_exists(eqn: Eqn, found: set[Atom]) -> None:
    """Refuse a PURE ``eqn`` with a float result that varies and has no derivative rule."""
    if eqn.op.grad is None and eqn.out in found:
        raise KernelGradError(f"{eqn.op.name}() has no derivative: {eqn.op.no_grad}", eqn.loc)


def derivable(func: Func, sources: Iterable[Var]) -> Func:
    """The part of ``func`` that its derivatives with respect to ``sources`` run again.

    Messages are left out, since the primal has given them. So is what atomics leave in arrays that
    do not vary, such as counters, unless a value that varies depends on it.

    Raises:
        KernelGradError: An array that varies is updated by an atomic that does not add, or an array
            is made of an address.
    """
    at_address = first_array_at_address(func)
    if at_address is not None:
        raise _unknown_memory(at_address)
    func = without_owned_atomics(without_checks(func))
    found = active_values(func, sources)
    eqns = list(walk_eqns(func.body))
    hidden = own_code(func)
    used = atoms_in(func.body)
    for eqn in eqns:
        if eqn.op.kind in ATOMICS and eqn.inputs[0] in found and eqn not in hidden:
            raise _old_value(eqn) if eqn.out in used else _not_added(eqn)
    if any(e.op.kind in MESSAGES for e in eqns):
        func = dce(without_messages(func))
    if any(e.op.kind in _RETURN_OLD and e.inputs[0] not in found for e in eqns):
        func = dce(func, [p for p in func.params if p in found])
    return func


def _unknown_memory(eqn: Eqn) -> KernelGradError:
    """The error for an array that ``eqn`` makes of an address."""
    return KernelGradError(
        "no derivative: this array is made of an address, and nothing says where the gradients "
        "of its elements are",
        eqn.loc,
        "pass the array as a parameter, or compute what needs it in a kernel that is not "
        "differentiated",
    )


def _not_added(eqn: Eqn) -> KernelGradError:
    """The error for an array that varies and that ``eqn`` updates."""
    update = eqn.attrs.get("update")
    how = "that does not add" if update is None else f"{update.name} among other accesses"
    return KernelGradError(
        f"no derivative: '{_name(eqn.inputs[0])}' varies, and is updated by an atomic {how}: what "
        "remains depends on the order of threads",
        eqn.loc,
        "update it with one of atomic_add, atomic_min and atomic_max alone, index it with the "
        "launch index of tid() in every access, or compute it in a kernel that is not "
        "differentiated",
    )


def _old_value(eqn: Eqn) -> KernelGradError:
    """The error for the result of the atomic ``eqn``, which is used."""
    return KernelGradError(
        f"the old value of an atomic on '{_name(eqn.inputs[0])}' is used: it depends on the "
        "order of threads and has no derivative",
        eqn.loc,
        "do not use the result, or compute it in a kernel that is not differentiated",
    )


def without_messages(func: Func) -> Func:
    """``func``, which prints nothing and asserts nothing."""

    def visit(eqn: Eqn) -> Eqn | Region:
        return without(eqn) if eqn.op.kind in MESSAGES else eqn

    return replace_body(func, rewrite(func.body, visit))


def check_races(func: Func, single: Set[int] = frozenset()) -> None:
    """Refuse kernels whose derivative would depend on the order of threads.

    The launch has one point on the axes ``single``.

    Raises:
        KernelGradError: Naming the line: the old value of an atomic is used, or an element may be
            read by one thread and written by another.
    """
    accesses = AccessMap(func)
    used = atoms_in(func.body)
    for array in accesses.by_array:
        for access in accesses.of(array):
            eqn = access.eqn
            if eqn.op.kind in _RETURN_OLD and eqn.out in used:
                raise _old_value(eqn)
        _check_array(accesses, array, single)


def check_conditions(func: Func) -> None:
    """Refuse kernels whose ``while`` conditions write: reverse mode does not walk conditions.

    Raises:
        KernelGradError: Naming the line.
    """
    for loop in walk_eqns(func.body):
        if loop.op.kind is not OpKind.WHILE:
            continue
        for eqn in walk_eqns(loop.regions[0]):
            writes = eqn.op.kind is OpKind.SNIPPET and has_effect(eqn)
            if writes or eqn.op.kind in _EFFECTS:
                raise KernelGradError(
                    "the condition of a while loop writes: it has no derivative in reverse mode",
                    eqn.loc,
                    "write in the body of the loop",
                )


def _check_array(accesses: AccessMap, array: Atom, single: Set[int]) -> None:
    # The author of a snippet answers for its accesses; see func_native.
    adds = accesses.has_own(array, OpKind.ATOMIC_ADD)
    stores = accesses.has_own(array, OpKind.STORE, *ATOMICS)
    loads = accesses.has_own(array, OpKind.LOAD)
    uses = [a.use for a in accesses.snippets.get(array, ())]
    is_seen = adds and any(u.kinds - {OpKind.ATOMIC_ADD} for u in uses)
    if not is_seen and (loads + stores + adds < 2 or accesses.owned(array, single)):
        return
    kind = OpKind.LOAD if loads else OpKind.ATOMIC_ADD
    culprit = next(a for a in accesses.of(array) if a.eqn.op.kind is kind)
    raise KernelGradError(
        f"'{_name(array)}' may be read here and written by another thread of the same launch: "
        "the derivative would depend on the order of threads",
        culprit.eqn.loc,
        "index it with the launch index of tid() in every access, read from one array and write "
        "to another, or launch one thread: give an operator launch_dims=1",
    )


def _name(array: Atom) -> str:
    assert isinstance(array, Var)
    return array.name
