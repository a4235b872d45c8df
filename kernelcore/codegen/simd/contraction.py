"""One rounding for a product and the sum it is added to or subtracted from.

So it is in loops of kernels whose rows run together in tiles, at least in launches of many rows.

Rows of a tile share what they load, so that arithmetic decides how long such loops take. ``total +=
a[i, k] * b[k, j]`` is one instruction then in place of two (docs/decisions/294).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from kernelcore.base import native
from kernelcore.base.dataclass import replace
from kernelcore.builtins.arithmetic import add, fma, mul, neg, sub
from kernelcore.codegen.analysis.small_rows import rows_as_elements
from kernelcore.codegen.analysis.uniformity import Strides, lane_strides, stride_of
from kernelcore.codegen.simd.cost_model import best_gang, best_tile
from kernelcore.codegen.simd.gang_work import innermost_loops
from kernelcore.codegen.simd.strategy import FLOAT_LANES_OF_SUMS, has_vector_form
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import LEADING, replace_body, used_atoms, walk_eqns
from kernelcore.language.types import float32, float64
from kernelcore.passes.access.accumulation_plan import plan_accumulations


def contract_sums(func: Func) -> Func:
    """``func`` with ``fma`` where loops of tiles add products to what they carry, or subtract them.

    Bits must not depend on how a kernel runs. So what ``func`` computes decides alone, neither its
    plan nor whether its small rows are elements, on processors that have the instruction.
    """
    if func.rank < 2 or func.keeps_bits or not native.has_fma:
        return func
    sums: dict[Eqn, Eqn] = {}
    for loop in innermost_loops(list(walk_eqns(func.body))):
        if loop.op.kind is OpKind.FOR:
            sums.update(_sums_of_products(loop))
    if not sums or not _has_tiles(func):
        return func
    return replace_body(func, _contracted(func.body, sums, lane_strides(func)))


def _has_tiles(func: Func) -> bool:
    """Whether rows of ``func`` run together, at least in launches of many rows."""
    func = rows_as_elements(plan_accumulations(func))
    if not has_vector_form(func):
        return False
    gang = best_gang(func, FLOAT_LANES_OF_SUMS)
    return gang > 1 and best_tile(func, gang, FLOAT_LANES_OF_SUMS)[0] > 1


def _sums_of_products(loop: Eqn) -> Iterator[tuple[Eqn, Eqn]]:
    """Sums and differences of what ``loop`` carries and a product, each with its product.

    Nothing else in the loop uses the product, which would be computed all the same, or what is
    carried, so that these are sums.
    """
    (body,) = loop.regions
    carried = body.params[LEADING[OpKind.FOR][1] :]
    uses = Counter(atom for eqn in body.eqns for atom in used_atoms(eqn))
    uses.update(body.yields)
    made: dict[Atom, Eqn] = {e.out: e for e in body.eqns if len(e.outputs) == 1}
    for total, result in zip(carried, body.yields, strict=True):
        eqn = made.get(result)
        if eqn is None or eqn.op not in (add.op, sub.op) or uses[total] != 1:
            continue
        if total.type not in (float32, float64):
            continue
        first, second = eqn.inputs
        term = second if first is total else first
        is_sum = first is total or (second is total and eqn.op is add.op)
        product = made.get(term)
        if is_sum and product is not None and product.op is mul.op and uses[term] == 1:
            yield eqn, product


def _contracted(region: Region, sums: Mapping[Eqn, Eqn], strides: Strides) -> Region:
    products = set(sums.values())
    eqns: list[Eqn] = []
    for eqn in region.eqns:
        if eqn in products:
            continue
        if eqn in sums:
            product = sums[eqn]
            x, y = product.inputs
            (total,) = (a for a in eqn.inputs if a is not product.out)
            if eqn.op is sub.op:
                # LLVM has one instruction for it where the negated factor varies among lanes.
                x, y = (y, x) if stride_of(strides, x) == 0 else (x, y)
                negated = Eqn(neg.op, (x,), (Var(eqn.out.type),), loc=product.loc)
                eqns.append(negated)
                x = negated.out
            eqns.append(Eqn(fma.op, (x, y, total), eqn.outputs, loc=eqn.loc))
        else:
            regions = tuple(_contracted(inner, sums, strides) for inner in eqn.regions)
            eqns.append(replace(eqn, regions=regions) if regions else eqn)
    return replace(region, eqns=tuple(eqns))
