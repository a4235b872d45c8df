"""The adjoint of a kernel, over arrays that the caller provides."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum, auto
from functools import cached_property

from kernelcore.base import native
from kernelcore.ir.core import Func
from kernelcore.launch.executable import Executable
from kernelcore.passes.access.effects import Effect, effects
from kernelcore.passes.autodiff.atomic_extrema import (
    count_attaining,
    extremum_arrays,
    weighted_sums,
)
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import normalize, optimize, tidy
from kernelcore.passes.simplify.dead_code import drop_unused_params
from kernelcore.runtime.device import Device


class Part(IntEnum):
    """What a parameter of an adjoint is to a parameter of the primal."""

    PRIMAL = auto()
    COTANGENT = auto()
    REMAINED = auto()  # what an array of atomic minima or maxima holds after the launch
    SHARE = auto()  # of every value that attained it


class Adjoint:
    """An adjoint kernel for arrays that the caller provides.

    Attributes:
        func: The adjoint, without the parameters it does not use.
        order: Per parameter of ``func``: the primal parameter, and what this is to it.
        memories: The rule for its arrays, by device.
        extrema: Primal parameters that hold atomic minima or maxima.
    """

    def __init__(self, primal: Func, wrt: tuple[int, ...], seeds: tuple[int, ...]) -> None:
        self.primal = primal
        self.memories: dict[Device, native.AdjointMemory] = {}
        self.extrema = extremum_arrays(primal, wrt)
        derived = vjp(weighted_sums(primal, self.extrema) if self.extrema else primal, wrt, seeds)
        self.func, kept = drop_unused_params(tidy(derived.func))
        parts = [(i, Part.PRIMAL) for i in range(len(primal.params))]
        parts += [(i, part) for part in (Part.REMAINED, Part.SHARE) for i in self.extrema]
        parts += [(i, Part.COTANGENT) for i in derived.derivative_of]
        self.order = tuple(parts[i] for i in kept)

    @cached_property
    def _counted(self) -> tuple[Func, tuple[int, ...]]:
        return drop_unused_params(normalize(count_attaining(self.primal, self.extrema)))

    @cached_property
    def count(self) -> tuple[Executable, tuple[int, ...]]:
        """The kernel ``counted`` of ``extrema``, and which of its parameters it has."""
        func, kept = self._counted
        return Executable(lambda: optimize(func)), kept

    def _count_effects(self) -> Iterator[tuple[int, Effect]]:
        """What ``count`` does to primal parameters."""
        if self.extrema:
            func, kept = self._counted
            pairs = zip(kept, effects(func), strict=True)
            yield from ((i, e) for i, e in pairs if i < len(self.primal.params))

    @cached_property
    def count_writes(self) -> frozenset[int]:
        """The primal parameters whose elements ``count`` writes."""
        return frozenset(i for i, effect in self._count_effects() if effect.writes)

    def cotangents(self) -> Iterator[int]:
        """The primal parameters that it has cotangents of, in its order."""
        return (i for i, part in self.order if part is Part.COTANGENT)

    @cached_property
    def primals(self) -> tuple[tuple[int, Effect], ...]:
        """The primal parameters that it takes, and what it does to them."""
        pairs = zip(self.order, effects(self.func), strict=True)
        return tuple((i, effect) for (i, part), effect in pairs if part is Part.PRIMAL)

    @cached_property
    def reads(self) -> frozenset[int]:
        """The primal parameters whose elements it or ``count`` loads."""
        does = (*self.primals, *self._count_effects())
        return frozenset(i for i, effect in does if effect.loads)

    @cached_property
    def writes(self) -> frozenset[int]:
        """The primal parameters whose elements it writes."""
        return frozenset(i for i, effect in self.primals if effect.writes)

    @cached_property
    def executable(self) -> Executable:
        """The adjoint on arrays that the caller provides, which do not share memory."""
        return Executable(lambda: optimize(self.func))
