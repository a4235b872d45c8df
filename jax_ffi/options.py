"""Options of jax_kernel and jax_callable: checked, and in hashable form."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, SupportsIndex, cast

import numpy as np
from jax.core import Tracer

from kernelcore.base.errors import KernelArgumentError, SrcLoc

VMAP_METHODS = (
    *("sequential", "sequential_unrolled", "expand_dims", "broadcast_all"),
    "legacy_vectorized",
)

Dims = int | str | Sequence[int | str]
OutputDims = Dims | Mapping[str, Dims]
# The same in hashable form: a parameter whose shape it is, or extents.
FrozenDims = str | tuple[int | str, ...]
FrozenOutputDims = tuple[tuple[str, FrozenDims], ...]


@dataclass(frozen=True, slots=True)
class Declaration:
    """A kernel or a function as options refer to it: its name, parameters, and where it is."""

    name: str
    parameters: tuple[str, ...]
    loc: SrcLoc | None

    def refuse(self, text: str, remedy: str) -> KernelArgumentError:
        """The error for an option."""
        return KernelArgumentError(f"{self.name}: {text}", self.loc, remedy)

    def in_out_names(self, given: object) -> tuple[str, ...]:
        """The parameters that ``in_out_argnames`` names.

        Raises:
            KernelArgumentError: It names something else.
        """
        known = ", ".join(self.parameters)
        if given is not None and not isinstance(given, Iterable):
            text = f"in_out_argnames: expected names of parameters, found {given!r}"
            raise self.refuse(text, f"its parameters are {known}")
        named = (given,) if isinstance(given, str) else tuple(given or ())
        for name in named:
            if name not in self.parameters:
                text = f"in_out_argnames: no parameter is named '{name}'"
                raise self.refuse(text, f"its parameters are {known}")
        return tuple(n for n in self.parameters if n in named)

    def output_names(self, num_outputs: object, in_out: tuple[str, ...]) -> tuple[str, ...]:
        """The parameters that are results only: the last ones that are not in-out.

        Raises:
            KernelArgumentError: The kernel has fewer parameters.
        """
        remedy = "give the number of results, in-out arguments included"
        if not isinstance(num_outputs, SupportsIndex):
            text = f"num_outputs: expected an integer, found {num_outputs!r}"
            raise self.refuse(text, remedy)
        count = operator.index(num_outputs)
        candidates = [n for n in self.parameters if n not in in_out]
        if count < 1 or not 0 <= count - len(in_out) <= len(candidates):
            text = (
                f"num_outputs: found {count}, with {len(in_out)} in-out arguments "
                f"and {len(self.parameters)} parameters"
            )
            raise self.refuse(text, remedy)
        return tuple(candidates[len(candidates) + len(in_out) - count :])

    def dims(self, spec: Dims) -> FrozenDims:
        """``spec`` in hashable form.

        Raises:
            KernelArgumentError: An entry is neither a number nor text.
        """
        if isinstance(spec, str):
            return spec
        found = entries_of(spec)
        if found is not None:
            return found
        parts = spec if isinstance(spec, list | tuple) else (spec,)
        is_traced = any(isinstance(part, Tracer) for part in parts)
        raise self.refuse(
            "a shape: expected numbers or extents of arguments, "
            f"found {'a value that is traced' if is_traced else repr(spec)}",
            "name an extent that is known at run time only: 'x.shape[0]'",
        )

    def output_dims(self, outputs: tuple[str, ...], spec: OutputDims) -> FrozenOutputDims:
        """Shapes of ``outputs``, by name, in hashable form.

        Raises:
            KernelArgumentError: ``spec`` names something other than an output, or is not a shape.
        """
        if not isinstance(spec, Mapping):
            shape = self.dims(spec)
            return tuple((name, shape) for name in outputs)
        for name in spec:
            if name not in outputs:
                raise self.refuse(
                    f"output_dims: '{name}' is no output",
                    f"its outputs are {', '.join(outputs) or 'in-out arguments only'}",
                )
        return tuple((name, self.dims(spec[name])) for name in outputs if name in spec)

    def check_vmap_method(self, method: str | None) -> None:
        """Refuse a ``method`` that JAX does not have either.

        Raises:
            KernelArgumentError: It is not one of VMAP_METHODS.
        """
        if method is not None and method not in VMAP_METHODS:
            raise self.refuse(
                f"vmap_method: expected one of {', '.join(VMAP_METHODS)}, found {method!r}",
                "leave it out: every instance of a batch runs on its own in any case",
            )


def entries_of(spec: object) -> tuple[int | str, ...] | None:
    """The numbers and the text that ``spec``, a number or many, consists of; None if it does not.

    A mapping or a set is not a shape, because its order is arbitrary.
    """
    try:
        # Arrays without dimensions are numbers, and say only when asked that they are not many.
        if isinstance(spec, SupportsIndex) and np.ndim(cast(Any, spec)) == 0:
            return (operator.index(spec),)
        if not isinstance(spec, Iterable) or isinstance(spec, Mapping | Set):
            return None
        return tuple(e if isinstance(e, str) else operator.index(e) for e in spec)
    except TypeError:
        return None
