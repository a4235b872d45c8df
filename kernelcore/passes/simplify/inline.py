"""Inline: replace every call by the body of its callee."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.derivative_rules import rules_of
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import replace_body, substitute, walk_eqns

# Kinds of Eqns that hold other functions.
_WITH_FUNCTIONS = frozenset({OpKind.CALL, OpKind.GRAD, OpKind.CUSTOM})


def inline(func: Func) -> Func:
    """``func`` without calls; Vars of a callee are fresh at every call."""
    return _Inliner().func(func)


class _Inliner:
    def __init__(self) -> None:
        self.inlined: dict[Func, Func] = {}

    def func(self, func: Func) -> Func:
        if not any(e.op.kind in _WITH_FUNCTIONS for e in walk_eqns(func.body)):
            return func
        if func not in self.inlined:
            env: dict[Var, Atom] = {}
            eqns = self.code(func.body, env)
            yields = tuple(substitute(a, env) for a in func.body.yields)
            self.inlined[func] = replace_body(func, Region(func.params, eqns, yields))
        return self.inlined[func]

    def code(self, region: Region, env: dict[Var, Atom]) -> tuple[Eqn, ...]:
        """The Eqns of ``region`` without calls, with fresh outputs, which are added to ``env``."""
        eqns: list[Eqn] = []
        for eqn in region.eqns:
            inputs = tuple(substitute(a, env) for a in eqn.inputs)
            if eqn.op.kind is OpKind.CALL:
                callee: Func = eqn.attrs["callee"]
                inner: dict[Var, Atom] = dict(zip(callee.params, inputs, strict=True))
                eqns.extend(self.code(callee.body, inner))
                results = (substitute(a, inner) for a in callee.body.yields)
                env.update(zip(eqn.outputs, results, strict=True))
                continue
            regions = tuple(self.region(r, env) for r in eqn.regions)
            outputs = tuple(Var(v.type, v.name) for v in eqn.outputs)
            env.update(zip(eqn.outputs, outputs, strict=True))
            eqns.append(Eqn(eqn.op, inputs, outputs, self.attrs(eqn), regions, eqn.loc))
        return tuple(eqns)

    def region(self, region: Region, env: dict[Var, Atom]) -> Region:
        params = tuple(Var(v.type, v.name) for v in region.params)
        env.update(zip(region.params, params, strict=True))
        eqns = self.code(region, env)
        return Region(params, eqns, tuple(substitute(a, env) for a in region.yields))

    def attrs(self, eqn: Eqn) -> Mapping[str, Any]:
        """Those of ``eqn``; functions among them have no calls either."""
        match eqn.op.kind:
            case OpKind.GRAD:
                return {"callee": self.func(eqn.attrs["callee"])}
            case OpKind.CUSTOM:
                return {"rules": rules_of(eqn).map(self.func)}
            case _:
                return eqn.attrs
