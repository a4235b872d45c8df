"""Inline: replace every call by the body of its callee."""

from __future__ import annotations

from dataclasses import replace

from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.derivative_rules import rules_of
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import clone_eqn, replace_body, rewrite, substitute, walk_eqns


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
            self.inlined[func] = replace_body(func, rewrite(func.body, self.eqn))
        return self.inlined[func]

    def eqn(self, eqn: Eqn) -> Eqn | Region:
        """The code of a call; other Eqns hold functions without calls."""
        match eqn.op.kind:
            case OpKind.CALL:
                callee = self.func(eqn.attrs["callee"])
                env: dict[Var, Atom] = dict(zip(callee.params, eqn.inputs, strict=True))
                eqns = tuple(clone_eqn(e, env) for e in callee.body.eqns)
                return Region((), eqns, tuple(substitute(a, env) for a in callee.body.yields))
            case OpKind.GRAD:
                return replace(eqn, attrs={"callee": self.func(eqn.attrs["callee"])})
            case OpKind.CUSTOM:
                return replace(eqn, attrs={"rules": rules_of(eqn).map(self.func)})
            case _:
                return eqn
