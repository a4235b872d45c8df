"""Access analysis: what a kernel does to each array, and which elements belong to one thread."""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from itertools import permutations, product
from typing import NamedTuple

from kernelcore.base.dataclass import dataclass
from kernelcore.ir.core import Atom, Const, Eqn, Func, Var
from kernelcore.ir.op import ACCESSES, ATOMICS, READS, REPEATABLE, TID, WRITES, OpKind
from kernelcore.ir.snippet import ArrayUse, array_uses
from kernelcore.ir.walk import Path, array_type, element_indices, keeps_index, walk_eqns, walk_paths
from kernelcore.language.effect import Effect
from kernelcore.language.types import ArrayType, int32

_STORES = WRITES - {OpKind.ATOMIC_ADD}
_NO_KINDS: frozenset[OpKind] = frozenset()


@dataclass(frozen=True, eq=False, slots=True)
class SnippetAccess:
    """What a SNIPPET Eqn does to one array, and whether that is in a loop."""

    eqn: Eqn
    use: ArrayUse
    is_in_loop: bool


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """One access of an element and the control Eqns around it, outermost first."""

    eqn: Eqn
    path: Path

    @property
    def indices(self) -> tuple[Atom, ...]:
        return element_indices(self.eqn)

    @property
    def outer_ndim(self) -> int:
        """How many of the indices are none of components."""
        return array_type(self.eqn).outer_ndim


def effects(func: Func) -> tuple[Effect, ...]:
    """The effect of ``func`` on each parameter; values have none."""
    found = _kinds_by_array(func)
    return tuple(_effect(found.get(param, set())) for param in func.params)


def effect_at_addresses(func: Func) -> Effect:
    """The effect of ``func`` on the arrays that it makes of addresses, all together."""
    found = _kinds_by_array(func)
    made = (e.out for e in walk_eqns(func.body) if e.op.kind is OpKind.ARRAY_AT)
    return _effect({kind for array in made for kind in found.get(array, ())})


def _effect(kinds: set[OpKind]) -> Effect:
    return Effect(bool(kinds & READS), bool(kinds & _STORES), OpKind.ATOMIC_ADD in kinds)


def _kinds_by_array(func: Func) -> dict[Atom, set[OpKind]]:
    found: dict[Atom, set[OpKind]] = {}
    for eqn in walk_eqns(func.body):
        if eqn.op.kind is OpKind.SNIPPET:
            for use in array_uses(eqn):
                found.setdefault(use.array, set()).update(use.kinds)
        elif eqn.op.kind in ACCESSES:
            found.setdefault(eqn.inputs[0], set()).add(eqn.op.kind)
    return found


class GridIndexedAxis(NamedTuple):
    """An axis of a parameter that threads index by their launch index."""

    parameter: int
    axis: int
    grid_axis: int


class AccessMap:
    """Every access of a kernel by array, and what is known of the indices."""

    def __init__(self, func: Func) -> None:
        self.func = func
        self.by_array: dict[Atom, list[Access]] = {}
        # The kinds of the accesses of each array.
        self._kinds: dict[Atom, set[OpKind]] = {}
        # What snippets do to arrays, at indices that are unknown.
        self.snippets: dict[Atom, list[SnippetAccess]] = {}
        for eqn, path in walk_paths(func.body):
            if eqn.op.kind in ACCESSES:
                self.by_array.setdefault(eqn.inputs[0], []).append(Access(eqn, path))
                self._kinds.setdefault(eqn.inputs[0], set()).add(eqn.op.kind)
            elif eqn.op.kind is OpKind.SNIPPET:
                is_in_loop = any(around.op.kind is not OpKind.IF for around, _ in path)
                for use in array_uses(eqn):
                    known = self.snippets.setdefault(use.array, [])
                    known.append(SnippetAccess(eqn, use, is_in_loop))
        self._written = {a for a in (*self.by_array, *self.snippets) if self.has(a, *WRITES)}
        # Per value: a number that equal values share, whether it has one value in the whole
        # launch, and the launch axis that it is an injective function of.
        self._numbers: dict[Hashable, int] = {}
        self._keys: dict[Var, int] = {}
        self._uniform: set[Var] = set(func.params)
        self._axis: dict[Var, int] = {}
        # In program order, so that what an Eqn uses is known before it.
        for eqn in walk_eqns(func.body):
            if not eqn.regions and len(eqn.outputs) == 1:
                self._learn(eqn)

    def of(self, array: Atom) -> list[Access]:
        """The accesses of ``array`` in program order."""
        return self.by_array.get(array, [])

    def has(self, array: Atom, *kinds: OpKind) -> bool:
        """Whether any access of ``array`` is of one of ``kinds``."""
        return self.has_own(array, *kinds) or any(
            not found.use.kinds.isdisjoint(kinds) for found in self.snippets.get(array, ())
        )

    def has_own(self, array: Atom, *kinds: OpKind) -> bool:
        """As ``has``, of the accesses outside of snippets."""
        return not self._kinds.get(array, _NO_KINDS).isdisjoint(kinds)

    def _learn(self, eqn: Eqn) -> None:
        kind, out, inputs = eqn.op.kind, eqn.outputs[0], eqn.inputs
        if kind not in REPEATABLE and (kind is not OpKind.LOAD or inputs[0] in self._written):
            return
        widens = kind is OpKind.CAST and keeps_index(eqn)
        if kind is OpKind.TID:
            self._axis[out] = eqn.attrs["axis"]
        else:
            varying = [a for a in inputs if not (isinstance(a, Const) or a in self._uniform)]
            if not varying:
                self._uniform.add(out)
            elif len(varying) == 1 and (eqn.op.injective or widens) and varying[0] in self._axis:
                self._axis[out] = self._axis[varying[0]]
        if widens:
            self._keys[out] = self.key(inputs[0])
            return
        attrs = tuple(sorted(eqn.attrs.items(), key=str)) if eqn.attrs else ()
        keys = tuple([self.key(a) for a in inputs])
        self._keys[out] = self._number((eqn.op.name, out.type, attrs, keys))

    def is_uniform(self, atom: Atom) -> bool:
        """Whether ``atom`` has one value in the whole launch."""
        return isinstance(atom, Const) or atom in self._uniform

    def decides(self, atom: Atom) -> bool:
        """Whether ``atom`` is an injective function of a launch axis, and of nothing else."""
        return isinstance(atom, Var) and atom in self._axis

    def key(self, atom: Atom) -> int:
        """Equal keys mean equal values within one thread, at the same iteration of all loops."""
        if isinstance(atom, Const):
            # As text, since 0.0 and -0.0, or 1 and True, are equal to Python.
            return self._number(("const", atom.type, repr(atom.value)))
        return self._keys[atom] if atom in self._keys else self._number(atom)

    def _number(self, structure: Hashable) -> int:
        """A number per structure, so that structures of structures stay small."""
        return self._numbers.setdefault(structure, len(self._numbers))

    def index_keys(self, access: Access) -> tuple[int, ...]:
        """The keys of the indices of ``access``."""
        return tuple(self.key(i) for i in access.indices)

    def owned(self, array: Atom, single: Set[int] = frozenset()) -> bool:
        """Whether no two threads can touch the same element of ``array``.

        The launch has one point on the axes ``single``.
        """
        return self.deciding_axes(array) | single >= set(range(self.func.rank))

    def deciding_axes(self, array: Atom) -> set[int]:
        """The launch axes on which threads differ only if they touch different elements.

        Each decides the index at some position: there, all accesses have the same index, an
        injective function of that axis.
        """
        return set() if array in self.snippets else self._deciding_axes(self.of(array))

    def _deciding_axes(self, accesses: Sequence[Access]) -> set[int]:
        if not accesses:
            return set()
        rows = [self.index_keys(a) for a in accesses]
        shared = [i for p, i in enumerate(accesses[0].indices) if len({r[p] for r in rows}) == 1]
        return {self._axis[i] for i in shared if isinstance(i, Var) and i in self._axis}

    def may_be_one(self, loaded: Atom, written: Atom) -> bool:
        """Whether two parameters may stand for one array, as if ``loaded`` were a copy of it.

        Every thread touches only elements of its own there, and loads them before it writes.
        """
        if loaded in self.snippets or written in self.snippets or self.has(loaded, *WRITES):
            return False
        loads, others = self.of(loaded), self.of(written)
        writes = [a for a in others if a.eqn.op.kind in WRITES]
        order = {eqn: n for n, eqn in enumerate(walk_eqns(self.func.body))}
        return self._deciding_axes([*loads, *others]) >= set(range(self.func.rank)) and all(
            order[a.eqn] < order[b.eqn] and not shares_loop(a, b) for a in loads for b in writes
        )

    def stored_first(self, array: Atom) -> bool:
        """Whether a thread stores an element of ``array`` at most once, before it adds there."""
        if self.has(array, *ATOMICS) or any(a.use.writes for a in self.snippets.get(array, ())):
            return False
        writes = [a for a in self.of(array) if a.eqn.op.kind in WRITES]
        stores = [a for a in writes if a.eqn.op.kind is OpKind.STORE]
        if not all(varies_with_loops(a) for a in stores):
            return False
        # Only accesses of one component, or of unknown ones, can meet: large elements would be slow
        # to compare access by access.
        by_component: dict[Hashable, list[tuple[int, Access]]] = {}
        for number, write in enumerate(writes):
            by_component.setdefault(component_named(write), []).append((number, write))
        unknown = by_component.pop(None, [])
        groups = [[*group, *unknown] for group in by_component.values()] or [unknown]
        return not any(
            self._is_overwritten(a, b, is_earlier=i < j)
            for group in groups
            for (i, a), (j, b) in permutations(group, 2)
            if b.eqn.op.kind is OpKind.STORE
        )

    def _is_overwritten(self, a: Access, b: Access, *, is_earlier: bool) -> bool:
        """Whether ``b`` may overwrite what ``a``, earlier in the program or later, has written."""
        if disjoint(a, b) or _exclusive(a, b):
            return False
        # In a loop what is later runs before the next iteration, which stores elsewhere.
        return is_earlier or (shares_loop(a, b) and self.index_keys(a) != self.index_keys(b))

    def covers_grid(self, array: Atom) -> bool:
        """Whether every thread stores the element at its own launch index, unconditionally.

        Of an element with components it stores each, at constant indices.
        """
        type_ = array.type
        if not isinstance(type_, ArrayType):
            return False
        outer = type_.outer_ndim
        stored = {
            tuple(i.value for i in a.indices[outer:] if isinstance(i, Const))
            for a in self.of(array)
            if a.eqn.op.kind is OpKind.STORE
            if not a.path and self._is_launch_index(a.indices[:outer])
        }
        return stored >= set(product(*(range(extent) for extent in type_.components)))

    def grid_indexed_axes(self) -> list[GridIndexedAxis]:
        """Where every thread accesses an array at its own index.

        The array must be as large there as the grid; axes of components are left out.
        """
        axes = {self._number(_tid_structure(a)): a for a in range(self.func.rank)}
        found = {
            GridIndexedAxis(index, axis, axes[key])
            for index, param in enumerate(self.func.params)
            for access in self.of(param)
            if not access.path
            for axis, key in enumerate(self.index_keys(access)[: access.outer_ndim])
            if key in axes
        }
        return sorted(found)

    def covered_axes(self) -> list[GridIndexedAxis]:
        """Where every access of an array is at the launch index of its thread.

        Elements beyond the grid are not touched; axes of components are left out.
        """
        axes = {self._number(_tid_structure(a)): a for a in range(self.func.rank)}
        found: list[GridIndexedAxis] = []
        for index, param in enumerate(self.func.params):
            if param in self.snippets or not self.of(param):
                continue
            outer = self.of(param)[0].outer_ndim
            rows = [self.index_keys(access)[:outer] for access in self.of(param)]
            for axis, keys in enumerate(zip(*rows, strict=True)):
                if len({*keys}) == 1 and keys[0] in axes:
                    found.append(GridIndexedAxis(index, axis, axes[keys[0]]))
        return found

    def foreign_write(self, array: Atom) -> Eqn | None:
        """What writes ``array`` and is not proven to do that at its own launch index."""
        for snippet in self.snippets.get(array, ()):
            if snippet.use.writes:
                return snippet.eqn
        for access in self.of(array):
            outer = access.indices[: access.outer_ndim]
            if access.eqn.op.kind in WRITES and not self._is_launch_index(outer):
                return access.eqn
        return None

    def _is_launch_index(self, indices: tuple[Atom, ...]) -> bool:
        axes = [self._number(_tid_structure(a)) for a in range(self.func.rank)]
        return [self.key(i) for i in indices] == axes


def _tid_structure(axis: int) -> Hashable:
    """What launch index ``axis`` is numbered by."""
    return (TID.name, int32, (("axis", axis),), ())


def component_named(access: Access) -> tuple[float, ...] | None:
    """The indices of the component that ``access`` names, if they are known."""
    found = access.indices[access.outer_ndim :]
    known = tuple(i.value for i in found if isinstance(i, Const))
    return known if len(known) == len(found) else None


def varies_with_loops(access: Access) -> bool:
    """Whether the index of every loop around ``access`` is itself one of its indices."""
    for eqn, _ in access.path:
        if eqn.op.kind is OpKind.WHILE:
            return False
        if eqn.op.kind is OpKind.FOR and eqn.regions[0].params[0] not in access.indices:
            return False
    return True


def disjoint(a: Access, b: Access) -> bool:
    """Whether the indices of ``a`` and ``b`` differ at some position, being constant there."""
    return any(
        isinstance(i, Const) and isinstance(j, Const) and i.value != j.value
        for i, j in zip(a.indices, b.indices, strict=True)
    )


def shares_loop(a: Access, b: Access) -> bool:
    """Whether a loop is around both ``a`` and ``b``."""
    return any(
        eqn_a is eqn_b and eqn_a.op.kind is not OpKind.IF
        for (eqn_a, _), (eqn_b, _) in zip(a.path, b.path, strict=False)
    )


def _exclusive(a: Access, b: Access) -> bool:
    """Whether ``a`` and ``b`` lie in different branches of one ``if`` outside of loops."""
    for (eqn_a, branch_a), (eqn_b, branch_b) in zip(a.path, b.path, strict=False):
        if eqn_a is not eqn_b or eqn_a.op.kind is not OpKind.IF:
            return False
        if branch_a != branch_b:
            return True
    return False
