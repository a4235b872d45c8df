"""Independent loops: no iteration reads or writes an element that another iteration writes.

Such a loop can be vectorised with other loops inside, which all lanes run together: what does not
depend on its index is computed once for all lanes (outer-loop vectorisation). A loop of reverse
mode may also carry sums, and add to elements that iterations share. A loop along a row may carry
sums and extrema.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.reference import is_narrow
from kernelcore.codegen.analysis.uniformity import Strides, iteration_strides, stride_of
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ACCESSES, ANY_ORDER, ENDS_TOGETHER, REPEATABLE, AddForm, Op, OpKind
from kernelcore.ir.walk import array_type, atoms_in, element_indices, walk_eqns, walk_paths
from kernelcore.passes.access.accumulation_plan import form_of
from kernelcore.passes.access.collected_values import CollectedValues
from kernelcore.passes.access.trips import known_trips

# Iterations that run at a time, and share what does not depend on the index. Loops of fewer collect
# in their order where others have parts, on every processor (docs/decisions/240, 256).
INDEPENDENT_LANES = 32
_KINDS = REPEATABLE | {OpKind.LOAD, OpKind.STORE, OpKind.IF, OpKind.FOR}


@dataclass(frozen=True, slots=True)
class IndependentLoop:
    """A loop whose iterations can be lanes.

    Attributes:
        body: Its body; the parameters are the index, and the values that it carries.
        step: By how much the index grows from iteration to iteration, 1 or -1.
        collects: The operation by which each value that it carries is made of those of the
            iterations.
        adds: Whether it carries values, or adds to elements.
        strides: By how much the values of ``body`` grow from lane to lane, the index by 1.
        apart: Pairs of arrays, one that the loop stores and another that it accesses, which must
            share no memory.
        is_ordered_if_short: Whether few iterations collect in their order, one after the other.
        most_in_panels: Up to how many iterations collect in their order in launches of
            ``LEAST_ROWS_TRANSPOSED`` rows or more, whose tiles have panels (``panels.py``); 0
            without panels.
    """

    body: Region
    step: int
    collects: tuple[Op, ...]
    adds: bool
    strides: Strides
    apart: tuple[tuple[Var, Var], ...]
    is_ordered_if_short: bool = False
    most_in_panels: int = 0


def independent_loops(func: Func, least_trips: int) -> Mapping[Eqn, IndependentLoop]:
    """The outermost loops of ``func`` whose iterations are independent, and access neighbours.

    Loops that are known to have fewer than ``least_trips`` iterations are left out.
    """
    found: dict[Eqn, IndependentLoop] = {}
    for eqn, path in walk_paths(func.body):
        if eqn.op.kind is not OpKind.FOR or any(around in found for around, _ in path):
            continue
        loop = _independent(eqn) if _may_have(eqn, least_trips) else None
        if loop is not None:
            found[eqn] = loop
    return found


def independent_elements(loop: Eqn) -> IndependentLoop | None:
    """``loop`` if its iterations are independent, and each writes adjacent elements of its own.

    No thread needs another one for its iterations, so a gang may run them as lanes, a thread after
    the other. It may carry sums of terms, and extrema. A loop of reverse mode may add once to
    elements that threads share.
    """
    (body,), step = loop.regions, loop.inputs[2]
    if not isinstance(step, Const) or step.value not in (1, -1):
        return None
    eqns, collects = list(walk_eqns(body)), _collects(body)
    shared = [e for e in eqns if _is_addition(e) and not _is_own_addition(e)]
    if collects is None or (shared and not is_of_adjoint(loop)):
        return None
    if any(e.op.kind not in _KINDS and not _is_addition(e) for e in eqns):
        return None
    if any(e.op.kind is OpKind.FOR for e in eqns):
        return None
    accesses, strides = [e for e in eqns if e.op.kind in ACCESSES], iteration_strides(body, 1)
    written = dict.fromkeys(e.inputs[0] for e in accesses if e.op.kind is not OpKind.LOAD)
    if not all(_is_adjacent(e, strides) for e in accesses) or not atoms_in(body).isdisjoint(
        e.out for e in eqns if _is_addition(e)
    ):
        return None
    if not (written or collects):
        return None
    if not all(_is_decided(accesses, a, body.params) for a in written):
        return None
    if any(sum(e.inputs[0] is one.inputs[0] for e in accesses) > 1 for one in shared):
        return None
    is_ordered = bool(collects) and not shared and ENDS_TOGETHER not in loop.attrs
    adds = bool(shared or collects)
    return IndependentLoop(body, int(step.value), collects, adds, strides, (), is_ordered)


def is_of_adjoint(loop: Eqn) -> bool:
    """Whether reverse mode made ``loop``: the order of what it adds is the compiler's."""
    return ENDS_TOGETHER in loop.attrs or ANY_ORDER in loop.attrs


def _is_own_addition(eqn: Eqn) -> bool:
    return _is_addition(eqn) and form_of(eqn) is AddForm.OWNED


def _may_have(loop: Eqn, trips: int) -> bool:
    """Whether ``loop`` may have that many iterations."""
    known = known_trips(loop)
    return known is None or known >= trips


def _independent(loop: Eqn) -> IndependentLoop | None:
    (body,), step = loop.regions, loop.inputs[2]
    index, *carried = body.params
    if not isinstance(step, Const) or step.value not in (1, -1):
        return None
    eqns = list(walk_eqns(body))
    adds = bool(carried) or any(eqn.op.kind is OpKind.ATOMIC_ADD for eqn in eqns)
    collects = _collects(body) if carried else ()
    if collects is None or ((adds or step.value == -1) and not _makes_sums(loop, eqns)):
        return None
    if any(eqn.op.kind not in _KINDS for eqn in eqns if not _is_addition(eqn)):
        return None
    accesses, strides = [eqn for eqn in eqns if eqn.op.kind in ACCESSES], iteration_strides(body, 1)
    if not all(_is_adjacent(eqn, strides) for eqn in accesses):
        return None
    stored = dict.fromkeys(eqn.inputs[0] for eqn in accesses if eqn.op.kind is OpKind.STORE)
    # A value that an iteration computes once, and that is 1 more in the next: it differs in all.
    own = {index, *(out for eqn in body.eqns for out in eqn.outputs)}
    apart = {v for v in own if strides[v] == 1}
    if not (stored or adds) or not all(_is_decided(accesses, array, apart) for array in stored):
        return None
    loops = [eqn for eqn in eqns if eqn.op.kind is OpKind.FOR]
    if any(stride_of(strides, a) != 0 for eqn in loops for a in eqn.inputs[:3]):
        return None
    arrays = dict.fromkeys(eqn.inputs[0] for eqn in accesses)
    pairs = [(x, y) for x in stored for y in arrays if x is not y]
    return IndependentLoop(
        body,
        int(step.value),
        collects,
        adds,
        strides,
        tuple((x, y) for x, y in pairs if isinstance(x, Var) and isinstance(y, Var)),
    )


def _makes_sums(loop: Eqn, eqns: Sequence[Eqn]) -> bool:
    """Whether ``loop``, with the Eqns ``eqns``, is of reverse mode, and reads no sum that it makes.

    It has a loop inside, which shares work among lanes; else its terms are added in order.
    """
    (body,) = loop.regions
    if not is_of_adjoint(loop) or not any(e.op.kind is OpKind.FOR for e in eqns):
        return False
    added = {e.inputs[0] for e in eqns if _is_addition(e)}
    accessed = {e.inputs[0] for e in eqns if e.op.kind in ACCESSES and not _is_addition(e)}
    used = atoms_in(body)
    return added.isdisjoint(accessed) and used.isdisjoint(e.out for e in eqns if _is_addition(e))


def _collects(body: Region) -> tuple[Op, ...] | None:
    """By which operation a loop with ``body`` collects each value that it carries.

    None if it does more with one of them.
    """
    collected, found = CollectedValues(body), list[Op]()
    for param, result in zip(body.params[1:], body.yields, strict=True):
        op = collected.operation(param, result)
        if op is None:
            return None
        found.append(op)
    return tuple(found)


def _is_addition(eqn: Eqn) -> bool:
    """Whether ``eqn`` adds to elements in a form that lanes can share."""
    if eqn.op.kind is not OpKind.ATOMIC_ADD or is_narrow(array_type(eqn).dtype):
        return False
    return form_of(eqn) in (AddForm.OWNED, AddForm.SHARED)


def _is_decided(accesses: Sequence[Eqn], array: Atom, apart: Collection[Atom]) -> bool:
    """Whether all accesses of ``array`` have the same one of ``apart`` as index of some axis."""
    places = [element_indices(eqn) for eqn in accesses if eqn.inputs[0] is array]
    axes = (set(axis) for axis in zip(*places, strict=True))
    return any(len(axis) == 1 and axis <= set(apart) for axis in axes)


def _is_adjacent(eqn: Eqn, strides: Strides) -> bool:
    """Whether iterations share the element of ``eqn``, or access one beside the other."""
    found = [stride_of(strides, i) for i in element_indices(eqn)]
    is_shared = all(s == 0 for s in found)
    is_next = found[-1:] == [1] and not any(s != 0 for s in found[:-1])
    return is_shared or (is_next and not array_type(eqn).components)
