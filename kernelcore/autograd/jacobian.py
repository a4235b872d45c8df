"""Jacobians of kernels by their adjoints and by central differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

from kernelcore.autograd.launch_plan import plan_of
from kernelcore.autograd.records import LaunchRecord
from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelArgumentError, KernelGradError
from kernelcore.base.keywords import checked_keywords
from kernelcore.language.types import Scalar, element_type
from kernelcore.launch.declare import OfKernel, as_kernel
from kernelcore.launch.dispatch import Dims, argument_leaves
from kernelcore.launch.kernel import Kernel
from kernelcore.launch.tangent_launch import push_tangents
from kernelcore.passes.autodiff.activity import is_float
from kernelcore.runtime.array.array import Array as Data

Array = npt.NDArray[Any]
# By the names of an input and of an output: shape (elements of the output, of the input), float64.
Jacobians = dict[tuple[str, str], Array]
Pairs = Sequence[tuple[str, str]]


@checked_keywords
def jacobian(
    kernel: Kernel | OfKernel,
    dim: Dims,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    pairs: Pairs | None = None,
) -> Jacobians:
    """The Jacobians of a kernel, a row per launch of its adjoint. The arguments are not changed.

    Args:
        kernel: The kernel, or an operator of one.
        dim: The grid, as for ``launch``.
        inputs: Arguments as for ``launch``; derivatives are with respect to those that hold floats.
        outputs: Arguments that follow. The differentiated outputs are all float arrays that the
            kernel writes, also those in ``inputs``.
        pairs: The (input, output) pairs that are wanted; all by default. Names are those of the
            parameters; a field of a struct is ``s.mass``.

    Returns:
        Per pair an array of shape (elements of the output, elements of the input), float64.
        Elements count in row-major order, components of vectors and matrices last.

    Raises:
        KernelArgumentError: An argument does not fit, or a pair is none.
        KernelGradError: The kernel has no exact derivative.
    """
    return jacobian_at(Point.of(kernel, dim, inputs, outputs), pairs)


def jacobian_at(point: Point, pairs: Pairs | None) -> Jacobians:
    """``jacobian`` at ``point``."""
    found: Jacobians = {}
    for output, sources in _by_output(point.pairs(pairs)).items():
        for source, rows in zip(sources, point.derivatives(sources, output), strict=True):
            found[point.key(source, output)] = rows
    return found


@checked_keywords
def jacobian_fd(
    kernel: Kernel | OfKernel,
    dim: Dims,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    eps: float | None = None,
    pairs: Pairs | None = None,
) -> Jacobians:
    """The Jacobians of a kernel by central differences, a column per two launches.

    Args:
        kernel: The kernel, or an operator of one.
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
    return jacobian_fd_at(Point.of(kernel, dim, inputs, outputs), eps, pairs)


def jacobian_fd_at(point: Point, eps: float | None, pairs: Pairs | None) -> Jacobians:
    """``jacobian_fd`` at ``point``."""
    found: Jacobians = {}
    for source, targets in _by_input(point.pairs(pairs)).items():
        for output, columns in zip(targets, point.differences(source, targets, eps), strict=True):
            found[point.key(source, output)] = columns
    return found


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel and its arguments, by parameter of the IR; ``start`` are copies of the arrays."""

    kernel: Kernel
    dim: Dims
    start: tuple[Array, ...]
    num_inputs: int

    @staticmethod
    def of(
        kernel: Kernel | OfKernel, dim: Dims, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Point:
        args = (*inputs, *outputs)
        kernel = as_kernel(kernel).for_arguments(args)
        values = argument_leaves(kernel, args)
        params = zip(kernel.func.params, values, strict=True)
        start = [copied(kernel, p.name, value, p.type) for p, value in params]
        shown = [p.name for p in kernel.parameters[: len(inputs)]]
        names = [p.name.split(".")[0] for p in kernel.func.params]
        return Point(kernel, dim, tuple(start), sum(name in shown for name in names))

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
        pairs = zip(self.kernel.func.params, after, strict=True)
        args = [a.item() if isinstance(p.type, Scalar) else a for p, a in pairs]
        self.kernel.executable.launch(self.dim, args)
        return after

    def derivatives(self, sources: Sequence[int], output: int) -> list[Array]:
        """The Jacobians of ``output`` by ``sources``: a row per element, by the adjoint."""
        params, effects = self.kernel.func.params, self.kernel.effects
        leaves: list[Data] = []
        for i, (param, array) in enumerate(zip(params, self.start, strict=True)):
            is_tracked = i in sources or (is_float(param) and effects[i].writes)
            scalar = element_type(param.type)
            leaves.append(Data(array.copy(), scalar, requires_grad=is_tracked))
        record = LaunchRecord(plan_of(self.kernel, leaves, self.dim), self.dim, tuple(leaves), None)
        if isinstance(record.plan.adjoint, KernelGradError):
            raise record.plan.adjoint
        record.save_before()
        self.kernel.executable.launch(self.dim, leaves)
        record.save_after()
        gradients = {i: a.grad.numpy() for i, a in enumerate(leaves) if a.grad is not None}
        found = [np.empty((self.start[output].size, self.start[i].size)) for i in sources]
        for k in range(self.start[output].size):
            for gradient in gradients.values():
                gradient[...] = 0
            gradients[output].reshape(-1)[k] = 1
            record.backward(lambda _: ())
            for i, rows in zip(sources, found, strict=True):
                rows[k] = gradients[i].reshape(-1)
        return found

    def forward_jacobians(self, wanted: Pairs | None) -> Jacobians:
        """The Jacobians in forward mode: a column per element of an input."""
        found: Jacobians = {}
        for source, targets in _by_input(self.pairs(wanted)).items():
            start = self.start[source]
            for i in targets:
                found[self.key(source, i)] = np.empty((self.start[i].size, start.size))
            for k in range(start.size):
                unit = np.zeros_like(start)
                unit.reshape(-1)[k] = 1
                is_scalar = isinstance(self.kernel.func.params[source].type, Scalar)
                tangents = {source: unit.item() if is_scalar else unit}
                push_tangents(self.kernel, self.dim, self._arguments({}), tangents)
                for i in targets:
                    made = np.asarray(tangents[i], np.float64)
                    found[self.key(source, i)][:, k] = made.reshape(-1)
        return found

    def _arguments(self, changed: dict[int, Array]) -> list[Any]:
        """Copies of the arguments, with other values of some parameters."""
        pairs = zip(self.kernel.func.params, self.start, strict=True)
        after = [(p, changed.get(i, a).copy()) for i, (p, a) in enumerate(pairs)]
        return [a.item() if isinstance(p.type, Scalar) else a for p, a in after]

    def differences(self, source: int, targets: Sequence[int], eps: float | None) -> list[Array]:
        """The Jacobians of ``targets`` by ``source``: a column per element, by differences."""
        start = self.start[source]
        found = [np.empty((self.start[i].size, start.size)) for i in targets]
        for k, at in enumerate(start.reshape(-1).astype(float)):
            step = eps if eps is not None else _step(start.dtype, at)
            moved = [start.copy(), start.copy()]
            for array, end in zip(moved, (at + step, at - step), strict=True):
                array.reshape(-1)[k] = end
            width = float(moved[0].reshape(-1)[k]) - float(moved[1].reshape(-1)[k])
            if width == 0:
                raise KernelArgumentError(
                    f"gradcheck: a step of {step} does not change "
                    f"{self.element(self.name(source), k)}",
                    self.kernel.func.loc,
                    "give a larger eps",
                )
            upper, lower = (self.run({source: array}) for array in moved)
            with np.errstate(invalid="ignore"):
                for i, columns in zip(targets, found, strict=True):
                    change = upper[i].astype(np.float64) - lower[i].astype(np.float64)
                    columns[:, k] = (change / width).reshape(-1)
        return found


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


def copied(kernel: Kernel, name: str, value: Any, type_: Any) -> Array:
    """A copy of an argument of ``kernel`` as NumPy's array."""
    # Tensors of torch that require a gradient are detached: NumPy refuses them.
    value = value.detach() if hasattr(value, "detach") else value
    try:
        return np.array(value, element_type(type_).numpy)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise KernelArgumentError(
            f"{kernel.name}(): argument '{name}': {error}",
            kernel.func.loc,
            "give NumPy arrays, or arrays that NumPy can copy",
        ) from None
