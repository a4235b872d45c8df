"""Values that loops carry to collect terms in them: sums, minima and maxima."""

from __future__ import annotations

from collections import Counter

from kernelcore.builtins.arithmetic import add, fma, sub
from kernelcore.ir.core import Atom, Eqn, Region, Var
from kernelcore.ir.op import Op, OpKind
from kernelcore.ir.walk import LEADING, used_atoms


class CollectedValues:
    """What loops with one body collect terms in."""

    def __init__(self, body: Region) -> None:
        self._yields = Counter(body.yields)
        # An Eqn is in a list as often as it uses the value.
        self._users: dict[Atom, list[Eqn]] = {}
        self._inner: dict[Eqn, CollectedValues] = {}
        for eqn in body.eqns:
            for atom in used_atoms(eqn):
                self._users.setdefault(atom, []).append(eqn)

    def operation(self, param: Var, result: Atom) -> Op | None:
        """The operation by which the body makes ``result`` of ``param`` and terms.

        None if there is none, or several, or if anything else uses what the loop carries.
        """
        value, found = param, None
        while value is not result:
            users = self._users.get(value, [])
            if len(users) != 1 or value in self._yields:
                return None
            (eqn,) = users
            step = self._step(eqn, eqn.inputs.index(value)) if value in eqn.inputs else None
            if step is None or found not in (None, step[0]):
                return None
            found, value = step
        is_alone = self._yields[value] == 1 and value not in self._users
        return (found or add.op) if is_alone else None

    def _step(self, eqn: Eqn, at: int) -> tuple[Op, Var] | None:
        """The operation by which ``eqn`` collects terms in its input ``at``, and the result."""
        skipped, leading = LEADING[OpKind.FOR]
        if eqn.op.kind is OpKind.FOR and at >= skipped:
            (body,), slot = eqn.regions, at - skipped
            if eqn not in self._inner:
                self._inner[eqn] = CollectedValues(body)
            op = self._inner[eqn].operation(body.params[leading + slot], body.yields[slot])
            return None if op is None else (op, eqn.outputs[slot])
        if (eqn.op, at) in ((sub.op, 0), (fma.op, 2)):
            return add.op, eqn.out
        return None if eqn.op.neutral is None else (eqn.op, eqn.out)
