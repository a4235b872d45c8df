"""Arrays of any rank: operators see their elements in row-major order as one dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from kernelcore.base.errors import KernelArgumentError, SrcLoc
from kernelcore.language.types import ArrayOf, Dense
from kernelcore.launch.infer_types import Parameter
from kernelcore.runtime.array.array import Array


class AnyRank(NamedTuple):
    """The parameters of an operator that are arrays of any rank.

    Attributes:
        function: The name of the operator.
        loc: Where it is.
        names: The parameters that calls give.
        leaves: The operands, of which a call may give one each in place of all parameters.
        components: By name the components of an element, which are the last axes of an array.
        results: Per result its components; None for one whose rank is known.
    """

    function: str
    loc: SrcLoc | None
    names: tuple[str, ...]
    leaves: tuple[str, ...]
    components: Mapping[str, tuple[int, ...]]
    results: tuple[tuple[int, ...] | None, ...]

    @staticmethod
    def of(
        function: str,
        parameters: Sequence[Parameter],
        names: Sequence[str],
        results: Sequence[str],
        leaves: Sequence[str] = (),
    ) -> AnyRank | None:
        """Those of an operator with some ``parameters``; None if there are none.

        Without ``leaves``, calls give one value per parameter.
        """
        found = {
            p.name: _components(p.wanted)
            for p in parameters
            if isinstance(p.wanted, ArrayOf) and p.wanted.is_flat
        }
        if not any(name in found for name in names):
            return None
        return AnyRank(
            function,
            parameters[0].loc,
            tuple(names),
            tuple(leaves or names),
            found,
            tuple(found.get(r) for r in results),
        )

    def flatten(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...] | None]:
        """The arguments with one dimension, and the shape of the arrays; torch.compile follows it.

        Raises:
            KernelArgumentError: The arrays have several shapes.
        """
        shape: tuple[Any, ...] | None = None
        first = ""
        names = self._names_of(args, kwargs)
        named = self.named(args, kwargs)
        for name, components in self.components.items():
            value = named.get(name)
            found = getattr(value, "shape", None)
            if value is None or found is None:
                continue
            outer = tuple(found)
            if not isinstance(value, Array):
                outer = outer[: len(outer) - len(components)]
            if shape is None:
                shape, first = outer, name
            elif shape != outer:
                raise KernelArgumentError(
                    f"{self.function}(): argument '{name}': expected the shape of '{first}', "
                    f"{shape}, found {outer}",
                    self.loc,
                    "arrays of any rank have one shape: broadcast them before the call",
                )
            if len(outer) != 1:
                # -1 is ambiguous for an element of a batch without elements.
                named[name] = _reshaped(value, (prod(outer),), components)
        count = len(args)
        flat = tuple(named[name] for name in names[:count]) + tuple(args[len(names) :])
        return flat, {name: named[name] for name in kwargs}, shape

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by the name of the parameter, or of its leaf."""
        return {**dict(zip(self._names_of(args, kwargs), args, strict=False)), **kwargs}

    def _names_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
        return self.leaves if len(args) + len(kwargs) == len(self.leaves) else self.names

    def copies(
        self,
        names: Sequence[str],
        call: tuple[Sequence[Any], Mapping[str, Any]],
        flat: tuple[Sequence[Any], Mapping[str, Any]],
    ) -> list[tuple[Any, Any]]:
        """The arrays among ``names`` that ``flatten`` copied, each with its copy.

        Args:
            names: Parameters that the operator updates in place.
            call: The arguments by position and by name.
            flat: The same after ``flatten``.
        """
        given, used = self.named(*call), self.named(*flat)
        found: list[tuple[Any, Any]] = []
        for name in names:
            array, copy = given.get(name), used.get(name)
            if name not in self.components or array is None or copy is None:
                continue
            if isinstance(array, Array):
                is_copy = not array.is_contiguous
            elif hasattr(array, "flags"):
                is_copy = not np.may_share_memory(array, copy)
            else:
                continue
            if is_copy and copy is not array:
                found.append((array, copy))
        return found

    def restore(self, found: Sequence[Any], shape: tuple[Any, ...] | None) -> list[Any]:
        """The results, those of any rank with the shape of the arguments."""
        if shape is None or len(shape) == 1:
            return list(found)
        return [
            one if components is None else _reshaped(one, shape, components)
            for one, components in zip(found, self.results, strict=True)
        ]


def write_back(array: Any, copy: Any) -> None:
    """Give ``array`` the elements of ``copy``, its copy in one dimension."""
    if isinstance(array, Array):
        array.assign(copy.reshape(array.shape))
    else:
        array[...] = copy.reshape(array.shape)


def _components(wanted: ArrayOf) -> tuple[int, ...]:
    return wanted.element.extents if isinstance(wanted.element, Dense) else ()


def _reshaped(value: Any, shape: tuple[Any, ...], components: tuple[int, ...]) -> Any:
    if isinstance(value, Array):
        return value.contiguous().reshape(shape)
    return value.reshape((*shape, *components))
