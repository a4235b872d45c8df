"""The order of long blocks: a value is used soon after it is made.

Operations on long vectors are lists of equations, one per component: 64 multiplications, then 64
additions of the products. When the second list begins, registers have lost what the first one made:
LLVM keeps the order, and stores and loads every component once per operation. Here a component goes
through all operations, as far as possible, before the next one:

    w = exp(s)                                  w = exp(s)
    a.0 = mul(x.0, w)                           a.0 = mul(x.0, w)
    a.1 = mul(x.1, w)         becomes           y.0 = add(a.0, b.0)
    y.0 = add(a.0, b.0)                         a.1 = mul(x.1, w)
    y.1 = add(a.1, b.1)                         y.1 = add(a.1, b.1)

No equation changes, so no bit of a result does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelcore.base.dataclass import replace
from kernelcore.ir.core import Eqn, Func, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import replace_body
from kernelcore.language.types import FLOATS
from kernelcore.passes.access.accumulation_plan import adds_apart

# Registers hold most of what shorter blocks compute. Figures of all three: docs/decisions/287.
LEAST_EQNS = 200
# What more equations use is wide: it is made first, and these do not follow it at once. In blocks
# of matrices each row would use it, and what all rows wait for would be live together.
MOST_USES = 8
# An equation that takes more equations, those that it needs and itself, waits for them.
MOST_PULLED = 6
_MOVED = frozenset(
    {OpKind.PURE, OpKind.CAST, OpKind.LOAD, OpKind.ATOMIC_ADD, OpKind.PUSH, OpKind.POP}
)


def schedule(func: Func) -> Func:
    """``func`` with its long blocks in an order in which values are used soon."""
    body = _scheduled(func.body)
    return func if body is func.body else replace_body(func, body)


def _scheduled(region: Region) -> Region:
    eqns: list[Eqn] = []
    block: list[Eqn] = []
    for eqn in region.eqns:
        if eqn.op.kind in _MOVED:
            block.append(eqn)
            continue
        eqns += _in_order_of_use(block, region)
        block = []
        inner = tuple(_scheduled(r) for r in eqn.regions)
        is_same = all(a is b for a, b in zip(inner, eqn.regions, strict=True))
        eqns.append(eqn if is_same else replace(eqn, regions=inner))
    eqns += _in_order_of_use(block, region)
    is_same = all(a is b for a, b in zip(eqns, region.eqns, strict=True))
    return region if is_same else Region(region.params, tuple(eqns), region.yields)


def _in_order_of_use(block: Sequence[Eqn], region: Region) -> Sequence[Eqn]:
    return block if len(block) < LEAST_EQNS else _Block(block, region).ordered()


class _Block:
    """Equations without regions, and those that have been placed."""

    def __init__(self, eqns: Sequence[Eqn], region: Region) -> None:
        self.eqns = eqns
        self.placed: dict[Eqn, None] = {}
        makers = {v: eqn for eqn in eqns for v in eqn.outputs}
        self.needs = {eqn: [makers[a] for a in eqn.inputs if a in makers] for eqn in eqns}
        for eqn, earlier in _effects_in_order(eqns):
            self.needs[eqn].append(earlier)
        yielded = set(region.yields)
        self.users: dict[Var, list[Eqn]] = {}
        for eqn in eqns:
            for atom in dict.fromkeys(eqn.inputs):
                if isinstance(atom, Var):
                    self.users.setdefault(atom, []).append(eqn)
        # Of what uses a value, what a loop carries on comes last: it can take the value's place.
        for users in self.users.values():
            users.sort(key=lambda eqn: any(v in yielded for v in eqn.outputs))
        sources = (v for v in self.users if v not in makers and v.type in FLOATS)
        self.sources = [v for v in sources if not self._is_wide(v)]
        # A set in order.
        self.wide = {e: None for e in eqns if any(map(self._is_wide, e.outputs))}

    def _is_wide(self, value: Var) -> bool:
        return value.type in FLOATS and len(self.users.get(value, ())) > MOST_USES

    def ordered(self) -> list[Eqn]:
        """All equations, each behind what it needs."""
        for wide in self._by_level():
            for eqn in wide:
                self._place(eqn)
            for value in self.sources:
                self._place_users(value)
        for eqn in self.eqns:
            for made in self._place(eqn):
                for value in made.outputs:
                    self._place_users(value)
        return list(self.placed)

    def _by_level(self) -> Iterator[list[Eqn]]:
        """The equations with wide results: those that need no others, those that need these, ..."""
        levels: dict[Eqn, int] = {}
        for eqn in self.eqns:
            levels[eqn] = max((levels[n] + (n in self.wide) for n in self.needs[eqn]), default=0)
        for level in range(max(levels.values()) + 1):
            yield [eqn for eqn in self.wide if levels[eqn] == level]

    def _place(self, eqn: Eqn) -> list[Eqn]:
        """Put ``eqn`` behind what it needs; all that has been placed for it, itself last."""
        made: list[Eqn] = []
        waiting = [eqn]
        while waiting:
            missing = self._missing(waiting[-1])
            if missing:
                waiting += reversed(missing)
                continue
            found = waiting.pop()
            if found not in self.placed:
                self.placed[found] = None
                made.append(found)
        return made

    def _place_users(self, value: Var) -> None:
        """Put what uses ``value``, what uses that, and so on; not what uses wide results."""
        waiting = [iter(self.users.get(value, ()))]
        while waiting:
            user = next(waiting[-1], None)
            if user is None:
                waiting.pop()
            elif user not in self.placed and self._pulls_few(user):
                made = [eqn for eqn in reversed(self._place(user)) if eqn not in self.wide]
                values = (v for eqn in made for v in eqn.outputs)
                waiting.append(iter([u for v in values for u in self.users.get(v, ())]))

    def _missing(self, eqn: Eqn) -> list[Eqn]:
        return [n for n in self.needs[eqn] if n not in self.placed]

    def _pulls_few(self, eqn: Eqn) -> bool:
        found: set[Eqn] = set()
        waiting = [eqn]
        while waiting and len(found) <= MOST_PULLED:
            needed = waiting.pop()
            if needed not in found:
                found.add(needed)
                waiting += self._missing(needed)
        return len(found) <= MOST_PULLED


def _effects_in_order(eqns: Sequence[Eqn]) -> Iterator[tuple[Eqn, Eqn]]:
    """Equations that stay behind others, with these.

    Arrays may share memory but for those that are added to in SHARED and PARTIAL form, of which
    launches see to it (``accumulation_plan.py``). Each stack has an order of its own: which one of
    several leads their records is decided afterwards (``stack_records.py``).
    """
    addition: Eqn | None = None
    seen_by_loads: Eqn | None = None
    loads: list[Eqn] = []
    stacks: dict[object, Eqn] = {}
    for eqn in eqns:
        match eqn.op.kind:
            case OpKind.ATOMIC_ADD:
                if addition is not None:
                    yield eqn, addition
                addition = eqn
                if not adds_apart(eqn):
                    yield from ((eqn, load) for load in loads)
                    seen_by_loads, loads = eqn, []
            case OpKind.LOAD:
                if seen_by_loads is not None:
                    yield eqn, seen_by_loads
                loads.append(eqn)
            case OpKind.PUSH | OpKind.POP:
                if eqn.inputs[0] in stacks:
                    yield eqn, stacks[eqn.inputs[0]]
                stacks[eqn.inputs[0]] = eqn
            case _:
                pass
