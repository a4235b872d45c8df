"""Checks of derivatives: Jacobians of kernels by their adjoints and by central differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

from kernelcore.base.errors import KernelArgumentError, KernelGradError
from kernelcore.language.types import ArrayType, Scalar, element_type
from kernelcore.launch.adjoint_launch import execute_adjoint
from kernelcore.launch.dispatch import Dims, argument_leaves
from kernelcore.launch.kernel import Kernel, not_a_kernel
from kernelcore.passes.autodiff.activity import is_float

Array = npt.NDArray[Any]
# By the names of an input and of an output: shape (elements of the output, of the input), float64.
Jacobians = dict[tuple[str, str], Array]
Pairs = Sequence[tuple[str, str]]


def jacobian(
    kernel: Kernel,
    dim: Dims,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    pairs: Pairs | None = None,
) -> Jacobians:
    """The Jacobians of a kernel, a row per launch of its adjoint. The arguments are not changed.

    Args:
        kernel: The kernel.
        dim: The grid, as for ``launch``.
        inputs: Arguments as for ``launch``; derivatives are with respect to those that hold floats.
        outputs: Arguments that follow. What is differentiated are all float arrays that the kernel
            writes, wherever they are given.
        pairs: The (input, output) pairs that are wanted; all by default. Names are those of the
            parameters; a field of a struct is ``s.mass``.

    Returns:
        Per pair an array of shape (elements of the output, elements of the input), float64.
        Elements count in row-major order, components of vectors and matrices last.

    Raises:
        KernelArgumentError: An argument does not fit, or a pair is none.
        KernelGradError: The kernel has no exact derivative.
    """
    point = _Point.of(kernel, dim, inputs, outputs)
    found: Jacobians = {}
    for output, sources in _by_output(point.pairs(pairs)).items():
        rows = [point.pulled(sources, output, k) for k in range(point.start[output].size)]
        for n, source in enumerate(sources):
            shape = (len(rows), point.start[source].size)
            found[point.key(source, output)] = np.array([r[n] for r in rows]).reshape(shape)
    return found


def jacobian_fd(
    kernel: Kernel,
    dim: Dims,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    eps: float | None = None,
    pairs: Pairs | None = None,
) -> Jacobians:
    """The Jacobians of a kernel by central differences, a column per two launches.

    Args:
        kernel: The kernel.
        dim: The grid, as for ``launch``.
        inputs: As for ``jacobian``.
        outputs: As for ``jacobian``.
        eps: The step; by default the cube root of the precision of the input, times its magnitude
            where that is larger than 1.
        pairs: As for ``jacobian``.

    Returns:
        As for ``jacobian``.

    Raises:
        KernelArgumentError: An argument does not fit, or a pair is none.
    """
    point = _Point.of(kernel, dim, inputs, outputs)
    found: Jacobians = {}
    for source, targets in _by_input(point.pairs(pairs)).items():
        columns = [
            point.difference(source, targets, k, eps) for k in range(point.start[source].size)
        ]
        for n, output in enumerate(targets):
            shape = (len(columns), point.start[output].size)
            found[point.key(source, output)] = np.array([c[n] for c in columns]).reshape(shape).T
    return found


def gradcheck(
    kernel: Kernel,
    dim: Dims,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    eps: float | None = None,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    pairs: Pairs | None = None,
    raise_exception: bool = True,
) -> bool:
    """Whether the adjoint of a kernel gives what central differences give.

    Every entry has to fulfil ``abs(analytic - numeric) <= atol + rtol * abs(numeric)``. The default
    tolerances are for float32; with float64 they can be much smaller.

    Args:
        kernel: The kernel.
        dim: The grid, as for ``launch``.
        inputs: As for ``jacobian``; small arrays, since there are two launches per element.
        outputs: As for ``jacobian``.
        eps: The step of the differences, as for ``jacobian_fd``.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        pairs: As for ``jacobian``.
        raise_exception: Whether an entry that differs is an error; else the result is False.

    Raises:
        KernelGradError: Naming the worst entry; or the kernel has no exact derivative.
        KernelArgumentError: An argument does not fit, or a pair is none.
    """
    analytic = jacobian(kernel, dim, inputs, outputs, pairs=pairs)
    numeric = jacobian_fd(kernel, dim, inputs, outputs, eps=eps, pairs=pairs)
    worst: tuple[float, tuple[str, str], int, int] | None = None
    wrong = total = 0
    for key, found in analytic.items():
        want = numeric[key]
        with np.errstate(invalid="ignore"):
            excess = np.abs(found - want) - (atol + rtol * np.abs(want))
        # What is not a number is wrong unless both are infinite alike.
        excess = np.where(found == want, -np.inf, np.where(np.isnan(excess), np.inf, excess))
        total += excess.size
        wrong += int(np.count_nonzero(excess > 0))
        if excess.size and (worst is None or excess.max() > worst[0]):
            row, column = np.unravel_index(int(excess.argmax()), excess.shape)
            worst = (float(excess.max()), key, int(row), int(column))
    if worst is None or not wrong:
        return True
    if raise_exception:
        point = _Point.of(kernel, dim, inputs, outputs)
        _, key, row, column = worst
        raise KernelGradError(
            f"{kernel.name}(): the adjoint and central differences disagree in {wrong} of {total} "
            f"entries; the worst is the derivative of {point.element(key[1], row)} with respect to "
            f"{point.element(key[0], column)}: analytic {analytic[key][row, column]:.9g}, numeric "
            f"{numeric[key][row, column]:.9g}",
            point.kernel.func.loc,
            "look for a rule that is wrong, a kink at this point, or a step that is too small for "
            "the precision: float64 arrays, or another eps",
        )
    return False


@dataclass(frozen=True, slots=True)
class _Point:
    """A kernel and its arguments, by parameter of the IR; ``start`` are copies of the arrays."""

    kernel: Kernel
    dim: Dims
    start: tuple[Array, ...]
    num_inputs: int

    @staticmethod
    def of(kernel: Kernel, dim: Dims, inputs: Sequence[Any], outputs: Sequence[Any]) -> _Point:
        if not isinstance(kernel, Kernel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise not_a_kernel(kernel)
        args = (*inputs, *outputs)
        kernel = kernel.for_arguments(args)
        values = argument_leaves(kernel, args)
        start: list[Array] = []
        for param, value in zip(kernel.func.params, values, strict=True):
            try:
                start.append(np.array(_plain(value), element_type(param.type).numpy))
            except (BufferError, RuntimeError, TypeError, ValueError) as error:
                raise KernelArgumentError(
                    f"{kernel.name}(): argument '{param.name}': {error}",
                    kernel.func.loc,
                    "give NumPy arrays, or arrays that NumPy can copy",
                ) from None
        shown = [p.name for p in kernel.parameters[: len(inputs)]]
        names = [p.name.split(".")[0] for p in kernel.func.params]
        return _Point(kernel, dim, tuple(start), sum(name in shown for name in names))

    def name(self, param: int) -> str:
        return self.kernel.func.params[param].name

    def key(self, source: int, output: int) -> tuple[str, str]:
        return self.name(source), self.name(output)

    def element(self, name: str, k: int) -> str:
        """Element ``k`` of a parameter, as a user writes it."""
        names = [p.name for p in self.kernel.func.params]
        shape = self.start[names.index(name)].shape
        index = ", ".join(str(int(i)) for i in np.unravel_index(k, shape)) if shape else ""
        return f"{name}[{index}]" if index else name

    def pairs(self, wanted: Pairs | None) -> list[tuple[int, int]]:
        """The (input, output) pairs of parameters."""
        params = self.kernel.func.params
        marks = list(enumerate(zip(params, self.kernel.effects, strict=True)))
        sources = [i for i, (p, _) in marks[: self.num_inputs] if is_float(p)]
        targets = [i for i, (p, effect) in marks if is_float(p) and effect.writes]
        known = {self.key(i, j): (i, j) for j in targets for i in sources}
        if wanted is None:
            return list(known.values())
        for pair in wanted:
            if pair not in known:
                raise KernelArgumentError(
                    f"{self.kernel.name}(): {pair!r} is no pair of a float input and an output",
                    self.kernel.func.loc,
                    f"the inputs are {', '.join(map(self.name, sources)) or 'none'}, the outputs "
                    f"{', '.join(map(self.name, targets)) or 'none'}",
                )
        return [known[pair] for pair in wanted]

    def run(self, changed: dict[int, Array]) -> list[Array]:
        """All arrays after a launch, with other values of some parameters."""
        after = [changed.get(i, a).copy() for i, a in enumerate(self.start)]
        self.kernel.executable.launch(self.dim, self._arguments(after))
        return after

    def pulled(self, sources: Sequence[int], output: int, k: int) -> list[Array]:
        """The cotangents of ``sources``, flat, where element ``k`` of ``output`` has 1."""
        effects = self.kernel.effects
        seeds = tuple(
            i for i, p in enumerate(self.kernel.func.params) if is_float(p) and effects[i].writes
        )
        adjoint = self.kernel.adjoint(tuple(sources), seeds)
        cotangents = dict(enumerate(np.zeros_like(a) for a in self.start))
        cotangents[output].reshape(-1)[k] = 1
        primal, remained = [a.copy() for a in self.start], dict[int, Array]()
        # What a replay recalls is there after the launch, as are minima and maxima.
        recalled = [i for i, _ in adjoint.primals if effects[i].writes and not effects[i].loads]
        if recalled or adjoint.extrema:
            after = self.run({})
            remained = {i: after[i] for i in adjoint.extrema}
            for i in recalled:
                primal[i] = after[i]
        given = self._arguments(primal)
        execute_adjoint(self.kernel, adjoint, self.dim, given, cotangents, None, remained)
        held = {output, *adjoint.cotangents()}
        return [
            (cotangents[i] if i in held else np.zeros_like(cotangents[i]))
            .astype(np.float64)
            .reshape(-1)
            for i in sources
        ]

    def difference(
        self, source: int, targets: Sequence[int], k: int, eps: float | None
    ) -> list[Array]:
        """The central differences of ``targets``, flat, along element ``k`` of ``source``."""
        ends: list[list[Array]] = []
        steps: list[float] = []
        at = self.start[source].reshape(-1)[k]
        step = eps if eps is not None else _step(self.start[source].dtype, float(at))
        for sign in (1, -1):
            moved = self.start[source].copy()
            moved.reshape(-1)[k] = float(at) + sign * step
            steps.append(float(moved.reshape(-1)[k]))
            ends.append(self.run({source: moved}))
        width = steps[0] - steps[1]
        if width == 0:
            raise KernelArgumentError(
                f"gradcheck: a step of {step} does not change {self.element(self.name(source), k)}",
                self.kernel.func.loc,
                "give a larger eps",
            )
        pairs = [(ends[0][i], ends[1][i]) for i in targets]
        with np.errstate(invalid="ignore"):
            return [
                ((a.astype(np.float64) - b.astype(np.float64)) / width).reshape(-1)
                for a, b in pairs
            ]

    def _arguments(self, arrays: Sequence[Array]) -> list[Any]:
        """``arrays`` as launches take them: those of values are numbers."""
        params = self.kernel.func.params
        pairs = zip(params, arrays, strict=True)
        return [a if isinstance(p.type, ArrayType) else _number(p.type, a) for p, a in pairs]


def _plain(value: Any) -> Any:
    """``value``; of a tensor of torch, one that NumPy takes."""
    return value.detach() if hasattr(value, "detach") else value


def _number(type_: object, array: Array) -> Any:
    assert isinstance(type_, Scalar)
    return array.item()


def _step(dtype: np.dtype[Any], at: float) -> float:
    # finfo of NumPy does not know bfloat16.
    finfo = cast(Any, ml_dtypes).finfo
    precision = float(finfo(dtype).eps)
    return precision ** (1 / 3) * max(1.0, abs(at))


def _by_output(pairs: Sequence[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for source, output in pairs:
        found.setdefault(output, []).append(source)
    return found


def _by_input(pairs: Sequence[tuple[int, int]]) -> dict[int, list[int]]:
    return _by_output([(output, source) for source, output in pairs])
