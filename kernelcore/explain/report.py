"""explain: what a kernel compiles to, and why."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod
from numbers import Number
from typing import Any

import numpy as np

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import KernelArgumentError, SrcLoc
from kernelcore.base.host import host
from kernelcore.codegen.analysis.own_elements import own_elements
from kernelcore.codegen.analysis.small_rows import rows_as_elements
from kernelcore.codegen.analysis.work import Counts, Work, place, work_of
from kernelcore.codegen.code_form import carried_form, code_form
from kernelcore.codegen.simd.bodies import Bodies
from kernelcore.codegen.simd.cost_model import obstacle_to_gangs
from kernelcore.codegen.simd.gang_work import WORK_PER_ELEMENT, WORK_PER_ELEMENT_IN_LOOP
from kernelcore.codegen.simd.gathering import Gathering, choose_detours, has_own_code
from kernelcore.codegen.simd.strategy import (
    ShortRows,
    VectorStrategy,
    bodies_for,
    choose_strategy,
    rows_of_own_length,
    scalar_only,
    short_loops,
    short_rows,
)
from kernelcore.codegen.target import cpu
from kernelcore.explain import html, text
from kernelcore.explain.accesses import Access, accesses_of
from kernelcore.explain.adjoint import Adjoint, adjoint_report
from kernelcore.explain.devices import LaunchAxis, launch_axes
from kernelcore.explain.loops import Loop, loops
from kernelcore.explain.roofs import Roofs, fastest, roofs
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.printer import pretty_lines
from kernelcore.language.source import Source, read_source
from kernelcore.language.types import ArrayType
from kernelcore.launch.declare import as_kernel
from kernelcore.launch.dispatch import Dims, execute_leaves
from kernelcore.launch.kernel import Kernel
from kernelcore.passes.access.effects import AccessMap
from kernelcore.passes.access.fusion import Arithmetic, obstacles
from kernelcore.passes.autodiff.rules import without_rules
from kernelcore.passes.pipeline import optimize
from kernelcore.runtime.array.array import Array, array
from kernelcore.runtime.device_memory import device_holding
from kernelcore.runtime.flatten_arguments import leaves

_ROUNDS = 7


@dataclass(frozen=True)
class Measured:
    """A launch on this machine.

    Attributes:
        dim: The launch shape.
        seconds: Of the fastest of several launches.
        array_bytes: Of the arrays: what memory moves at least, if each byte moves once.
        flops: Of all threads; None if the iterations of a loop are not known.
        roofs: The peaks of the machine.
    """

    dim: tuple[int, ...]
    seconds: float
    array_bytes: int
    flops: float | None
    roofs: Roofs

    @property
    def least_seconds(self) -> float:
        """What the launch takes where only memory or only arithmetic counts, the longer one."""
        arithmetic = (self.flops or 0.0) / self.roofs.flops_per_second
        return max(self.array_bytes / self.roofs.bytes_per_second, arithmetic)


@dataclass(frozen=True)
class LaneAxis:
    """Another launch axis than the last one, along which lanes lie where it is longer.

    Attributes:
        axis: Its number.
        most_points: How many points the last axis may have for that; 0 for any number.
        is_taken: Whether the explained launch is one of those.
    """

    axis: int
    most_points: int
    is_taken: bool


@dataclass(frozen=True)
class GatheredArrays:
    """Arrays to which loops over the threads add.

    Attributes:
        names: The arrays.
        least_trips: The iterations of loops from which on that is so; 0 for all launches.
        divided: Those whose elements the chunks of a launch may divide.
    """

    names: Sequence[str]
    least_trips: int
    divided: Sequence[str]


@dataclass(frozen=True)
class Explanation:
    """What a kernel compiles to on this machine, and why; ``str`` gives it as text.

    Attributes:
        name: The kernel.
        file: Where it is.
        first_line: The number of the first line of ``source``.
        source: Its source lines.
        target: The processor.
        strategy: How threads use SIMD registers.
        why: The reason for the strategy.
        bodies: The copies of its body.
        accesses: Of elements, in program order.
        loops: In program order.
        fusable: Whether compiled programs of torch and JAX can hold it as code of their own
            (``kc.op(kernel, fuse=...)``), or why not.
        work: What one thread does.
        adjoint: Its reverse mode.
        axes: What devices exchange that run parts of a launch, by launch axis.
        measured: A launch; None where no arguments were given.
        func: The kernel whose code is reported.
        lane_axis: The launch axis along which lanes lie in launches that are longer there; None
            where they always lie along the last one.
        gathered: Arrays to which loops over the threads add; None if there are none.
        is_contracted: Whether loops round a product and the sum it is added to once.
        short_gang: Threads of a gang in launches with loops of fewer than ``LOOP_LANES``
            iterations, where others vectorise these; 0 if none differs.
        carried: Arrays whose elements loops keep in registers, unless arrays share memory.
        short_rows: Other gangs of launches with few points along the last axis; None for none.
    """

    name: str
    file: str
    first_line: int
    source: Sequence[str]
    target: str
    strategy: VectorStrategy
    why: str
    bodies: Bodies
    accesses: Sequence[Access]
    loops: Sequence[Loop]
    fusable: str
    work: Work
    adjoint: Adjoint
    axes: Sequence[LaunchAxis]
    measured: Measured | None
    func: Func = field(repr=False)
    lane_axis: LaneAxis | None = None
    gathered: GatheredArrays | None = None
    is_contracted: bool = False
    short_gang: int = 0
    carried: Sequence[str] = ()
    short_rows: ShortRows | None = None

    def __str__(self) -> str:
        return text.report(self)

    def __repr__(self) -> str:
        return f"<explanation of kernel {self.name}>"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.html())}" width="100%" height="700"></iframe>'

    def html(self) -> str:
        """One page with the report, and the source, the IR and the assembly side by side."""
        ir = pretty_lines(self.func)
        assembly = cpu.assembly(cpu.llvm_text(self.func, self.name, self.strategy, with_lines=True))
        return html.page(self, str(self), ir, assembly)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``html()`` to the file ``path``."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html())

    def share_of(self, loc: SrcLoc) -> float:
        """The part of the estimated instructions that the line of ``loc`` takes, 0 to 1."""
        return self.work.cost.get(place(loc), 0.0) / (sum(self.work.cost.values()) or 1.0)


def explain(kernel: object, *args: Any, dim: Dims | None = None) -> Explanation:
    """What ``kernel`` compiles to on this machine, and why.

    The report says how threads use SIMD registers and what keeps them from it, how each access
    reaches memory, how each loop runs, what the adjoint records, and how far a launch is from what
    memory and arithmetic allow.

    Args:
        kernel: The kernel, or an operator of one.
        args: The arguments of a launch, which is run and timed on copies of them. Without, nothing
            is run, and the iterations of loops over extents are not known. A generic kernel needs
            them.
        dim: The launch shape. Default: the extents that the launch indices index.

    Returns:
        The explanation: ``print`` it, show it in a notebook, or ``save("page.html")`` it.

    Raises:
        KernelArgumentError: The arguments are not those of the kernel.
        KernelError: The kernel is not in the kernel language.

    Example::

        x = np.linspace(0, 1, 1 << 20, dtype=np.float32)
        print(kc.explain(scale, x, np.zeros_like(x)))
    """
    kernel = as_kernel(kernel)
    names = [p.name for p in kernel.parameters]
    if args and len(args) != len(names):
        raise KernelArgumentError(
            f"explain: expected {len(names)} arguments for {kernel.name}({', '.join(names)}), "
            f"found {len(args)}",
            kernel.loc,
            "give all arguments of a launch, outputs included, or none",
        )
    chosen = kernel.current()
    if kernel.is_generic:
        if not args:
            raise KernelArgumentError(
                f"explain: what the generic kernel '{kernel.name}' compiles to follows from its "
                "types",
                kernel.loc,
                "give the arguments of a launch, or kernel.overload(types)",
            )
        chosen = kernel.for_inputs(dict(zip(names, args, strict=True)))
    flat = _flat(chosen, args) if args else None
    shape = None if flat is None else _launch_shape(chosen, flat, dim)
    planned = optimize(chosen.func)
    func = code_form(planned)
    is_contracted = func is not rows_as_elements(planned)
    carried = carried_form(func)
    gathering, other = choose_detours(func)
    is_along_other = other is not None and shape is not None and other.is_taken(shape)
    if carried is not None:
        func = carried.func
    elif other is not None and is_along_other:
        func = other.func
    strategy = choose_strategy(func, host())
    short = short_loops(func, strategy, host())
    may_narrow = not is_along_other and has_own_code(gathering)
    bodies = bodies_for(func, strategy)
    work = work_of(func, flat)
    measured = None if flat is None or shape is None else _measure(chosen, flat, shape, work.counts)
    source = read_source(chosen.pyfunc)
    lines = source.text.rstrip("\n").split("\n")
    return Explanation(
        kernel.name,
        source.file,
        source.line_offset + 1,
        lines,
        f"{host().cpu}, registers of {host().float_lanes} float32",
        strategy,
        _reason(func, strategy, bodies, source),
        bodies,
        tuple(accesses_of(func, strategy, bodies)),
        tuple(loops(func, strategy, work.trips)),
        _fusable(chosen.func),
        work,
        adjoint_report(chosen.func, work, flat),
        launch_axes(chosen.func, flat, shape),
        measured,
        func,
        None if other is None else LaneAxis(other.axis, other.most_points, is_along_other),
        gathering and _gathered_arrays(gathering),
        is_contracted,
        0 if short is None else short.strategy.gang,
        () if carried is None else tuple(v.name for v in carried.arrays),
        short_rows(func, strategy, host()) if may_narrow else None,
    )


def _gathered_arrays(found: Gathering) -> GatheredArrays:
    ways = zip(found.sums.sums, own_elements(found.sums, found.least_trips), strict=True)
    divided = [array.name for one, how in ways for array in one.arrays if how is not None]
    return GatheredArrays([p.name for p in found.sums.arrays], found.least_trips, divided)


def _fusable(func: Func) -> str:
    """Whether ``func`` can be computed in the graph of a framework, and how exactly."""
    plain = without_rules(func)
    found = next(obstacles(plain, Arithmetic(), asked=True), None)
    if found is not None:
        return f"no, {found}"
    in_jax = next(obstacles(plain, Arithmetic(), asked=False), None)
    as_torch = Arithmetic(elementary=True, components=False)
    in_torch = next(obstacles(plain, as_torch, asked=False), None)
    if in_jax is not None and in_torch is not None:
        return f"with fuse=True: {in_jax}; {in_torch}"
    if in_jax is not None:
        return f"yes in torch; in JAX with fuse=True: {in_jax}"
    return "yes" if in_torch is None else f"yes in JAX; in torch with fuse=True: {in_torch}"


def _flat(kernel: Kernel, args: Sequence[Any]) -> list[Any]:
    """One value per parameter of the IR."""
    return [
        leaf
        for p, arg in zip(kernel.parameters, args, strict=True)
        if p.type is not None
        for leaf in leaves(p.type, arg, p.name)
    ]


def _reason(func: Func, strategy: VectorStrategy, bodies: Bodies, source: Source) -> str:
    """Why ``func`` has ``strategy``, in words; the code generator asks the same questions."""
    if bodies.leaves_rest_to_threads:
        return "along the other axis of the grid, its elements are adjacent"
    if strategy.gang > 1 and obstacle_to_gangs(func) is not None:
        return "in the middle of a row it accesses adjacent elements"
    if strategy.gang > 1:
        return "its operations have vector forms, and enough arithmetic for the elements it gathers"
    scalar = next(scalar_only(func), None)
    if scalar is not None:
        return f"{_quoted(scalar, source)} has no vector form"
    own = rows_of_own_length(func)
    if own and strategy.loop_lanes > 1:
        return f"{_quoted(own[0], source)} goes along rows of another length for each thread"
    found = obstacle_to_gangs(func)
    if found is None:
        return "config.optimize is off"
    if found.is_uniform:
        return "it does not ask for its launch index, so one point is enough"
    if found.eqns:
        return f"{found.eqns} equations would take LLVM long to compile as vectors"
    places = sorted({e.loc.line for e in found.scattered if e.loc})
    noun = "line" if len(places) == 1 else "lines"
    lines = f" ({noun} {', '.join(map(str, places))})" if places else ""
    apart = f"elements that lanes would access one by one{lines}"
    if found.loop is not None:
        return f"iterations of {_quoted(found.loop, source)} access neighbours, threads {apart}"
    assert found.work is not None
    least = WORK_PER_ELEMENT_IN_LOOP if found.in_loop else WORK_PER_ELEMENT
    part = "the body of a loop has" if found.in_loop else "a thread has"
    return (
        f"{part} {found.work.instructions} instructions of arithmetic for {found.work.scattered} "
        f"{apart}; gangs pay from {least} an element on"
    )


def _quoted(eqn: Eqn, source: Source) -> str:
    """The source text of ``eqn`` and its line; of another function, its operation."""
    if eqn.loc is None or eqn.loc.file != source.file:
        return f"'{eqn.op.name}'" + (f" ({eqn.loc})" if eqn.loc else "")
    line = source.file_text.lines[eqn.loc.line - 1]
    return f"'{line[eqn.loc.col : eqn.loc.end_col].strip()}' (line {eqn.loc.line})"


def _measure(
    kernel: Kernel, flat: Sequence[Any], shape: tuple[int, ...], counts: Counts
) -> Measured | None:
    if any(device_holding(leaf).is_cuda for leaf in flat):
        return None
    copies = tuple(array(leaf) if np.ndim(leaf) else leaf for leaf in flat)
    seconds = fastest(lambda: execute_leaves(kernel, shape, copies), _ROUNDS)
    moved = sum(a.numpy().nbytes for a in copies if isinstance(a, Array))
    flops = counts.flops * prod(shape) if counts.is_known else None
    return Measured(shape, seconds, moved, flops, roofs())


def _launch_shape(kernel: Kernel, flat: Sequence[Any], dim: Dims | None) -> tuple[int, ...]:
    """``dim``, else the extents of what the launch indices index in ``flat``, the leaves."""
    func = kernel.func
    for param, value in zip(func.params, flat, strict=True):
        is_array = not isinstance(value, (Number, list, tuple))
        if isinstance(param.type, ArrayType) and not is_array:
            raise KernelArgumentError(
                f"explain: expected an array for '{param.name}' of {kernel.name}, found {value!r}",
                func.loc,
                "give the arguments as a call of the kernel would: explain(kernel, *args, dim=...)",
            )
    if dim is not None:
        return (dim,) if isinstance(dim, int) else tuple(dim)
    uses = AccessMap(func)
    found: dict[int, int] = {}
    # Where all accesses are under a condition, an array that each thread uses at its own index.
    for param, axis, grid_axis in (*uses.grid_indexed_axes(), *uses.covered_axes()):
        found.setdefault(grid_axis, np.shape(flat[param])[axis])
    if len(found) == func.rank:
        return tuple(found[axis] for axis in range(func.rank))
    raise KernelArgumentError(
        f"explain: {kernel.name} has no array that each of its {func.rank} launch indices indexes",
        func.loc,
        "give the launch shape: dim=...",
    )
