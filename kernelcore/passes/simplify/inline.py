"""Inline: replace every call by the body of its callee."""

from __future__ import annotations

from kernelcore.base.dataclass import replace
from kernelcore.ir.core import Eqn, Func, Region
from kernelcore.ir.derivative_rules import instantiate, rules_of
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import replace_body, rewrite, walk_eqns

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
            self.inlined[func] = replace_body(func, rewrite(func.body, self.eqn))
        return self.inlined[func]

    def eqn(self, eqn: Eqn) -> Eqn | Region:
        """The code of a call; of other Eqns that hold functions, these have no calls either."""
        match eqn.op.kind:
            case OpKind.CALL:
                return instantiate(self.func(eqn.attrs["callee"]), [(a,) for a in eqn.inputs])
            case OpKind.GRAD:
                return replace(eqn, attrs={"callee": self.func(eqn.attrs["callee"])})
            case OpKind.CUSTOM:
                return replace(eqn, attrs={"rules": rules_of(eqn).map(self.func)})
            case _:
                return eqn
