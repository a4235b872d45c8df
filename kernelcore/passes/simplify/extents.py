"""Extents of arrays that a derived kernel does not access otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from kernelcore.ir.core import Eqn, Func, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import replace_body, rewrite, walk_eqns


def with_extents_of_derivatives(func: Func, derivative_of: Mapping[int, int]) -> Func:
    """``func``, which asks derivatives for extents of arrays that it does not access otherwise.

    ``derivative_of`` maps parameters to those that hold their tangent or cotangent, which has the
    same shape. A caller need not keep an array for its extents then.
    """
    accessed = {
        atom
        for eqn in walk_eqns(func.body)
        if eqn.op.kind is not OpKind.DIM
        for atom in (*eqn.inputs, *(a for region in eqn.regions for a in region.yields))
    }
    alike: dict[object, Var] = {
        func.params[old]: func.params[new]
        for old, new in derivative_of.items()
        if func.params[old] not in accessed and func.params[new] in accessed
    }
    if not alike:
        return func

    def change(eqn: Eqn) -> Eqn:
        if eqn.op.kind is not OpKind.DIM or eqn.inputs[0] not in alike:
            return eqn
        return Eqn(eqn.op, (alike[eqn.inputs[0]],), eqn.outputs, eqn.attrs, (), eqn.loc)

    return replace_body(func, rewrite(func.body, change))
