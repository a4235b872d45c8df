"""Arrays in words, for errors."""

from __future__ import annotations

from kernelcore.base.errors import KernelArgumentError
from kernelcore.ir.core import Func
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.effects import GridIndexedAxis, effects

_AXIS_NAMES = "nmklpqrstuvw"


def array_text(type_: ArrayType) -> str:
    """The arrays of ``type_`` in words, as native launchers have them.

    For example 'array of float32 with 2 dimensions', and 'array of elements of 3 float32
    components: shape (n, 3)'.
    """
    if not type_.components:
        return f"array of {dimensions_text(type_.dtype, type_.ndim)}"
    extents = [*_AXIS_NAMES[: type_.outer_ndim], *map(str, type_.components)]
    shape = ", ".join(extents) + ("," if len(extents) == 1 else "")
    count = "x".join(map(str, type_.components))
    what = f"elements of {count} {type_.dtype} components"
    if type_.outer_ndim == 0:
        what = f"the {count} {type_.dtype} components of a value"
    return f"array of {what}: shape ({shape})"


def dimensions_text(dtype: object, ndim: int) -> str:
    """The array that was found, in words: 'float32 with 1 dimension'."""
    return f"{dtype} with {ndim} dimension{'' if ndim == 1 else 's'}"


def annotation_text(wanted: ArrayType, dtype: str) -> str:
    """How a parameter of type ``wanted`` is annotated for elements of ``dtype``."""
    if not wanted.ndim:
        return f"as kc.{dtype}"
    if not wanted.components:
        return f"as an array of {dtype}"
    is_vector = len(wanted.components) == 1 and wanted.components[0] <= 4
    such = f", such as kc.vec{wanted.components[0]}d" if is_vector and dtype == "float64" else ""
    return f"with elements of {dtype} components{such}"


def rank_remedy(wanted: ArrayType) -> str:
    """The remedy for an array with another number of dimensions than ``wanted``."""
    if not wanted.ndim:
        return "pass one without dimensions, such as x.reshape(()) of one element"
    return "reshape it, or annotate the parameter with its number of dimensions"


def beyond_launch(
    func: Func, covered: GridIndexedAxis, found: int, points: int
) -> KernelArgumentError:
    """The error for an array of ``found`` elements on an axis that a launch covers."""
    name = func.params[covered.parameter].name
    is_written = effects(func)[covered.parameter].writes
    return KernelArgumentError(
        f"{func.name}(): argument '{name}': expected at most {points} elements on axis "
        f"{covered.axis}, as many as the launch has, found {found}: the rest would not be computed",
        func.param_loc(covered.parameter),
        f"name the shape of the launch, for example launch_dims='{name}'"
        + (", or that of the output, output_dims, in a function of launches" if is_written else ""),
    )
