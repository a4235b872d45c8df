"""Running minima and maxima: a loop that only carries one needs no record of its iterations.

The cotangent goes to the values that equal the final extremum, the last one first, until it comes
to the first one: what the loop carried before that was less. No other iteration takes part, and the
value that an iteration in between carried is the final one.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.arithmetic import max as max_builtin
from kernelcore.builtins.arithmetic import min as min_builtin
from kernelcore.builtins.logic import equal, greater, not_equal, where
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Const, Eqn, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import used_atoms, walk_eqns
from kernelcore.language.types import Scalar
from kernelcore.passes.autodiff.reverse import Reverse

_EXTREMA = (min_builtin.op, max_builtin.op)


@dataclass(frozen=True, slots=True)
class Attained:
    """Where a loop attained its extremum.

    Attributes:
        start: What it was at the start.
        final: The extremum.
        trips: How many iterations the loop had.
        first: The first iteration whose value equals the extremum, ``trips`` if there is none.
        last: The last such iteration, or -1.
    """

    start: Atom
    final: Atom
    trips: Atom
    first: Atom
    last: Atom

    def before(self, state: Reverse, iteration: Var) -> Atom:
        """What compares with the value of ``iteration`` as the extremum before it does."""
        is_later = state.builder.emit(not_equal.op, iteration, self.first)
        return state.builder.emit(where.op, is_later, self.final, self.start)

    def entering(self, state: Reverse, cotangent: Atom) -> Atom:
        """The cotangent of ``start``, where ``cotangent`` is what the iterations left."""
        emit = state.builder.emit
        assert isinstance(cotangent.type, Scalar)
        assert isinstance(self.trips.type, Scalar)
        # NaN is equal to nothing: then no iteration took part.
        nothing = zero(cotangent.type)
        ran = emit(greater.op, self.trips, zero(self.trips.type))
        left = emit(where.op, ran, nothing, cotangent)
        return emit(where.op, emit(equal.op, self.start, self.final), cotangent, left)


def attained(
    state: Reverse, loop: Eqn, trips: Atom, index: Callable[[Var], Atom]
) -> Attained | None:
    """Code that finds where ``loop`` attained its extremum; None for a loop that does more.

    Args:
        state: The reverse sweep, before the loop is reversed.
        loop: A loop.
        trips: How many iterations it had.
        index: Emits the loop index of an iteration.
    """
    value = _value(state, loop)
    if value is None:
        return None
    builder, body = state.builder, loop.regions[0]
    final, start = state.primal.value(loop.outputs[0]), state.primal.value(loop.inputs[3])
    dtype = trips.type
    assert isinstance(dtype, Scalar)
    iteration, first, last = (Var(dtype, name) for name in ("k", "first", "last"))
    none = Const(dtype, -1)
    found = state.primal.open(body)
    with builder.into(found.eqns):
        found.values[body.params[0]] = index(iteration)
        is_final = builder.emit(equal.op, state.primal.value(value), final)
        here, there = (
            builder.emit(where.op, is_final, iteration, nowhere) for nowhere in (trips, none)
        )
        yields = (
            builder.emit(min_builtin.op, first, here),
            builder.emit(max_builtin.op, last, there),
        )
    region = Region((iteration, first, last), tuple(found.eqns), yields)
    one = Const(dtype, 1)
    ends = builder.emit_for(zero(dtype), trips, one, (trips, none), region, ("first", "last"))
    return Attained(start, final, trips, *ends)


def _value(state: Reverse, loop: Eqn) -> Atom | None:
    """Of what ``loop`` makes the extremum, if that is all it does and can be done again."""
    if loop.op.kind is not OpKind.FOR or len(loop.outputs) != 1:
        return None
    (body,) = loop.regions
    _, carried = body.params
    users = [eqn for eqn in body.eqns if carried in used_atoms(eqn)]
    if len(users) != 1 or users[0].op not in _EXTREMA or body.yields != (users[0].out,):
        return None
    x, y = users[0].inputs
    others = [eqn for eqn in body.eqns if eqn is not users[0]]
    if x is y or any(users[0].out in used_atoms(eqn) for eqn in others):
        return None
    if not all(state.primal.repeats(e) for eqn in others for e in walk_eqns(Region((), (eqn,)))):
        return None
    return y if x is carried else x
