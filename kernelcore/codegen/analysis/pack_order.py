"""The order of the equations of a region with packs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kernelcore.base.dataclass import dataclass, field
from kernelcore.codegen.analysis.packs import Pack, parts
from kernelcore.ir.core import Atom, Const, Eqn, Region, Var
from kernelcore.ir.op import REPEATABLE, OpKind
from kernelcore.ir.walk import captured_vars
from kernelcore.passes.access.accumulation_plan import adds_apart


@dataclass(slots=True)
class Order:
    """The equations of a region in an order in which a pack has all its operands.

    What has an effect stays in order; the rest is computed when it is first needed, and late
    additions come last in their part.

    Attributes:
        items: The equations and packs in order.
        blocked: A pack that needs what comes after what needs the pack; None if all have a place.
    """

    region: Region
    packs: Sequence[Pack]
    items: list[Eqn | Pack] = field(default_factory=list[Any])
    blocked: Pack | None = None
    _makers: dict[Var, Eqn | Pack] = field(default_factory=dict[Var, Any])
    _states: dict[Eqn | Pack, bool] = field(default_factory=dict[Any, bool])
    # The additions before an addition that may be to the same element.
    _before: dict[Eqn, list[Eqn | Pack]] = field(default_factory=dict[Eqn, Any])
    _parts: dict[Eqn, int] = field(default_factory=dict[Eqn, int])
    _part: int = 0

    def __post_init__(self) -> None:
        pack_of = {eqn: pack for pack in self.packs for eqn in pack.eqns}
        for eqn in self.region.eqns:
            self._makers.update(dict.fromkeys(eqn.outputs, pack_of.get(eqn, eqn)))
        self._chain_additions(pack_of)
        self._parts = parts(self.region)
        late: dict[Eqn | Pack, None] = {}
        for eqn in self.region.eqns:
            if self._parts[eqn] > self._part:
                self._place_all(late)
                late.clear()
            self._part = self._parts[eqn]
            item = pack_of.get(eqn, eqn)
            if adds_apart(eqn):
                late[item] = None
            elif eqn.op.kind not in REPEATABLE:
                self._place_all([item])
        makers = (self._makers.get(a) for a in self.region.yields if isinstance(a, Var))
        self._place_all([*(m for m in makers if m is not None), *late])

    def _chain_additions(self, pack_of: Mapping[Eqn, Pack]) -> None:
        """Every addition keeps its place among those that may be to the same element."""
        last: dict[tuple[Atom, Atom | None], Eqn | Pack] = {}
        for eqn in self.region.eqns:
            if eqn.op.kind is not OpKind.ATOMIC_ADD:
                continue
            array, index = eqn.inputs[0], eqn.inputs[-2] if len(eqn.inputs) > 2 else None
            known = index if isinstance(index, Const) else None
            self._before[eqn] = [
                item
                for (other, at), item in last.items()
                if other is array and (known is None or at is None or at == known)
            ]
            last[array, known] = pack_of.get(eqn, eqn)

    def _place_all(self, wanted: Iterable[Eqn | Pack]) -> None:
        for item in wanted:
            if self.blocked is None:
                self._place(item)

    def _place(self, wanted: Eqn | Pack) -> None:
        """Append ``wanted`` behind all that it needs."""
        if wanted in self._states:
            return
        open_items = [(wanted, self._needs(wanted))]
        self._states[wanted] = False
        while open_items:
            item, needs = open_items[-1]
            maker = next(needs, None)
            if maker is None:
                open_items.pop()
                self._states[item] = True
                self.items.append(item)
            elif self._states.get(maker) is False or self._is_later(maker):
                self.blocked = next(i for i, _ in reversed(open_items) if isinstance(i, Pack))
                return
            elif maker not in self._states:
                self._states[maker] = False
                open_items.append((maker, self._needs(maker)))

    def _is_later(self, maker: Eqn | Pack) -> bool:
        """Whether ``maker`` has its place behind what is being placed."""
        if maker in self._states:
            return False
        first = maker.eqns[0] if isinstance(maker, Pack) else maker
        if first.op.kind is OpKind.LOAD or adds_apart(first):
            return self._parts[first] != self._part
        return first.op.kind not in REPEATABLE

    def _needs(self, item: Eqn | Pack) -> Iterator[Eqn | Pack]:
        for eqn in item.eqns if isinstance(item, Pack) else (item,):
            for atom in (*eqn.inputs, *(captured_vars(eqn) if eqn.regions else ())):
                maker = self._makers.get(atom) if isinstance(atom, Var) else None
                if maker is not None:
                    yield maker
            yield from (b for b in self._before.get(eqn, ()) if b is not item)
