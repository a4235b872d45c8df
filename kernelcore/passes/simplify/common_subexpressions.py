"""Common subexpression elimination for derived kernels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kernelcore.base.dataclass import replace
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import REPEATABLE, WRITES, OpKind
from kernelcore.ir.walk import replace_body, substitute
from kernelcore.passes.access.effects import AccessMap


def merge_equal(func: Func) -> Func:
    """``func`` without Eqns whose value an Eqn before them, in the same or an outer region, has.

    Its arrays must not share memory, since an array that it never writes is taken for constant.
    """
    return replace_body(func, _Merge(AccessMap(func)).region(func.body, {}))


class _Merge:
    """The values computed so far, in program order."""

    def __init__(self, accesses: AccessMap) -> None:
        self.accesses = accesses
        self.env: dict[Var, Atom] = {}

    def region(self, region: Region, outer: dict[Hashable, Var]) -> Region:
        known = dict(outer)
        eqns: list[Eqn] = []
        for eqn in region.eqns:
            inputs = tuple(substitute(a, self.env) for a in eqn.inputs)
            if self._repeats(eqn):
                key = value_key(eqn, inputs)
                if key in known:
                    self.env[eqn.out] = known[key]
                    continue
                known[key] = eqn.out
            regions = tuple(self.region(r, known) for r in eqn.regions)
            eqns.append(replace(eqn, inputs=inputs, regions=regions))
        yields = tuple(substitute(a, self.env) for a in region.yields)
        return Region(region.params, tuple(eqns), yields)

    def _repeats(self, eqn: Eqn) -> bool:
        if eqn.op.kind is OpKind.LOAD:
            return not self.accesses.has(eqn.inputs[0], *WRITES)
        return eqn.op.kind in REPEATABLE


def value_key(eqn: Eqn, inputs: Sequence[Hashable]) -> Hashable:
    """What Eqns of one value have in common; ``inputs`` stand for those of ``eqn``."""
    # Constants as text, since 0.0 and -0.0, or 1 and True, are equal to Python.
    atoms = tuple((a.type, repr(a.value)) if isinstance(a, Const) else a for a in inputs)
    return (eqn.op, eqn.out.type, tuple(sorted(eqn.attrs.items(), key=str)), atoms)
