"""The adjoint of a kernel, over arrays that the caller provides."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelcore.base import native
from kernelcore.base.errors import KernelGradError, SrcLoc, labelled
from kernelcore.base.lazy import Deferred
from kernelcore.base.literal import is_like
from kernelcore.base.threads import cached_property
from kernelcore.compiler.kernel_cache import recall
from kernelcore.launch.executable import Executable
from kernelcore.runtime.device import Device

# An adjoint that the disk cache knows is launched without the compiler.
if TYPE_CHECKING:
    from kernelcore.compiler.kernel_cache import KernelEntry
    from kernelcore.ir.core import Func
    from kernelcore.launch.kernel import Kernel
    from kernelcore.passes import pipeline
    from kernelcore.passes.access import effects
    from kernelcore.passes.autodiff import atomic_extrema, vjp
    from kernelcore.passes.simplify import dead_code
else:
    pipeline = Deferred("kernelcore.passes.pipeline")
    effects = Deferred("kernelcore.passes.access.effects")
    atomic_extrema = Deferred("kernelcore.passes.autodiff.atomic_extrema")
    vjp = Deferred("kernelcore.passes.autodiff.vjp")
    dead_code = Deferred("kernelcore.passes.simplify.dead_code")


class Part(IntEnum):
    """The meaning of a parameter of an adjoint for its parameter of the primal."""

    PRIMAL = auto()
    COTANGENT = auto()
    FINAL = auto()  # the elements of an array of atomic minima or maxima after the launch
    TIE_WEIGHT = auto()  # the weight of every update that attained the final value


class AdjointFacts(NamedTuple):
    """What launches need of an adjoint besides its code, as a literal of Python.

    Of ``primals`` and ``counted``, a row is a parameter of the primal, and whether its elements are
    loaded and written.

    Attributes:
        order: Per parameter of the adjoint: the parameter of the primal, and the ``Part``.
        extrema: Parameters of the primal that hold atomic minima or maxima.
        primals: The parameters of the primal that the adjoint takes.
        count_order: The parameters of the kernel that counts; see ``count_attaining``.
        counted: The parameters of the primal that the kernel that counts takes.
    """

    order: tuple[tuple[int, int], ...]
    extrema: tuple[int, ...]
    primals: tuple[tuple[int, bool, bool], ...]
    count_order: tuple[int, ...]
    counted: tuple[tuple[int, bool, bool], ...]


_LITERAL: Any = ([(int, int)], [int], [(int, bool, bool)], [int], [(int, bool, bool)])


def _is_right(facts: Any, count: int) -> bool:
    """Whether ``facts`` may be those of an adjoint of a kernel with ``count`` parameters."""
    if not is_like(facts, _LITERAL):
        return False
    found = AdjointFacts(*facts)
    parts = {part for _, part in found.order}
    named = [i for i, *_ in (*found.order, *found.primals, *found.counted)] + list(found.extrema)
    return parts <= set(Part) and all(0 <= i < count for i in named)


# The parameters whose cotangents are computed, the arrays whose cotangents are given, and the axes
# on which launches have one point.
Derivation = tuple[tuple[int, ...], tuple[int, ...], frozenset[int]]


class Adjoint:
    """An adjoint kernel over arrays that the caller provides, which do not share memory.

    Args:
        primal: Gives the kernel.
        derivation: What it is derived for.
        count: How many parameters the kernel has.
        entry: Says where the disk cache keeps the adjoint.
        name: Of the kernel, which profiles show.
        loc: Gives the place of its definition, without reading the kernel.

    Attributes:
        order: Per parameter of ``func``: the parameter of the primal, and the meaning for it.
        memories: The rule for its arrays, by device.
        extrema: Parameters of the primal that hold atomic minima or maxima.
        executable: The code of ``func``, compiled when it is first used.
        count: Of ``extrema``: the kernel that counts the updates that attain the final values.
        count_order: The parameters that ``count`` has; see ``count_attaining``.
        primals: The parameters of the primal that ``func`` takes.
        reads: Parameters of the primal whose elements ``func`` or ``count`` loads.
        writes: Parameters of the primal whose elements ``func`` writes.
        count_writes: Parameters of the primal whose elements ``count`` writes.

    Raises:
        KernelGradError: The kernel has no exact derivative.
    """

    def __init__(
        self,
        primal: Callable[[], Func],
        derivation: Derivation,
        count: int,
        entry: Callable[[], KernelEntry | None] = lambda: None,
        name: str = "",
        loc: Callable[[], SrcLoc | None] = lambda: None,
    ) -> None:
        self._primal, self._derivation = primal, derivation
        *cotangents, single = derivation

        def entry_of(part: str) -> KernelEntry | None:
            found = entry()
            return found and found.of_part(f"adjoint {cotangents} {sorted(single)}, {part}")

        def label(suffix: str) -> Callable[[], str] | None:
            return (lambda: labelled(name + suffix, loc())) if name else None

        self.memories: dict[Device, native.AdjointMemory] = {}

        def is_right(facts: Any) -> bool:
            return _is_right(facts, count)

        found = AdjointFacts(*recall(lambda: entry_of("facts"), "facts", is_right, self._facts))
        self.order = tuple((i, Part(part)) for i, part in found.order)
        self.extrema, self.count_order = found.extrema, found.count_order
        self.primals = tuple(i for i, _, _ in found.primals)
        rows = (*found.primals, *found.counted)
        self.reads = frozenset(i for i, loads, _ in rows if loads)
        self.writes = frozenset(i for i, _, writes in found.primals if writes)
        self.count_writes = frozenset(i for i, _, writes in found.counted if writes)
        suffix = "_weighted_sums_vjp" if self.extrema else "_vjp"
        self.executable = Executable(
            lambda: pipeline.optimize(self.func), lambda: entry_of("code"), label(suffix)
        )
        self.count = Executable(
            lambda: pipeline.optimize(self._counting[0]), lambda: entry_of("count"), label("_count")
        )

    @property
    def primal(self) -> Func:
        """The kernel that it is the adjoint of."""
        return self._primal()

    @property
    def func(self) -> Func:
        """The adjoint, without the parameters that it does not use."""
        return self._derived[0]

    @cached_property
    def _derived(self) -> tuple[Func, tuple[tuple[int, Part], ...], tuple[int, ...]]:
        """The adjoint, with its ``order`` and ``extrema``."""
        primal, (wrt, seeds, single) = self._primal(), self._derivation
        extrema = atomic_extrema.extremum_arrays(primal, wrt)
        weighted = atomic_extrema.weighted_sums(primal, extrema) if extrema else primal
        derived = vjp.vjp(weighted, wrt, seeds, single)
        func, kept = dead_code.drop_unused_params(pipeline.tidy(derived.func))
        parts = [(i, Part.PRIMAL) for i in range(len(primal.params))]
        parts += [(i, part) for part in (Part.FINAL, Part.TIE_WEIGHT) for i in extrema]
        parts += [(i, Part.COTANGENT) for i in derived.derivative_of]
        return func, tuple(parts[i] for i in kept), tuple(extrema)

    @cached_property
    def _counting(self) -> tuple[Func, tuple[int, ...]]:
        """The kernel that counts the updates that attain the final values, and its parameters."""
        counting = atomic_extrema.count_attaining(self._primal(), self._derived[2])
        func, order = dead_code.drop_unused_params(pipeline.normalize(counting))
        return func, tuple(order)

    def _facts(self) -> tuple[Any, ...]:
        func, order, extrema = self._derived
        marks = [
            (i, effect.loads, effect.writes)
            for (i, part), effect in zip(order, effects.effects(func), strict=True)
            if part is Part.PRIMAL
        ]
        count_order: tuple[int, ...] = ()
        counted: list[tuple[int, bool, bool]] = []
        if extrema:
            counting, count_order = self._counting
            counted = [
                (i, effect.loads, effect.writes)
                for i, effect in zip(count_order, effects.effects(counting), strict=True)
                if i < len(self._primal().params)
            ]
        rows = tuple((i, int(part)) for i, part in order)
        return tuple(AdjointFacts(rows, extrema, tuple(marks), count_order, tuple(counted)))

    def cotangents(self) -> list[int]:
        """The parameters of the primal that it takes cotangents of, in its order."""
        return [i for i, part in self.order if part is Part.COTANGENT]


def derive(kernel: Kernel, derivation: Derivation) -> Adjoint:
    """An adjoint of ``kernel`` that is valid for ``derivation``.

    It holds for launches with any number of points if there is such an adjoint.

    Raises:
        KernelGradError: The kernel has no exact derivative.
    """
    wrt, seeds, single = derivation
    of_any_launch = wrt, seeds, frozenset[int]()
    for wanted in (of_any_launch, derivation):
        if wanted in kernel.adjoints:
            return kernel.adjoints[wanted]

    def make(wanted: Derivation) -> Adjoint:
        made = Adjoint(
            lambda: kernel.func,
            wanted,
            len(kernel.leaves),
            lambda: kernel.entry,
            kernel.name,
            lambda: kernel.loc,
        )
        return kernel.adjoints.setdefault(wanted, made)

    try:
        return make(of_any_launch)
    except KernelGradError:
        if not single:
            raise
    return make(derivation)
