"""The launch axis along which the lanes of a gang lie: the last one, or a longer one.

    i, k = kc.tid()
    for b in range(n):
        r += w[k, b] * x[i, b]        # and v[k, b], u[k, b], ...

Lanes along the last axis share ``x[i, b]``, and each has its own rows of ``w``, ``v``, ``u``.
Along axis 0 they share these, and all ``i`` use the same rows for one ``k`` after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.codegen.analysis.row_blocks import blocked_loops
from kernelcore.codegen.analysis.uniformity import Strides, lane_strides, stride_of
from kernelcore.codegen.simd.bodies import joins_rows
from kernelcore.codegen.simd.cost_model import MAX_EQNS_OF_WIDE_VALUES, obstacle_to_gangs
from kernelcore.codegen.simd.gang_work import (
    body_of,
    innermost_loops,
    is_dense,
    moving_axes,
)
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import ACCESSES, ATOMICS, WRITES, AddForm, OpKind
from kernelcore.ir.walk import array_type, element_indices, replace_body, rewrite, walk_eqns
from kernelcore.passes.access.accumulation_plan import form_of
from kernelcore.passes.access.effects import AccessMap
from kernelcore.passes.access.repeated_loads import repeated_loads

# Costs of an access of a gang: of an element that all lanes share, of adjacent ones, and of others.
# An addition reads and writes what other threads may add to, and lanes that add to one element add
# themselves up first.
_SHARED, _ADJACENT, _APART = 1, 2, 4
_PER_ADDITION = 2
# Another axis has to save this part of the costs.
_LEAST_SAVED = 0.2
# Gangs along an axis of at most this many points have idle lanes: another axis gains although it
# saves less.
_MOST_POINTS_OF_SHORT_ROWS = 12
# It may even cost this part more.
_MOST_LOST = 0.25
# Where rows are transposed once for many rows of the grid, another axis gains only if the last one
# has at most this many points.
_MOST_POINTS_BESIDE_PANELS = 4
# What happens in the order of threads.
_ORDERED = ATOMICS | {OpKind.SNIPPET, OpKind.PRINT, OpKind.ASSERT}


@dataclass(frozen=True, slots=True)
class OtherAxis:
    """The kernel with its lanes along another axis, for launches that are longer on this axis.

    Attributes:
        axis: The launch axis.
        func: The kernel; ``axis`` is the last one of its launch axes, behind the others.
        most_points: Launches with more points along the last axis keep their lanes along that; 0
            for no limit.
    """

    axis: int
    func: Func
    most_points: int = 0

    @property
    def axes(self) -> tuple[int, ...]:
        """The launch axes in the order in which ``func`` has them."""
        return _ordered(self.func.rank, self.axis)

    def is_taken(self, shape: Sequence[int]) -> bool:
        """Whether launches over a grid of that shape have their lanes along ``axis``."""
        is_short = not self.most_points or shape[-1] <= self.most_points
        return is_short and shape[self.axis] > shape[-1]


def other_axis(func: Func) -> OtherAxis | None:
    """The kernel along the axis that suits lanes better than the last one; None if that does.

    It decides the order in which threads add to an element, so it depends on ``func`` alone.
    """
    eqns = list(walk_eqns(func.body))
    if func.rank < 2 or len(eqns) > MAX_EQNS_OF_WIDE_VALUES:
        return None
    best = min(other_axes(func), key=lambda other: _cost(other.func), default=None)
    if best is None:
        return None
    saves = bool(innermost_loops(eqns)) and suits_lanes_better(best.func, func)
    if not saves and not _suits_idle_lanes(best.func, func):
        return None
    most_points = 0 if saves else _MOST_POINTS_OF_SHORT_ROWS
    if any(loop.has_panels for loop in blocked_loops(func, lane_strides(func)).values()):
        most_points = _MOST_POINTS_BESIDE_PANELS
    return replace(best, most_points=most_points)


def _suits_idle_lanes(candidate: Func, current: Func) -> bool:
    """Whether ``candidate`` is worth choosing where gangs of ``current`` are not full."""
    if adds_to_rows(current):
        return True
    is_cheap = _cost(candidate) <= (1 + _MOST_LOST) * _cost(current)
    return is_cheap and not joins_rows(current) and obstacle_to_gangs(candidate) is None


def suits_lanes_better(candidate: Func, current: Func) -> bool:
    """Whether gangs of ``candidate``, of the same work, are worth choosing over ``current``'s."""
    return (
        _cost(candidate) <= (1 - _LEAST_SAVED) * _cost(current)
        and obstacle_to_gangs(candidate) is None
    )


def adds_to_rows(func: Func) -> bool:
    """Whether lanes of a gang add to elements of different rows, which takes them long."""
    strides = lane_strides(func)
    for eqn in filter(is_shared_sum, walk_eqns(func.body)):
        moving = moving_axes(eqn, strides)
        if moving and not is_dense(eqn, moving, strides):
            return True
    return False


def is_shared_sum(eqn: Eqn) -> bool:
    """Whether ``eqn`` adds to what several threads share."""
    return eqn.op.kind is OpKind.ATOMIC_ADD and form_of(eqn) is AddForm.SHARED


def other_axes(func: Func) -> list[OtherAxis]:
    """The kernel along every other axis than the last one, if its threads may have any order."""
    eqns = list(walk_eqns(func.body))
    if any(e.op.kind in _ORDERED for e in eqns) or not _is_any_order(func, eqns):
        return []
    return [OtherAxis(axis, _along(func, axis)) for axis in reversed(range(func.rank - 1))]


def _is_any_order(func: Func, eqns: list[Eqn]) -> bool:
    """Whether threads write elements of their own, or add to what no thread reads."""
    accesses = AccessMap(func)
    for eqn in eqns:
        if eqn.op.kind not in WRITES or accesses.owned(eqn.inputs[0]):
            continue
        if eqn.op.kind is not OpKind.ATOMIC_ADD or form_of(eqn) is AddForm.ATOMIC:
            return False
    return True


def _along(func: Func, axis: int) -> Func:
    """``func`` with its launch axes in another order: ``axis`` is the last one."""
    place = {old: new for new, old in enumerate(_ordered(func.rank, axis))}

    def renumbered(eqn: Eqn) -> Eqn:
        if eqn.op.kind is not OpKind.TID:
            return eqn
        return replace(eqn, attrs={**eqn.attrs, "axis": place[eqn.attrs["axis"]]})

    return replace_body(func, rewrite(func.body, renumbered))


def _ordered(rank: int, last: int) -> tuple[int, ...]:
    return (*(axis for axis in range(rank) if axis != last), last)


def _cost(func: Func) -> float:
    """What the accesses of ``func`` cost a gang: per iteration of the innermost loops, if any."""
    strides = lane_strides(func)
    eqns = list(walk_eqns(func.body))
    bodies = [_once_each(loop) for loop in innermost_loops(eqns)]
    return sum(cost for body in bodies or [eqns] for cost in _costs(body, strides))


def _once_each(loop: Eqn) -> list[Eqn]:
    """What each iteration of ``loop`` does anew."""
    if loop.op.kind is not OpKind.FOR:
        return body_of(loop)
    repeated = repeated_loads(loop)
    return [eqn for eqn in body_of(loop) if eqn not in repeated]


def _costs(body: list[Eqn], strides: Strides) -> Iterator[float]:
    """Of every element that ``body`` accesses, once."""
    seen: set[object] = set()
    for eqn in body:
        place = (eqn.op.kind, *eqn.inputs[: 1 + array_type(eqn).ndim]) if _accesses(eqn) else None
        if place is None or place in seen:
            continue
        seen.add(place)
        moving = moving_axes(eqn, strides)
        times = _PER_ADDITION if eqn.op.kind is OpKind.ATOMIC_ADD else 1
        if not moving:
            yield times * _SHARED
        elif is_dense(eqn, moving, strides):
            yield times * _ADJACENT
        else:
            # Rows that several axes choose are of no more use to lanes than those of one.
            anywhere = any(stride_of(strides, i) is None for i in element_indices(eqn))
            yield times * times * _APART * (2 if anywhere else 1)


def _accesses(eqn: Eqn) -> bool:
    return eqn.op.kind in ACCESSES
