"""Kernels whose threads may run once more if they store nothing then."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.ir.core import Atom, Const, Eqn, Func
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns

_WITHOUT_EFFECT = frozenset({OpKind.PURE, OpKind.CAST, OpKind.TID, OpKind.DIM})


def may_load_again(func: Func) -> bool:
    """Whether threads of a gang of ``func`` may run once more, but for their stores.

    What they load lies where it did: no index, branch or loop depends on an element of their own,
    which they may have changed, under another name too. They store outside of loops.
    """
    strides, outside = lane_strides(func), frozenset(func.body.eqns)

    def is_known(atoms: Sequence[Atom]) -> bool:
        return all(isinstance(a, Const) or strides[a] is not None for a in atoms)

    def is_harmless(eqn: Eqn) -> bool:
        match eqn.op.kind:
            case OpKind.LOAD:
                return is_known(eqn.inputs[1:])
            case OpKind.FOR:
                return is_known(eqn.inputs[:3])
            case OpKind.STORE:
                return eqn in outside
            case kind:
                return kind in _WITHOUT_EFFECT

    return all(map(is_harmless, walk_eqns(func.body)))
