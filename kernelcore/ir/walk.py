"""Traversals that passes share: iterate, collect free variables, clone, rewrite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

from kernelcore.base.dataclass import replace
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.op import LOOPS, OpKind
from kernelcore.language.types import ArrayType, int32, int64

# The types of indices, the narrower first.
_INDICES = (int32, int64)
# The control Eqns around an Eqn, outermost first, each with the number of the region inside it.
Path = tuple[tuple[Eqn, int], ...]
# Per kind of control flow: how many inputs, and how many parameters of its regions, stand before
# those that belong to its outputs. An ``if`` has no such inputs or parameters.
LEADING = {OpKind.IF: (1, 0), OpKind.FOR: (3, 1), OpKind.WHILE: (0, 0)}


def slot(eqn: Eqn, index: int) -> tuple[tuple[Var, ...], tuple[Atom, ...]]:
    """Of output ``index`` of control flow: the Vars that take its value, and what gives it."""
    out = eqn.outputs[index]
    match eqn.op.kind:
        case OpKind.IF | OpKind.CUSTOM:
            return (out,), tuple(r.yields[index] for r in eqn.regions)
        case _:
            lead, first = LEADING[eqn.op.kind]
            params = (r.params[first + index] for r in eqn.regions)
            return (out, *params), (eqn.inputs[lead + index], eqn.regions[-1].yields[index])


def keep_slots(eqn: Eqn, kept: Sequence[int]) -> Eqn:
    """A branch or loop with the outputs ``kept`` alone, and what it carries for them."""
    lead, first = LEADING[eqn.op.kind]
    carried = () if eqn.op.kind is OpKind.IF else kept
    regions: list[Region] = []
    for number, region in enumerate(eqn.regions):
        params = (*region.params[:first], *(region.params[first + i] for i in carried))
        is_condition = eqn.op.kind is OpKind.WHILE and number == 0
        yields = region.yields if is_condition else tuple(region.yields[i] for i in kept)
        regions.append(Region(params, region.eqns, yields))
    inputs = (*eqn.inputs[:lead], *(eqn.inputs[lead + i] for i in carried))
    outputs = tuple(eqn.outputs[i] for i in kept)
    return Eqn(eqn.op, inputs, outputs, eqn.attrs, tuple(regions), eqn.loc)


def walk_eqns(region: Region) -> Iterator[Eqn]:
    """Every Eqn of ``region`` and of the regions inside it, in program order, parents first."""
    for eqn in region.eqns:
        yield eqn
        for inner in eqn.regions:
            yield from walk_eqns(inner)


def eqns_inside(eqn: Eqn) -> Iterator[Eqn]:
    """Every Eqn of the regions of ``eqn`` and of those inside them."""
    for region in eqn.regions:
        yield from walk_eqns(region)


def walk_paths(region: Region, path: Path = ()) -> Iterator[tuple[Eqn, Path]]:
    """As ``walk_eqns``, with the control Eqns around each Eqn."""
    for eqn in region.eqns:
        yield eqn, path
        for number, inner in enumerate(eqn.regions):
            yield from walk_paths(inner, (*path, (eqn, number)))


def is_in_loop(path: Path) -> bool:
    """Whether a loop is among the control Eqns of ``path``."""
    return any(around.op.kind in LOOPS for around, _ in path)


def walk_regions(region: Region) -> Iterator[Region]:
    """``region`` and every region inside it."""
    yield region
    for eqn in walk_eqns(region):
        yield from eqn.regions


def first_array_at_address(func: Func) -> Eqn | None:
    """The first array that ``func`` makes of an address; any other may share its memory."""
    return next((e for e in walk_eqns(func.body) if e.op.kind is OpKind.ARRAY_AT), None)


def assertions(func: Func) -> tuple[Eqn, ...]:
    """Every ASSERT of ``func`` in program order; their positions are part of the native ABI."""
    return tuple(e for e in walk_eqns(func.body) if e.op.kind is OpKind.ASSERT)


def is_check(eqn: Eqn) -> bool:
    """Whether ``eqn`` is an ASSERT that a setting asks for, not the user."""
    return eqn.op.kind is OpKind.ASSERT and "check" in eqn.attrs


def used_atoms(eqn: Eqn) -> Iterator[Atom]:
    """Every Atom that ``eqn`` uses, those inside its regions and their yields included."""
    yield from eqn.inputs
    for region in eqn.regions:
        for inner in region.eqns:
            yield from used_atoms(inner)
        yield from region.yields


def array_type(eqn: Eqn) -> ArrayType:
    """The type of the array that the access ``eqn`` names."""
    found = eqn.inputs[0].type
    assert isinstance(found, ArrayType)
    return found


def keeps_index(eqn: Eqn) -> bool:
    """Whether the cast ``eqn`` is of an index to at least its width, which keeps every value.

    Other integers wrap, or have a sign that the index has not.
    """
    old, new = eqn.inputs[0].type, eqn.out.type
    return old in _INDICES and new in _INDICES and _INDICES.index(new) >= _INDICES.index(old)


def element_indices(eqn: Eqn) -> tuple[Atom, ...]:
    """The indices of the access ``eqn``, those of components last."""
    return eqn.inputs[1 : 1 + array_type(eqn).ndim]


def atoms_in(region: Region) -> set[Atom]:
    """Every Atom used anywhere in ``region``, its yields included."""
    return {a for eqn in region.eqns for a in used_atoms(eqn)} | set(region.yields)


def bound_vars(region: Region) -> set[Var]:
    """Every Var that ``region`` or a region inside it binds."""
    bound = set(region.params)
    for eqn in walk_eqns(region):
        bound.update(eqn.outputs)
        for inner in eqn.regions:
            bound.update(inner.params)
    return bound


def captured_vars(eqn: Eqn) -> list[Var]:
    """Vars that the regions of ``eqn`` use from outside it, in order of first use."""
    bound = {v for region in eqn.regions for v in bound_vars(region)}
    inside = replace(eqn, inputs=())
    return [a for a in dict.fromkeys(used_atoms(inside)) if isinstance(a, Var) and a not in bound]


def substitute(atom: Atom, env: Mapping[Var, Atom]) -> Atom:
    """``env[atom]`` where there is one, else ``atom``."""
    return env.get(atom, atom) if isinstance(atom, Var) else atom


def clone_eqn(eqn: Eqn, env: MutableMapping[Var, Atom]) -> Eqn:
    """``eqn`` with inputs mapped through ``env`` and fresh outputs, which are added to ``env``."""
    inputs = tuple(substitute(a, env) for a in eqn.inputs)
    regions = tuple(clone_region(r, env) for r in eqn.regions)
    outputs = tuple(Var(v.type, v.name) for v in eqn.outputs)
    env.update(zip(eqn.outputs, outputs, strict=True))
    return Eqn(eqn.op, inputs, outputs, eqn.attrs, regions, eqn.loc)


def clone_region(region: Region, env: MutableMapping[Var, Atom]) -> Region:
    """A copy of ``region`` with fresh Vars; Vars from outside are mapped through ``env``."""
    params = tuple(Var(v.type, v.name) for v in region.params)
    env.update(zip(region.params, params, strict=True))
    eqns = tuple(clone_eqn(e, env) for e in region.eqns)
    return Region(params, eqns, tuple(substitute(a, env) for a in region.yields))


def rewrite(
    region: Region,
    change: Callable[[Eqn], Eqn | Region],
    env: MutableMapping[Var, Atom] | None = None,
) -> Region:
    """``region`` with what ``change`` gives for every Eqn, in program order, parents first.

    An Eqn takes the place of another one, and its regions are rewritten in turn. A Region is
    finished code, whose yields take the place of the outputs; they are added to ``env``.
    """
    env = {} if env is None else env
    eqns: list[Eqn] = []
    for eqn in region.eqns:
        inputs = tuple(substitute(a, env) for a in eqn.inputs)
        found = change(Eqn(eqn.op, inputs, eqn.outputs, eqn.attrs, eqn.regions, eqn.loc))
        if isinstance(found, Region):
            eqns.extend(found.eqns)
            env.update(zip(eqn.outputs, found.yields, strict=True))
            continue
        if found.regions:
            regions = tuple(rewrite(r, change, env) for r in found.regions)
            found = Eqn(found.op, found.inputs, found.outputs, found.attrs, regions, found.loc)
        eqns.append(found)
    return Region(region.params, tuple(eqns), tuple(substitute(a, env) for a in region.yields))


def without(eqn: Eqn) -> Region:
    """For ``rewrite``: no code in the place of ``eqn``, whose outputs are not used."""
    return Region((), (), eqn.outputs)


def replace_body(func: Func, body: Region) -> Func:
    """``func`` with another body that has the same parameters."""
    return replace(func, body=body)
