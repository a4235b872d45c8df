"""Checks of derivatives: adjoints against central differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelcore.autograd.jacobian import (
    Jacobians,
    Pairs,
    Point,
    copied,
    jacobian_at,
    jacobian_fd_at,
)
from kernelcore.autograd.records import LaunchRecord
from kernelcore.autograd.tape import Tape
from kernelcore.base.errors import KernelGradError
from kernelcore.base.keywords import checked_keywords
from kernelcore.launch.declare import OfKernel
from kernelcore.launch.dispatch import Dims
from kernelcore.launch.kernel import Kernel


@checked_keywords
def gradcheck(
    kernel: Kernel | OfKernel,
    dim: Dims,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    eps: float | None = None,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    pairs: Pairs | None = None,
    forward: bool = False,
    raise_exception: bool = True,
) -> bool:
    """Whether the adjoint of a kernel gives what central differences give.

    Every entry has to fulfil ``abs(analytic - numeric) <= atol + rtol * abs(numeric)``. The default
    tolerances are for float32; with float64 they can be much smaller.

    Args:
        kernel: The kernel, or an operator of one.
        dim: The grid, as for ``launch``.
        inputs: As for ``jacobian``; small arrays, since there are two launches per element.
        outputs: As for ``jacobian``.
        eps: The step of the differences, as for ``jacobian_fd``.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        pairs: As for ``jacobian``.
        forward: Whether forward mode, as ``jvp`` runs it, has to agree too: with the differences,
            and with the adjoint, whose Jacobian is the same matrix.
        raise_exception: Whether an entry that differs is an error; else the result is False.

    Raises:
        KernelGradError: Naming the worst entry; or the kernel has no exact derivative.
        KernelArgumentError: An argument does not fit, or a pair is none; with ``forward``, the
            kernel takes atomic minima or maxima, which ``jvp`` refuses.
    """
    point = Point.of(kernel, dim, inputs, outputs)
    return _check(point, pairs, eps, (atol, rtol), forward, raise_exception)


@checked_keywords
def gradcheck_tape(
    tape: Tape,
    *,
    eps: float | None = None,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
) -> bool:
    """Whether ``gradcheck`` holds for every launch that ``tape`` recorded.

    Derivatives are with respect to arrays with ``requires_grad`` that the launch loads, at the
    elements that arrays have now. Recorded functions are not checked.

    Args:
        tape: The Tape; it stays as it is.
        eps: The step of the differences, as for ``jacobian_fd``.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        raise_exception: Whether an entry that differs is an error; else the result is False.

    Raises:
        KernelGradError: As for ``gradcheck``.

    Example:
        >>> with kc.Tape() as tape:
        ...     kc.launch(scale, len(x), [x], [y])
        >>> kc.gradcheck_tape(tape)
        True
    """
    for record in tape.records:
        if not isinstance(record, LaunchRecord):
            continue
        kernel, plan = record.kernel, record.plan
        params = enumerate(zip(kernel.func.params, record.leaves, strict=True))
        start = [copied(kernel, p.name, leaf, p.type) for _, (p, leaf) in params]
        point = Point(kernel, record.dim, tuple(start), len(start))
        sources = {point.name(i) for i in plan.wrt if i in plan.inputs}
        pairs = [pair for i, j in point.pairs(None) if (pair := point.key(i, j))[0] in sources]
        if not _check(point, pairs, eps, (atol, rtol), False, raise_exception):
            return False
    return True


def _check(
    point: Point,
    pairs: Pairs | None,
    eps: float | None,
    tolerances: tuple[float, float],
    forward: bool,
    raise_exception: bool,
) -> bool:
    """``gradcheck`` at ``point``."""
    adjoint, numeric = jacobian_at(point, pairs), jacobian_fd_at(point, eps, pairs)
    found = {"the adjoint": adjoint, "central differences": numeric}
    comparisons = [("the adjoint", "central differences")]
    if forward:
        found["forward mode"] = point.forward_jacobians(pairs)
        comparisons += [("forward mode", other) for other in ("central differences", "the adjoint")]
    for first, second in comparisons:
        text = _disagreement(point, (first, found[first]), (second, found[second]), *tolerances)
        if text is None:
            continue
        if not raise_exception:
            return False
        raise KernelGradError(
            f"{point.kernel.name}(): {text}",
            point.kernel.func.loc,
            "look for a rule that is wrong, a kink at this point, or a step that is too small for "
            "the precision: float64 arrays, or another eps",
        )
    return True


def _disagreement(
    point: Point,
    first: tuple[str, Jacobians],
    second: tuple[str, Jacobians],
    atol: float,
    rtol: float,
) -> str | None:
    """How two named Jacobians differ, with the worst entry; None where they agree."""
    (name, all_found), (other, all_wanted) = first, second
    worst: tuple[float, tuple[str, str], int, int] | None = None
    wrong = total = 0
    for key, found in all_found.items():
        want = all_wanted[key]
        with np.errstate(invalid="ignore"):
            excess = np.abs(found - want) - (atol + rtol * np.abs(want))
        # A NaN difference is wrong unless both entries are the same infinity.
        excess = np.where(found == want, -np.inf, np.where(np.isnan(excess), np.inf, excess))
        total += excess.size
        wrong += int(np.count_nonzero(excess > 0))
        if excess.size and (worst is None or excess.max() > worst[0]):
            row, column = np.unravel_index(int(excess.argmax()), excess.shape)
            worst = (float(excess.max()), key, int(row), int(column))
    if worst is None or not wrong:
        return None
    _, key, row, column = worst
    labels = {
        "central differences": "numeric",
        "the adjoint": "analytic",
        "forward mode": "forward",
    }
    return (
        f"{name} and {other} disagree in {wrong} of {total} entries; the worst is the derivative "
        f"of {point.element(key[1], row)} with respect to {point.element(key[0], column)}: "
        f"{labels[name]} {all_found[key][row, column]:.9g}, "
        f"{labels[other]} {all_wanted[key][row, column]:.9g}"
    )
