"""Checks of what a kernel writes: every float that it stores or adds has to be finite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from kernelcore.base.errors import FLOAT_PLACE, INTEGER_PLACE
from kernelcore.builtins.arithmetic import add
from kernelcore.builtins.logic import equal, isfinite, isnan, logical_and, logical_not, logical_or
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ASSERT, CAST, TID, WRITES, OpKind
from kernelcore.ir.walk import array_type, atoms_in, element_indices, replace_body, rewrite
from kernelcore.language.types import float64, int64
from kernelcore.passes.access.accumulation_plan import is_accumulated
from kernelcore.passes.access.effects import AccessMap

# How the names of derived kernels end, and those of their arrays of derivatives begin.
_DERIVATIVES = {"vjp": ("ct_", "the gradient of "), "jvp": ("t_", "the tangent of ")}


def check_finite(func: Func) -> Func:
    """``func`` with an ASSERT per write of a float.

    It comes before a store, and before an addition for what is added. What an addition or another
    atomic leaves in the element is known after it. The sum of an accumulated array is not known to
    the threads that add to it. Native snippets are left alone: what they write is C++.
    """
    return _Checks(func).run()


class _Checks:
    def __init__(self, func: Func) -> None:
        self.func = func
        self.builder = Builder()
        derivations = [word for word in func.name.split("_") if word in _DERIVATIVES]
        self.names = _of_derivatives((p.name for p in func.params), derivations)
        accesses, used = AccessMap(func), atoms_in(func.body)
        # The old element of an addition to these would cost them their partial sums.
        self.summed = {
            array
            for array in accesses.by_array
            if isinstance(array, Var)
            and is_accumulated(accesses, array, used)
            and not accesses.owned(array)
        }

    def run(self) -> Func:
        return replace_body(self.func, rewrite(self.func.body, self.visit))

    def visit(self, eqn: Eqn) -> Eqn | Region:
        if eqn.op.kind not in WRITES or not array_type(eqn).dtype.is_float:
            return eqn
        builder, value = self.builder, eqn.inputs[-1]
        builder.loc = eqn.loc
        with builder.region() as eqns:
            match eqn.op.kind:
                case OpKind.ATOMIC_ADD:
                    self.expect_finite(eqn, "adds", value)
                    builder.append(eqn)
                    if eqn.inputs[0] not in self.summed:
                        total = builder.emit(add.op, eqn.out, value)
                        self.expect_finite(eqn, "adds", value, total)
                case OpKind.ATOMIC if eqn.attrs["update"] is not None:
                    builder.append(eqn)
                    new = builder.emit(eqn.attrs["update"], eqn.out, value)
                    self.expect_finite(eqn, "stores", new)
                case OpKind.ATOMIC_CAS:
                    builder.append(eqn)
                    self.expect(eqn, "stores", self.is_swap_finite(eqn), value)
                case _:
                    self.expect_finite(eqn, "stores", value)
                    builder.append(eqn)
        return Region((), tuple(eqns), eqn.outputs)

    def is_swap_finite(self, eqn: Eqn) -> Atom:
        """Whether a compare-and-swap, if it writes, writes what is finite."""
        emit, old, (expected, new) = self.builder.emit, eqn.out, eqn.inputs[-2:]
        both_nan = emit(logical_and.op, emit(isnan.op, old), emit(isnan.op, expected))
        swaps = emit(logical_or.op, emit(equal.op, old, expected), both_nan)
        return emit(logical_or.op, emit(isfinite.op, new), emit(logical_not.op, swaps))

    def expect_finite(self, eqn: Eqn, does: str, *values: Atom) -> None:
        """Check the last one of ``values``, what ``eqn`` is given and what it leaves there."""
        found = values[-1]
        if not isinstance(found, Const) or not math.isfinite(found.value):
            self.expect(eqn, does, self.builder.emit(isfinite.op, found), *values)

    def expect(self, eqn: Eqn, does: str, holds: Atom, *values: Atom) -> None:
        """The ASSERT that ``holds``; its text shows ``values``, one or two."""
        emit = self.builder.emit
        point = [emit(TID, axis=axis) for axis in range(self.func.grid_rank)]
        integers = [emit(CAST, a, dtype=int64) for a in (*point, *element_indices(eqn))]
        floats = [emit(CAST, a, dtype=float64) for a in values]
        thread, rest = integers[: len(point)], integers[len(point) :]
        numbers = [*thread, floats[0], *rest, *floats[1:]]
        text = self.text(eqn, does, shows_result=len(floats) > 1)
        self.builder.emit_effect(ASSERT, holds, *numbers, text=text, check="finite")

    def text(self, eqn: Eqn, does: str, *, shows_result: bool) -> str:
        """The message, with places for the thread, the value, the element and the result."""
        rank = self.func.grid_rank
        point = ", ".join([INTEGER_PLACE] * rank)
        thread = f"thread ({point})" if rank > 1 else f"thread {point}" if rank else "a thread"
        result = f", which makes {FLOAT_PLACE}" if shows_result else ""
        element = _element(eqn, self.names)
        return f"{self.func.name}(): {thread} {does} {FLOAT_PLACE} to {element}{result}"


def _element(eqn: Eqn, names: Mapping[str, str]) -> str:
    """The element that ``eqn`` writes, with places for its indices."""
    array, type_ = eqn.inputs[0], array_type(eqn)
    name = array.name if isinstance(array, Var) else ""
    groups = [[INTEGER_PLACE] * n for n in (type_.outer_ndim, len(type_.components)) if n]
    return (names.get(name, name) or "an array") + "".join(f"[{', '.join(g)}]" for g in groups)


def _of_derivatives(names: Iterable[str], derivations: Sequence[str]) -> dict[str, str]:
    """What the parameters ``names`` of a kernel are that ``derivations`` made, one after another.

    The gradient of a tangent of ``x`` is a gradient of ``x``.
    """
    known = {*names}
    found: dict[str, str] = {}
    for name in known:
        text, given, rest = "", "", name
        for kind in reversed(derivations):
            prefix, what = _DERIVATIVES[kind]
            # An array of the primal has a derivative of its own, whatever its name.
            if rest.startswith(prefix) and given + prefix + rest not in known:
                text, given, rest = text + what, given + prefix, rest.removeprefix(prefix)
        found[name] = text.replace("gradient of the tangent", "gradient") + rest
    return found
