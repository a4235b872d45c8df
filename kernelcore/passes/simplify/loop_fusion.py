"""Loops that collect integers run in an earlier loop over the same range that reads the same array.

    for k in range(n):                          for k in range(n):
        s += g[i, k] * x[i, k]                      s += g[i, k] * x[i, k]
    for k in range(n):                becomes       last = max(last, k if x[i, k] == top else -1)
        last = max(last, k if x[i, k] == top else -1)

The adjoint of an extremum searches for it in a loop of its own. Loops that carry floats stay apart:
further derivatives know loops by what they do alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.base.dataclass import replace
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.op import FEW_TRIPS, REPEATABLE, WRITES, OpKind
from kernelcore.ir.snippet import has_effect
from kernelcore.ir.walk import captured_vars, clone_region, eqns_inside, replace_body
from kernelcore.language.types import Scalar
from kernelcore.passes.access.collected_values import CollectedValues

_ONLY_READS = REPEATABLE | {OpKind.LOAD, OpKind.IF}


def fuse_searches(func: Func) -> Func:
    """``func``, whose arrays share no memory, with the loops of its body that can be joined."""
    eqns = list(func.body.eqns)
    for loop in func.body.eqns:
        if not _is_search(loop):
            continue
        at = eqns.index(loop)
        host = _host(eqns[:at], loop)
        if host is not None:
            del eqns[at]
            eqns[host] = _joined(eqns[host], loop)
    if len(eqns) == len(func.body.eqns):
        return func
    return replace_body(func, replace(func.body, eqns=tuple(eqns)))


def _is_search(loop: Eqn) -> bool:
    """Whether ``loop`` only reads, and collects integers, for which the order is all the same."""
    if loop.op.kind is not OpKind.FOR or FEW_TRIPS in loop.attrs or not loop.outputs:
        return False
    carried = [v.type for v in loop.outputs]
    if any(not isinstance(t, Scalar) or t.is_float for t in carried):
        return False
    (body,) = loop.regions
    collected = CollectedValues(body)
    slots = zip(body.params[1:], body.yields, strict=True)
    if any(collected.operation(param, result) is None for param, result in slots):
        return False
    return all(eqn.op.kind in _ONLY_READS for eqn in eqns_inside(loop))


def _host(before: Sequence[Eqn], loop: Eqn) -> int | None:
    """Which of the Eqns ``before`` the ``loop`` is the first loop that it can be joined to."""
    host = None
    needed: set[Atom] = {*loop.inputs, *captured_vars(loop)}
    loaded = _loaded(loop)
    for at in reversed(range(len(before))):
        eqn = before[at]
        if not needed.isdisjoint(eqn.outputs) or not loaded.isdisjoint(_written(eqn)):
            break
        if (
            eqn.op.kind is OpKind.FOR
            and eqn.inputs[:3] == loop.inputs[:3]
            and FEW_TRIPS not in eqn.attrs
            and not loaded.isdisjoint(_loaded(eqn))
        ):
            host = at
    return host


def _loaded(loop: Eqn) -> set[Atom]:
    return {eqn.inputs[0] for eqn in eqns_inside(loop) if eqn.op.kind is OpKind.LOAD}


def _written(eqn: Eqn) -> set[Atom]:
    """The arrays that ``eqn`` may write."""
    found: set[Atom] = set()
    for part in (eqn, *eqns_inside(eqn)):
        if part.op.kind in WRITES:
            found.add(part.inputs[0])
        elif part.op.kind is OpKind.SNIPPET and has_effect(part):
            found.update(part.inputs)
    return found


def _joined(host: Eqn, loop: Eqn) -> Eqn:
    (body,), (other,) = host.regions, loop.regions
    carried = [Var(p.type, p.name) for p in other.params[1:]]
    places = (body.params[0], *carried)
    env: dict[Var, Atom] = dict(zip(other.params, places, strict=True))
    inner = clone_region(Region((), other.eqns, other.yields), env)
    region = Region(
        (*body.params, *carried), (*body.eqns, *inner.eqns), (*body.yields, *inner.yields)
    )
    inputs = (*host.inputs, *loop.inputs[3:])
    return replace(host, inputs=inputs, outputs=(*host.outputs, *loop.outputs), regions=(region,))
