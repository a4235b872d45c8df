"""Derived kernels: what forward and reverse mode make of a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.ir.core import Eqn, Func, Region, Var


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived kernel: the parameters of the primal, then tangents or cotangents of some of them.

    ``derivative_of[i]`` is the index, among the parameters of ``func``, of the tangent (JVP) or
    cotangent (VJP) of primal parameter ``i``.
    """

    func: Func
    derivative_of: dict[int, int]


def make_derived(
    func: Func, suffix: str, derivatives: Mapping[Var, Var], eqns: Sequence[Eqn]
) -> Derived:
    """The kernel of ``eqns``, with the parameters of ``func`` and their ``derivatives``."""
    sources = [i for i, p in enumerate(func.params) if p in derivatives]
    params = (*func.params, *(derivatives[func.params[i]] for i in sources))
    locs = tuple(func.param_loc(i) for i in (*range(len(func.params)), *sources))
    body = Region(params, tuple(eqns))
    out = replace(func, name=f"{func.name}_{suffix}", body=body, param_locs=locs)
    return Derived(out, {i: len(func.params) + n for n, i in enumerate(sources)})
