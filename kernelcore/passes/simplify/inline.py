"""Inline: replace every call by the body of its callee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.derivative_rules import rules_of
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import clone_eqn, replace_body, substitute, walk_eqns


def inline(func: Func) -> Func:
    """``func`` without calls; Vars of a callee are fresh at every call."""
    return _Inliner().func(func)


# What an Eqn is that holds other functions.
_WITH_FUNCTIONS = frozenset({OpKind.CALL, OpKind.GRAD, OpKind.CUSTOM})


class _Inliner:
    def __init__(self) -> None:
        self.inlined: dict[Func, Func] = {}

    def func(self, func: Func) -> Func:
        if not any(e.op.kind in _WITH_FUNCTIONS for e in walk_eqns(func.body)):
            return func
        if func not in self.inlined:
            self.inlined[func] = replace_body(func, self.region(func.body, {}))
        return self.inlined[func]

    def region(self, region: Region, env: dict[Var, Atom]) -> Region:
        """``region`` with its calls replaced; ``env`` maps their results."""
        eqns: list[Eqn] = []
        for eqn in region.eqns:
            inputs = tuple(substitute(a, env) for a in eqn.inputs)
            if eqn.op.kind is OpKind.CALL:
                eqns.extend(self.call(eqn, inputs, env))
                continue
            regions = tuple(self.region(r, env) for r in eqn.regions)
            attrs = self.attrs(eqn)
            eqns.append(Eqn(eqn.op, inputs, eqn.outputs, attrs, regions, eqn.loc))
        return Region(region.params, tuple(eqns), tuple(substitute(a, env) for a in region.yields))

    def attrs(self, eqn: Eqn) -> Mapping[str, Any]:
        """Those of ``eqn``; functions among them have no calls either."""
        match eqn.op.kind:
            case OpKind.GRAD:
                return {"callee": self.func(eqn.attrs["callee"])}
            case OpKind.CUSTOM:
                return {"rules": rules_of(eqn).map(self.func)}
            case _:
                return eqn.attrs

    def call(self, eqn: Eqn, args: Sequence[Atom], env: dict[Var, Atom]) -> list[Eqn]:
        """The code of a call; its results are added to ``env``."""
        callee = self.func(eqn.attrs["callee"])
        inner: dict[Var, Atom] = dict(zip(callee.params, args, strict=True))
        eqns = [clone_eqn(e, inner) for e in callee.body.eqns]
        results = (substitute(a, inner) for a in callee.body.yields)
        env.update(zip(eqn.outputs, results, strict=True))
        return eqns
