"""The adjoint of a kernel, over arrays that the caller provides."""

from __future__ import annotations

from collections.abc import Set
from enum import IntEnum, auto

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
    """The meaning of a parameter of an adjoint for its parameter of the primal."""

    PRIMAL = auto()
    COTANGENT = auto()
    FINAL = auto()  # the elements of an array of atomic minima or maxima after the launch
    TIE_WEIGHT = auto()  # the weight of every update that attained the final value


class Adjoint:
    """An adjoint kernel over arrays that the caller provides, which do not share memory.

    Attributes:
        func: The adjoint, without the parameters that it does not use.
        order: Per parameter of ``func``: the parameter of the primal, and the meaning for it.
        memories: The rule for its arrays, by device.
        extrema: Parameters of the primal that hold atomic minima or maxima.
        executable: The code of ``func``, compiled when it is first used.
        count: Of ``extrema``: the kernel that counts the updates that attain the final values.
        count_order: The parameters that ``count`` has; see ``count_attaining``.
        primals: The parameters of the primal that ``func`` takes, and their effects.
        reads: Parameters of the primal whose elements ``func`` or ``count`` loads.
        writes: Parameters of the primal whose elements ``func`` writes.
        count_writes: Parameters of the primal whose elements ``count`` writes.
    """

    def __init__(
        self,
        primal: Func,
        wrt: tuple[int, ...],
        seeds: tuple[int, ...],
        single: Set[int] = frozenset(),
    ) -> None:
        self.primal = primal
        self.memories: dict[Device, native.AdjointMemory] = {}
        self.extrema = extremum_arrays(primal, wrt)
        derived = vjp(
            weighted_sums(primal, self.extrema) if self.extrema else primal, wrt, seeds, single
        )
        self.func, kept = drop_unused_params(tidy(derived.func))
        parts = [(i, Part.PRIMAL) for i in range(len(primal.params))]
        parts += [(i, part) for part in (Part.FINAL, Part.TIE_WEIGHT) for i in self.extrema]
        parts += [(i, Part.COTANGENT) for i in derived.derivative_of]
        self.order = tuple(parts[i] for i in kept)
        self.executable = Executable(lambda: optimize(self.func))
        does = zip(self.order, effects(self.func), strict=True)
        self.primals = tuple((i, effect) for (i, part), effect in does if part is Part.PRIMAL)
        counted: list[tuple[int, Effect]] = []
        if self.extrema:
            func, order = drop_unused_params(normalize(count_attaining(primal, self.extrema)))
            self.count, self.count_order = Executable(lambda: optimize(func)), order
            counted += [
                p for p in zip(order, effects(func), strict=True) if p[0] < len(primal.params)
            ]
        self.reads = frozenset(i for i, effect in (*self.primals, *counted) if effect.loads)
        self.writes = frozenset(i for i, effect in self.primals if effect.writes)
        self.count_writes = frozenset(i for i, effect in counted if effect.writes)

    def cotangents(self) -> list[int]:
        """The parameters of the primal that it takes cotangents of, in its order."""
        return [i for i, part in self.order if part is Part.COTANGENT]
