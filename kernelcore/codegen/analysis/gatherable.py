"""Additions in loops that can be gathered: their threads, element and terms are known beforehand.

The index of the loop and launch indices name the element, and what computes a term is known to any
thread that knows the launch index, or was computed before the loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.reference import is_narrow
from kernelcore.ir.core import Atom, Const, Eqn, Func, Var
from kernelcore.ir.op import MESSAGES, REPEATABLE, WRITES, AddForm, OpKind
from kernelcore.ir.walk import array_type, element_indices, walk_eqns
from kernelcore.language.types import Scalar, boolean, int32
from kernelcore.passes.access.accumulation_plan import form_of, launch_values
from kernelcore.passes.access.effects import AccessMap

# What happens in the order of threads, or reaches any elements.
_ORDERED = MESSAGES | {OpKind.SNIPPET}


@dataclass(frozen=True, slots=True)
class Addition:
    """An addition that can be gathered.

    Attributes:
        eqn: The addition.
        loop: The loop that it is in.
        axes: Those of the last two launch axes that decide the element.
        work: What computes the value in an iteration, in order.
        outside: What computes other values that it needs, in any thread that knows the launch
            index, in order.
        kept: What its threads compute before the loop.
    """

    eqn: Eqn
    loop: Eqn
    axes: frozenset[int]
    work: tuple[Eqn, ...]
    outside: tuple[Eqn, ...]
    kept: tuple[Var, ...]


class Source:
    """A kernel, and what is known of its values."""

    def __init__(self, func: Func) -> None:
        self.func = func
        self.is_ordered = any(e.op.kind in _ORDERED for e in walk_eqns(func.body))
        self.accesses = AccessMap(func)
        self.uniform = launch_values(func)
        # The launch axis of every launch index.
        self.axis = {e.out: e.attrs["axis"] for e in func.body.eqns if e.op.kind is OpKind.TID}
        # Per value what computes it from launch indices and values of the launch alone.
        self.known: dict[Var, Eqn] = {}
        for eqn in func.body.eqns:
            is_free = eqn.op.kind is OpKind.TID or self._is_fixed_load(eqn)
            if is_free or (len(eqn.outputs) == 1 and eqn.out in self.uniform):
                self.known[eqn.out] = eqn

    def is_uniform(self, atom: Atom) -> bool:
        """Whether ``atom`` has one value in the whole launch, which its start can compute."""
        return isinstance(atom, Const) or atom in self.uniform

    def axes_of(self, eqn: Eqn) -> set[int]:
        """The launch axes that choose the element that ``eqn`` loads."""
        return {self.axis[i] for i in element_indices(eqn) if i in self.axis}

    def _is_constant(self, eqn: Eqn) -> bool:
        """Whether ``eqn`` loads from an array that the kernel never writes."""
        return eqn.op.kind is OpKind.LOAD and not self.accesses.has(eqn.inputs[0], *WRITES)

    def _is_fixed_load(self, eqn: Eqn) -> bool:
        """Whether ``eqn`` loads an element that launch indices name, and that does not change."""
        return self._is_constant(eqn) and all(
            i in self.axis or self.is_uniform(i) for i in element_indices(eqn)
        )

    def additions_of(self, loop: Eqn) -> list[Addition]:
        """The additions in the body of ``loop``, an Eqn of the kernel, that can be gathered."""
        if self.is_ordered:
            return []
        if loop.op.kind is not OpKind.FOR or not all(map(self.is_uniform, loop.inputs[:3])):
            return []
        step, index = loop.inputs[2], loop.regions[0].params[0]
        if not isinstance(step, Const) or step.value not in (1, -1) or index.type != int32:
            return []
        found = (self._addition(eqn, loop) for eqn in loop.regions[0].eqns)
        return [a for a in found if a is not None]

    def _addition(self, eqn: Eqn, loop: Eqn) -> Addition | None:
        if eqn.op.kind is not OpKind.ATOMIC_ADD or form_of(eqn) is not AddForm.SHARED:
            return None
        type_ = array_type(eqn)
        if type_.components or is_narrow(type_.dtype) or not self._is_element(eqn, loop):
            return None
        rank = self.func.rank
        axes = frozenset(self.axes_of(eqn) & {rank - 2, rank - 1})
        sliced = self._slice(eqn, loop)
        return None if len(axes) == 2 or sliced is None else Addition(eqn, loop, axes, *sliced)

    def _is_element(self, eqn: Eqn, loop: Eqn) -> bool:
        """Whether the element of ``eqn`` is named by the index of ``loop`` and launch indices."""
        index, indices = loop.regions[0].params[0], element_indices(eqn)
        others = [i for i in indices if i is not index]
        return len(others) == len(indices) - 1 and all(
            i in self.axis or self.is_uniform(i) for i in others
        )

    def _slice(
        self, eqn: Eqn, loop: Eqn
    ) -> tuple[tuple[Eqn, ...], tuple[Eqn, ...], tuple[Var, ...]] | None:
        """The ``work``, ``outside`` and ``kept`` of an addition, if it has these."""
        (body,) = loop.regions
        makers = {out: e for e in body.eqns for out in e.outputs}
        needed: set[Eqn] = set()
        outer: dict[Var, None] = {}
        missing = [a for a in eqn.inputs[1:] if isinstance(a, Var)]
        while missing:
            var = missing.pop()
            made = makers.get(var)
            if made is None:
                if var in body.params[1:]:
                    return None
                if var is not body.params[0]:
                    outer[var] = None
            elif made not in needed:
                if made.op.kind not in REPEATABLE and not self._is_constant(made):
                    return None
                needed.add(made)
                missing += [a for a in made.inputs if isinstance(a, Var)]
        outer |= dict.fromkeys(a for a in loop.inputs[:2] if isinstance(a, Var))
        return self._parted(tuple(e for e in body.eqns if e in needed), outer)

    def _parted(
        self, work: tuple[Eqn, ...], outer: Iterable[Var]
    ) -> tuple[tuple[Eqn, ...], tuple[Eqn, ...], tuple[Var, ...]] | None:
        """``work`` with what it uses from outside: what is computed again, and what is kept."""
        params = {*self.func.params}
        kept = [v for v in outer if v not in self.known and v not in params]
        if any(v.type == boolean or not isinstance(v.type, Scalar) for v in kept):
            return None
        again = set[Eqn]()
        missing = [v for v in outer if v in self.known]
        while missing:
            eqn = self.known[missing.pop()]
            if eqn not in again:
                again.add(eqn)
                missing += [a for a in eqn.inputs if isinstance(a, Var) and a in self.known]
        outside = tuple(e for e in self.func.body.eqns if e in again)
        return work, outside, tuple(kept)
