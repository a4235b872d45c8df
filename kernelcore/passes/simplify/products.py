"""Sums of products: a loop that adds products of elements rounds each step once, by ``fma``.

    for k in range(n):
        total += a[i, k] * b[k, j]        becomes  total = fma(a[i, k], b[k, j], total)

So do the libraries for products of matrices. The elements are those that launch indices and loops
name: a loop over neighbours, whose indices are loaded, keeps both roundings, since its terms may be
computed apart from its sum (``codegen/simd/ordered_sums.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kernelcore.base.dataclass import replace
from kernelcore.builtins.arithmetic import add, fma, mul
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import REPEATABLE, OpKind
from kernelcore.ir.walk import element_indices, replace_body, walk_eqns
from kernelcore.language.types import float32, float64


def fuse_products(func: Func) -> Func:
    """``func`` with one rounding for a product of elements and the sum of a loop."""
    if not any(eqn.op.kind is OpKind.FOR for eqn in func.body.eqns):
        return func
    return replace_body(func, _region(func.body, _places(func), ()))


def _places(func: Func) -> set[Atom]:
    """Values that are made of launch indices, indices of loops and arguments alone."""
    found: set[Atom] = set(func.params)
    for eqn in walk_eqns(func.body):
        if eqn.op.kind is OpKind.FOR:
            found.add(eqn.regions[0].params[0])
        elif eqn.op.kind in REPEATABLE and all(_is_place(a, found) for a in eqn.inputs):
            found.update(eqn.outputs)
    return found


def _is_place(atom: Atom, places: Collection[Atom]) -> bool:
    return isinstance(atom, Const) or atom in places


def _region(region: Region, places: Collection[Atom], sums: Collection[Var]) -> Region:
    """``region``; ``sums`` is what the loop around carries."""
    makers = {eqn.outputs[0]: eqn for eqn in region.eqns if len(eqn.outputs) == 1}
    eqns = tuple(_eqn(eqn, makers, places, sums) for eqn in region.eqns)
    return Region(region.params, eqns, region.yields)


def _eqn(
    eqn: Eqn, makers: Mapping[Atom, Eqn], places: Collection[Atom], sums: Collection[Var]
) -> Eqn:
    if eqn.regions:
        carried = [r.params[1:] if eqn.op.kind is OpKind.FOR else () for r in eqn.regions]
        regions = zip(eqn.regions, carried, strict=True)
        return replace(eqn, regions=tuple(_region(r, places, c) for r, c in regions))
    if eqn.op is not add.op or eqn.out.type not in (float32, float64):
        return eqn
    for total, term in (eqn.inputs, eqn.inputs[::-1]):
        product = makers.get(term)
        if total in sums and product is not None and product.op is mul.op:
            if all(_is_element(makers.get(a), places) for a in product.inputs):
                return Eqn(fma.op, (*product.inputs, total), eqn.outputs, loc=eqn.loc)
    return eqn


def _is_element(eqn: Eqn | None, places: Collection[Atom]) -> bool:
    if eqn is None or eqn.op.kind is not OpKind.LOAD:
        return False
    return all(_is_place(i, places) for i in element_indices(eqn))
