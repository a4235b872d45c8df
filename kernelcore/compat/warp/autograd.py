"""``warp.autograd``: Jacobians of kernels and functions, and comparisons with differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import kernelcore as kc
from kernelcore.base.errors import KernelArgumentError, KernelGradError
from kernelcore.base.keywords import checked_keywords
from kernelcore.base.lazy import Deferred

# Few programs draw.
if TYPE_CHECKING:
    from matplotlib import pyplot
else:
    pyplot = Deferred("matplotlib.pyplot")

# By the positions of an input and of an output.
Jacobians = dict[tuple[int, int], kc.Array]
Mask = Sequence[tuple[str | int, str | int]]
_Matrices = dict[tuple[int, int], Any]


@checked_keywords
def jacobian(
    function: kc.Kernel | Callable[..., Any],
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask | None = None,
    device: object = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_outputs_per_var: int = -1,
    plot_jacobians: bool = False,
    metadata: object = None,
    restore_inputs: bool = True,
) -> Jacobians:
    """The Jacobians of a kernel, or of a function of arrays, by adjoints; see ``kc.jacobian``.

    Args:
        function: A kernel, or a function that takes ``inputs`` and returns its outputs.
        dim: The grid of the kernel.
        inputs: Its arguments; derivatives are with respect to arrays with ``requires_grad``.
        outputs: The arrays with ``requires_grad`` that the kernel writes.
        input_output_mask: The pairs that are wanted, by names or positions; all by default.
        device: Without effect, as ``max_blocks``, ``block_dim``, ``max_outputs_per_var`` (all rows
            are computed), ``metadata`` and ``restore_inputs`` (inputs are not changed).
        plot_jacobians: Whether to draw them.

    Returns:
        By the positions of an input and of an output an array of shape (numbers in the output,
        numbers in the input).
    """
    found = _by_adjoints(function, dim, inputs or (), outputs or (), input_output_mask)
    made = _as_arrays(found, inputs or ())
    if plot_jacobians:
        jacobian_plot(made, function, inputs)
    return made


@checked_keywords
def jacobian_fd(
    function: kc.Kernel | Callable[..., Any],
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask | None = None,
    device: object = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = -1,
    eps: float = 1e-4,
    plot_jacobians: bool = False,
    metadata: object = None,
    restore_inputs: bool = True,
) -> Jacobians:
    """As ``jacobian``, by central differences of the step ``eps``."""
    given = inputs or ()
    found = _by_differences(function, dim, given, outputs or (), input_output_mask, eps)
    made = _as_arrays(found, given)
    if plot_jacobians:
        jacobian_plot(made, function, inputs)
    return made


@checked_keywords
def gradcheck(
    function: kc.Kernel | Callable[..., Any],
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_mask: Mask | None = None,
    device: object = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    restore_inputs: bool = True,
) -> bool:
    """Whether adjoints agree with differences: ``abs(ad - fd) <= atol + rtol * abs(fd)``.

    Nothing is printed or drawn; other arguments are those of ``jacobian`` and ``jacobian_fd``.

    Raises:
        KernelGradError: They do not, and ``raise_exception`` is set.
    """
    given, out = inputs or (), outputs or ()
    exact = _by_adjoints(function, dim, given, out, input_output_mask)
    numeric = _by_differences(function, dim, given, out, input_output_mask, eps)
    for (i, j), found in exact.items():
        error = np.abs(found - numeric[i, j])
        # NaN is wrong.
        right = error <= atol + rtol * np.abs(numeric[i, j])
        if right.all():
            continue
        if not raise_exception:
            return False
        row, column = np.argwhere(~right)[0]
        raise KernelGradError(
            f"gradcheck: the derivative of number {row} of output {j} with respect to number "
            f"{column} of input {i} is {found[row, column]:.6g} by the adjoint and "
            f"{numeric[i, j][row, column]:.6g} by differences",
            remedy="look for a rule that is wrong, a kink at this point, or another eps",
        )
    return True


@checked_keywords
def gradcheck_tape(
    tape: kc.Tape,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_masks: Mapping[str, Mask] | None = None,
    blacklist_kernels: Sequence[str] | None = None,
    whitelist_kernels: Sequence[str] | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    reverse_launches: bool = False,
    skip_to_launch_index: int = 0,
) -> bool:
    """``kc.gradcheck_tape``, of all launches that ``tape`` recorded.

    Raises:
        KernelArgumentError: Some kernels are to be left out.
    """
    if input_output_masks or blacklist_kernels or whitelist_kernels or skip_to_launch_index:
        raise KernelArgumentError(
            "gradcheck_tape: all launches and all pairs of a Tape are checked",
            remedy="check single kernels with gradcheck",
        )
    return kc.gradcheck_tape(tape, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)


def jacobian_plot(
    jacobians: Mapping[tuple[int, int], Any],
    kernel: kc.Kernel | Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    show_plot: bool = True,
    show_colorbar: bool = True,
    scale_colors_per_submatrix: bool = False,
    title: str | None = None,
    colormap: str = "coolwarm",
    log_scale: bool = False,
) -> Any:
    """Draw Jacobians, a row per output and a column per input; needs matplotlib.

    Args:
        jacobians: By the positions of an input and of an output.
        kernel: Whose they are; its parameters name the rows and columns.
        inputs: Its inputs, of which Warp asks the names.
        show_plot: Whether to show the figure.
        show_colorbar: Whether to draw the scale of colours.
        scale_colors_per_submatrix: Whether each matrix has a scale of its own.
        title: Above the figure.
        colormap: Of matplotlib.
        log_scale: Whether to draw magnitudes on a logarithmic scale.

    Returns:
        The figure.
    """
    matrices = {key: _numbers(matrix) for key, matrix in jacobians.items()}
    sources, targets = (sorted({key[k] for key in matrices}) for k in (0, 1))
    shown = {key: np.log10(np.abs(m)) if log_scale else m for key, m in matrices.items()}
    finite = [m[np.isfinite(m)] for m in shown.values()]
    low, high = (f(np.concatenate([*finite, [0.0]])) for f in (np.min, np.max))
    limits: Any = {} if scale_colors_per_submatrix else {"vmin": low, "vmax": high}
    count = len(inputs or ())
    names = [p.name for p in kernel.parameters] if isinstance(kernel, kc.Kernel) else []
    size = (2.0 + 2.0 * len(sources), 1.0 + 2.0 * len(targets))
    plots: Any = pyplot
    figure, axes = plots.subplots(len(targets), len(sources), squeeze=False, figsize=size)
    for (i, j), matrix in shown.items():
        ax: Any = axes[targets.index(j), sources.index(i)]
        image = ax.imshow(matrix, cmap=colormap, aspect="auto", interpolation="nearest", **limits)
        ax.set_xlabel(names[i] if i < len(names) else f"input {i}")
        ax.set_ylabel(names[count + j] if count and count + j < len(names) else f"output {j}")
        if show_colorbar:
            figure.colorbar(image, ax=ax)
    if title:
        figure.suptitle(title)
    if show_plot:
        plots.show()
    return figure


def _is_tracked(value: Any) -> bool:
    return isinstance(value, kc.Array) and value.requires_grad


def _names(function: Any, inputs: Sequence[Any]) -> tuple[list[str], list[str]]:
    """The parameters of a kernel that are inputs and outputs."""
    names = [p.name for p in function.parameters] if isinstance(function, kc.Kernel) else []
    return names[: len(inputs)], names[len(inputs) :]


def _is_wanted(function: Any, inputs: Sequence[Any], mask: Mask | None, i: int, j: int) -> bool:
    sources, targets = _names(function, inputs)
    if mask is None:
        return True
    ours = {i, *sources[i : i + 1]}, {j, j + len(inputs), *targets[j : j + 1]}
    return any(a in ours[0] and b in ours[1] for a, b in mask)


def _pairs(
    kernel: kc.Kernel, inputs: Sequence[Any], outputs: Sequence[Any], mask: Mask | None
) -> dict[tuple[str, str], tuple[int, int]]:
    """The positions of the wanted pairs of a kernel, by their names."""
    sources, targets = _names(kernel, inputs)
    return {
        (sources[i], targets[j]): (i, j)
        for i, x in enumerate(inputs)
        for j, y in enumerate(outputs)
        if _is_tracked(x) and _is_tracked(y) and _is_wanted(kernel, inputs, mask, i, j)
    }


def _by_adjoints(
    function: Any, dim: Any, inputs: Sequence[Any], outputs: Sequence[Any], mask: Mask | None
) -> _Matrices:
    if isinstance(function, kc.Kernel):
        pairs = _pairs(function, inputs, outputs, mask)
        found = kc.jacobian(function, dim, inputs, outputs, pairs=list(pairs))
        return {pairs[key]: matrix for key, matrix in found.items()}
    with kc.Tape() as tape:
        results = _results(function, inputs)
    matrices: _Matrices = {}
    for j, y in enumerate(results):
        if not _is_tracked(y):
            continue
        sources = [i for i, x in enumerate(inputs) if _is_tracked(x)]
        sources = [i for i in sources if _is_wanted(function, inputs, mask, i, j)]
        seed = np.zeros(np.shape(y.numpy()), y.numpy().dtype)
        for i in sources:
            matrices[i, j] = np.zeros((seed.size, inputs[i].numpy().size))
        for row in range(seed.size if sources else 0):
            seed[...] = 0
            seed.reshape(-1)[row] = 1
            tape.zero()
            tape.backward(grads={y: seed})
            for i in sources:
                matrices[i, j][row] = inputs[i].grad.numpy().reshape(-1)
        tape.zero()
    return matrices


def _by_differences(
    function: Any,
    dim: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    mask: Mask | None,
    eps: float,
) -> _Matrices:
    if isinstance(function, kc.Kernel):
        pairs = _pairs(function, inputs, outputs, mask)
        found = kc.jacobian_fd(function, dim, inputs, outputs, eps=eps, pairs=list(pairs))
        return {pairs[key]: matrix for key, matrix in found.items()}
    matrices: _Matrices = {}
    for i, x in enumerate(inputs):
        if not _is_tracked(x):
            continue
        start = np.array(x.numpy())
        for column in range(start.size):
            ends: list[list[Any]] = []
            for step in (eps, -eps):
                moved = start.copy()
                moved.reshape(-1)[column] += step
                x.assign(moved)
                ends.append([np.array(y.numpy(), float) for y in _results(function, inputs)])
            x.assign(start)
            for j, (above, below) in enumerate(zip(*ends, strict=True)):
                if _is_wanted(function, inputs, mask, i, j):
                    shape = above.size, start.size
                    rows = matrices.setdefault((i, j), np.zeros(shape))
                    rows[:, column] = ((above - below) / (2.0 * eps)).reshape(-1)
    return matrices


def _results(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    found: Any = function(*inputs)
    return [*found] if isinstance(found, tuple | list) else [found]


def _numbers(matrix: Any) -> Any:
    return np.asarray(matrix.numpy() if isinstance(matrix, kc.Array) else matrix)


def _as_arrays(found: _Matrices, inputs: Sequence[Any]) -> Jacobians:
    """Matrices as arrays of the scalar type of their inputs."""
    made: Jacobians = {}
    for (i, j), matrix in found.items():
        dtype = kc.dtype_from_numpy(inputs[i].numpy().dtype)
        made[i, j] = kc.array(matrix, dtype=dtype)
    return made
