"""Which packs of a kernel pay for the moves between registers that they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kernelcore.codegen.analysis.pack_candidates import Forms, candidates
from kernelcore.codegen.analysis.pack_order import Order
from kernelcore.codegen.analysis.packs import (
    Atoms,
    Lanes,
    Pack,
    Packing,
    element_bytes,
    operands,
    results,
)
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns, walk_regions

# What an access of one element costs.
_COSTS = {OpKind.LOAD: 1, OpKind.ATOMIC_ADD: 4}
# Packs that make vectors for each other save at least this part of their instructions.
LEAST_SAVED = 0.25


def packing(func: Func, register_bytes: int, cost: Mapping[Eqn, int]) -> Packing:
    """The packs of ``func``, which has a plan, where registers have ``register_bytes``.

    ``cost`` gives the instructions of every pure equation. Packs that cost more moves between
    registers than they save instructions are left out.
    """
    search = Search(func, register_bytes, cost)
    while search.keep_gaining():
        packs = {pack.eqns: pack for pack in search.packs()}
        orders: dict[Region, Sequence[Eqn | Pack]] = {}
        for region in walk_regions(func.body):
            inside = [packs[lanes] for lanes, place in search.found.items() if place is region]
            order = Order(region, inside) if inside else None
            if order is not None and order.blocked is not None:
                search.remove(order.blocked.eqns)
                break
            if order is not None:
                orders[region] = order.items
        else:
            return Packing(orders, search.carried_vectors())
    return Packing()


class Search:
    """The packs that a kernel can have, of which those that do not gain are taken away.

    Costs are instructions. A vector that neither a pack makes nor a loop carries takes a move per
    lane, and so does a lane that is needed alone.

    Attributes:
        found: The equations of every pack, with the region that they stand in.
    """

    def __init__(self, func: Func, register_bytes: int, cost: Mapping[Eqn, int]) -> None:
        self.register_bytes, self.cost = register_bytes, cost
        every = list(walk_eqns(func.body))
        regions = list(walk_regions(func.body))
        used = [a for eqn in every for a in eqn.inputs]
        self.used = Counter(used + [a for region in regions for a in region.yields])
        # They lie one behind the other in memory.
        self.popped = {eqn.out for eqn in every if eqn.op.kind is OpKind.POP}
        # What a loop carries: the loop, its place, and its value in the next iteration.
        self.carried: dict[Atom, tuple[Eqn, int, Atom]] = {}
        for eqn in every:
            if eqn.op.kind is OpKind.FOR:
                (body,) = eqn.regions
                pairs = zip(body.params[1:], body.yields, strict=True)
                self.carried.update((p, (eqn, at, y)) for at, (p, y) in enumerate(pairs))
        self.found: dict[Lanes, Region] = {}
        self.makers: dict[Atoms, Lanes] = {}
        # How often packs take a vector.
        self.takes: Counter[Atoms] = Counter()
        # By what a pack makes: vectors that a loop carries, which are that in its next iteration.
        self.carriers: dict[Atoms, list[Atoms]] = {}
        forms = Forms(func)
        for region in regions:
            for lanes in candidates(region, forms, register_bytes):
                self.found[lanes] = region
                self.makers[results(lanes)] = lanes
                self.takes.update(operands(lanes))
        for operand in self.takes:
            following = self._following(operand)
            if following in self.makers and operand not in self.makers:
                self.carriers.setdefault(following, []).append(operand)

    def keep_gaining(self) -> bool:
        """Take away packs that cost more moves between registers than they save instructions.

        Returns:
            Whether there are any left.
        """
        before = -1
        while len(self.found) != before:
            before = len(self.found)
            for lanes in list(self.found):
                if self._loss_without(lanes) <= 0:
                    self.remove(lanes)
            for group in self._groups():
                least = LEAST_SAVED * sum(len(lanes) * self._cost(lanes[0]) for lanes in group)
                if sum(map(self._gain, group)) < least:
                    for lanes in group:
                        self.remove(lanes)
        return before > 0

    def remove(self, lanes: Lanes) -> None:
        """Take one pack away."""
        del self.found[lanes]
        del self.makers[results(lanes)]
        self.takes.subtract(operands(lanes))

    def packs(self) -> Iterator[Pack]:
        """The packs that are left."""
        for lanes in self.found:
            yield Pack(lanes, frozenset(self._alone(results(lanes))))

    def carried_vectors(self) -> dict[Eqn, list[tuple[int, ...]]]:
        """Of loops the places of carried values that are a vector each."""
        places: dict[Eqn, list[tuple[int, ...]]] = {}
        for made in self.makers:
            for operand in self._carriers(made):
                known = [self.carried[a] for a in operand]
                places.setdefault(known[0][0], []).append(tuple(at for _, at, _ in known))
        return places

    def _groups(self) -> Iterator[list[Lanes]]:
        """The packs, those together that make vectors for each other."""
        group: dict[Lanes, list[Lanes]] = {}
        for lanes in self.found:
            group[lanes] = [lanes]
        for lanes in self.found:
            for operand in operands(lanes):
                maker = self._maker(operand)
                if maker is not None and group[maker] is not group[lanes]:
                    small, large = sorted((group[maker], group[lanes]), key=len)
                    large += small
                    group.update(dict.fromkeys(small, large))
        yield from {id(g): g for g in group.values()}.values()

    def _maker(self, operand: Atoms) -> Lanes | None:
        """The pack that makes ``operand``, in the iteration before if a loop carries that."""
        found = self.makers.get(operand)
        return found or self.makers.get(self._following(operand) or ())

    def _following(self, operand: Atoms) -> Atoms | None:
        """What ``operand``, which one loop carries, is in the next iteration; None of others."""
        known = [self.carried[a] for a in operand if a in self.carried]
        is_carried = len(set(operand)) == len(operand) == len(known)
        if not is_carried or len({loop for loop, _, _ in known}) > 1:
            return None
        return tuple(following for _, _, following in known)

    def _carriers(self, made: Atoms) -> list[Atoms]:
        return [o for o in self.carriers.get(made, ()) if self.takes[o] > 0]

    def _alone(self, made: Atoms, fewer: int = 0) -> list[Var]:
        """What is needed outside of vectors of ``made``, which ``fewer`` packs take than now."""
        as_vector = self.takes[made] - fewer + len(self._carriers(made))
        return [v for v in made if isinstance(v, Var) and self.used[v] > as_vector]

    def _saved(self, lanes: Lanes) -> int:
        """The instructions that ``lanes`` save as a vector, moves aside."""
        size_bytes = len(lanes) * element_bytes(lanes[0])
        return (len(lanes) - -(-size_bytes // self.register_bytes)) * self._cost(lanes[0])

    def _cost(self, eqn: Eqn) -> int:
        """What ``eqn`` costs alone."""
        return self.cost[eqn] if eqn.op.kind is OpKind.PURE else _COSTS[eqn.op.kind]

    def _loss_without(self, lanes: Lanes) -> int:
        """What it costs to compute the equations ``lanes`` alone."""
        made = results(lanes)
        vectors = (self.takes[made] > 0) + len(self._carriers(made))
        loss = self._saved(lanes) + vectors * len(lanes) - len(self._alone(made))
        for operand, times in Counter(operands(lanes)).items():
            maker = self._maker(operand)
            if maker is None:
                loss -= self._moves(operand) if self.takes[operand] == times else 0
            elif operand in self.makers:
                loss += len(self._alone(operand, times)) - len(self._alone(operand))
            else:
                loss += len(operand)
        return loss

    def _gain(self, lanes: Lanes) -> int:
        """What the pack ``lanes`` gains as long as all others are there."""
        taken = Counter(operands(lanes))
        moves = (self._moves(o) / self.takes[o] * n for o, n in taken.items())
        return self._saved(lanes) - len(self._alone(results(lanes))) - round(sum(moves))

    def _moves(self, operand: Atoms) -> int:
        """How many moves make a vector of ``operand``."""
        if self._maker(operand) is not None:
            return 0
        if all(isinstance(a, Const) or a in self.popped for a in operand):
            return 0
        return 1 if len(set(operand)) == 1 else len(operand)
