"""Dead code elimination: keep what effects depend on, drop dead slots of loops and branches."""

from __future__ import annotations

from collections.abc import Collection

from kernelcore.base.dataclass import replace
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.op import MESSAGES, READS, WRITES, OpKind
from kernelcore.ir.snippet import array_uses
from kernelcore.ir.walk import (
    LEADING,
    atoms_in,
    is_check,
    keep_slots,
    replace_body,
    rewrite,
    slot,
    walk_eqns,
    without,
)


def dce(func: Func, observed: Collection[Atom] | None = None) -> Func:
    """Drop Eqns, carried values and stacks on which no store, message or result depends.

    A loop without effect is dropped even if it would not end. ``observed`` are the arrays that are
    looked at after the kernel, all by default: stores to others count only if a load may see them.
    """
    liveness = _Liveness(func, observed)
    return replace_body(func, liveness.prune(func.body))


def without_checks(func: Func) -> Func:
    """``func`` without the checks that settings asked for, and without what only these use."""
    if not any(is_check(eqn) for eqn in walk_eqns(func.body)):
        return func
    body = rewrite(func.body, lambda eqn: without(eqn) if is_check(eqn) else eqn)
    return dce(replace_body(func, body))


def drop_unused_params(func: Func, keep: Collection[int] = ()) -> tuple[Func, tuple[int, ...]]:
    """``func`` without parameters that its body never uses, and the indices of those kept.

    Parameters in ``keep`` stay.
    """
    used = atoms_in(func.body)
    kept = tuple(i for i, p in enumerate(func.params) if p in used or i in keep)
    body = Region(tuple(func.params[i] for i in kept), func.body.eqns, func.body.yields)
    locs = tuple(func.param_loc(i) for i in kept)
    return replace(func, body=body, param_locs=locs), kept


class _Liveness:
    """Marks live Vars and Eqns from the roots backwards."""

    def __init__(self, func: Func, observed: Collection[Atom] | None) -> None:
        self.parent: dict[Eqn, Eqn | None] = {}
        self.maker: dict[Var, tuple[Eqn, int]] = {}
        self.holder: dict[Var, tuple[Eqn, int]] = {}
        self.stack_uses: dict[Atom, list[Eqn]] = {}
        self.private_writes: dict[Atom, list[Eqn]] = {}
        self.live_vars: set[Var] = set()
        self.live_eqns: set[Eqn] = set()
        self.work: list[Var | Eqn] = []
        self.index(func.body, None)
        self.work.extend(a for a in func.body.yields if isinstance(a, Var))
        for eqn in walk_eqns(func.body):
            if eqn.op.kind in MESSAGES:
                self.work.append(eqn)
            elif eqn.op.kind is OpKind.SNIPPET:
                self.index_native(eqn, observed)
            elif eqn.op.kind in WRITES:
                if observed is None or eqn.inputs[0] in observed:
                    self.work.append(eqn)
                else:
                    self.private_writes.setdefault(eqn.inputs[0], []).append(eqn)
        while self.work:
            item = self.work.pop()
            if isinstance(item, Var):
                self.mark_var(item)
            else:
                self.mark_eqn(item)

    def index(self, region: Region, parent: Eqn | None) -> None:
        for eqn in region.eqns:
            self.parent[eqn] = parent
            self.maker.update((v, (eqn, i)) for i, v in enumerate(eqn.outputs))
            if eqn.op.kind in (OpKind.PUSH, OpKind.POP):
                self.stack_uses.setdefault(eqn.inputs[0], []).append(eqn)
            for inner in eqn.regions:
                self.holder.update((v, (eqn, i)) for i, v in enumerate(inner.params))
                self.index(inner, eqn)

    def index_native(self, eqn: Eqn, observed: Collection[Atom] | None) -> None:
        written = [u.array for u in array_uses(eqn) if u.writes]
        is_seen = any(observed is None or a in observed for a in written)
        if is_seen or not (written or eqn.outputs):
            self.work.append(eqn)
        for array in written:
            self.private_writes.setdefault(array, []).append(eqn)

    def need(self, *atoms: Atom) -> None:
        self.work.extend(a for a in atoms if isinstance(a, Var))

    def mark_var(self, var: Var) -> None:
        if var in self.live_vars:
            return
        self.live_vars.add(var)
        # Pushes and pops pair up, so a live stack keeps all of them.
        self.work.extend(self.stack_uses.get(var, ()))
        if var in self.maker:
            eqn, index = self.maker[var]
            self.work.append(eqn)
            if eqn.op.kind in LEADING:
                self.need(*slot(eqn, index)[1])
        elif var in self.holder:
            eqn, position = self.holder[var]
            self.work.append(eqn)
            index = position - LEADING[eqn.op.kind][1]
            if index >= 0:
                self.need(*slot(eqn, index)[1])

    def mark_eqn(self, eqn: Eqn) -> None:
        if eqn in self.live_eqns:
            return
        self.live_eqns.add(eqn)
        parent = self.parent[eqn]
        if parent is not None:
            self.work.append(parent)
        match eqn.op.kind:
            case OpKind.IF:
                self.need(eqn.inputs[0])
            case OpKind.CUSTOM:
                # Its rules take all arguments and give all results.
                self.need(*eqn.inputs, *eqn.regions[0].yields)
            case OpKind.FOR:
                self.need(*eqn.inputs[:3])
            case OpKind.WHILE:
                self.need(*eqn.regions[0].yields)
            case OpKind.SNIPPET:
                for use in (u for u in array_uses(eqn) if u.loads):
                    self.work.extend(self.private_writes.get(use.array, ()))
                self.need(*eqn.inputs)
            case _:
                if eqn.op.kind in READS or eqn.op.kind is OpKind.ATOMIC_ADD:
                    self.work.extend(self.private_writes.get(eqn.inputs[0], ()))
                self.need(*eqn.inputs)

    def prune(self, region: Region) -> Region:
        eqns = tuple(self.prune_eqn(e) for e in region.eqns if e in self.live_eqns)
        return Region(region.params, eqns, region.yields)

    def prune_eqn(self, eqn: Eqn) -> Eqn:
        if not eqn.regions:
            return eqn
        eqn = replace(eqn, regions=tuple(self.prune(r) for r in eqn.regions))
        if eqn.op.kind is OpKind.CUSTOM:
            return eqn
        indices = range(len(eqn.outputs))
        return keep_slots(
            eqn, [i for i in indices if any(v in self.live_vars for v in slot(eqn, i)[0])]
        )
