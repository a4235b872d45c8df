"""Interface: the operands and results of a Python function that launches kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelcore.base.errors import KernelArgumentError, SrcLoc
from kernelcore.base.threads import cached_property
from kernelcore.language.flatten import leaf_types, named_leaves
from kernelcore.language.source import name_loc
from kernelcore.language.types import ArrayOf, ArrayType, SourceType, is_pattern
from kernelcore.launch.infer_types import Parameter, parameters
from kernelcore.operators.operation import Extent, Operand, Result, Shape, own_shape
from kernelcore.operators.shape_rules import ShapeRules, ShapeSpec


@dataclass(frozen=True, eq=False)
class Interface:
    """The operands and results of a function.

    Attributes:
        function: The function, whose parameters are annotated as those of kernels.
        parameters: Its parameters, each with its type.
        outputs: Parameters that are results only.
        in_out: Parameters that are operands, and results.
        shapes: Per output its extents in terms of operands.
        assumed: The outputs whose shape is a default: that of the first array operand.
    """

    function: Callable[..., Any]
    parameters: tuple[tuple[Parameter, SourceType], ...]
    outputs: tuple[str, ...]
    in_out: tuple[str, ...]
    shapes: Mapping[str, Shape]
    assumed: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @cached_property
    def arguments(self) -> tuple[tuple[Parameter, SourceType], ...]:
        """The parameters that a caller gives, in order."""
        return tuple(row for row in self.parameters if row[0].name not in self.outputs)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The flattened arguments of a call."""
        return tuple(
            Operand(name, leaf)
            for parameter, type_ in self.arguments
            for name, leaf in named_leaves(parameter.name, type_)
        )

    @cached_property
    def operand_locs(self) -> tuple[SrcLoc | None, ...]:
        """The location of each operand's parameter."""
        return tuple(
            parameter.loc for parameter, type_ in self.arguments for _ in leaf_types(type_)
        )

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """The flattened results, in the order of the parameters."""
        position = {operand.name: k for k, operand in enumerate(self.operands)}
        found: list[Result] = []
        for parameter, type_ in self.parameters:
            name = parameter.name
            if name not in self.outputs and name not in self.in_out:
                continue
            for leaf, kind in named_leaves(name, type_):
                assert isinstance(kind, ArrayType)
                outer = self.shapes[name][: kind.outer_ndim] if name in self.outputs else ()
                shape = (*outer, *map(Extent.literal, kind.components))
                if name in self.in_out:
                    shape = own_shape(position[leaf], kind)
                found.append(Result(leaf, kind, shape))
        return tuple(found)


def interface(
    function: Callable[..., Any],
    outputs: Sequence[str] | None = None,
    in_out: Sequence[str] = (),
    output_dims: ShapeSpec | Mapping[str, ShapeSpec] = None,
) -> Interface:
    """The operands and results of ``function``.

    Args:
        function: A Python function that launches kernels; its parameters are annotated as those of
            kernels.
        outputs: Parameters that are results only. Default: the last one, or none where ``in_out``
            is given.
        in_out: Parameters that are operands, and results that start as copies of them.
        output_dims: The shape of every output, or a mapping by name. Default: that of the first
            array operand, of outputs that launches over it write at their launch index.

    Raises:
        KernelArgumentError: The parameters are not as described.
    """
    rows = declared_parameters(function)
    names = [parameter.name for parameter, _ in rows]
    if outputs is None:
        outputs = () if in_out else names[-1:]
    position: dict[str, int] = {}
    arrays: dict[str, ArrayType] = {}
    count = 0
    for parameter, type_ in rows:
        name = parameter.name
        kinds = leaf_types(type_)
        first = kinds[0]
        if isinstance(type_, ArrayOf) and isinstance(first, ArrayType):
            arrays[name] = first
        if name not in outputs:
            if name in arrays:
                position[name] = count
            count += len(kinds)
    rules = ShapeRules(function.__name__, name_loc(function), arrays, position)
    for name in (*outputs, *in_out):
        if name not in arrays:
            raise rules.fail(f"'{name}' is no array parameter", f"these are {', '.join(arrays)}")
        if name in outputs and name in in_out:
            raise rules.fail(f"'{name}' is an output and in-out", "name it as in-out only")
    if not (outputs or in_out):
        raise rules.fail("no parameter is a result", "name outputs, or arrays that are in-out")
    assumed: set[str] = set()

    def of_first_array(name: str) -> Shape:
        assumed.add(name)
        return rules.shape(rules.first_array("give output_dims"))

    shapes = rules.outputs(outputs, output_dims, of_first_array)
    return Interface(function, rows, tuple(outputs), tuple(in_out), shapes, frozenset(assumed))


def declared_parameters(function: Callable[..., Any]) -> tuple[tuple[Parameter, SourceType], ...]:
    """The parameters of ``function``, each with its type.

    Raises:
        KernelError: An annotation is missing, no type, or stands for several types.
    """
    found: list[tuple[Parameter, SourceType]] = []
    for parameter in parameters(function, None):
        type_ = parameter.type
        if type_ is None or is_pattern(type_) or getattr(type_, "is_indexed", False):
            raise KernelArgumentError(
                f"{function.__name__}: parameter '{parameter.name}': expected one type of number, "
                "composite, struct or array",
                parameter.loc,
                "annotate it with a type such as kc.array(dtype=float); kernels that are launched "
                "may be generic, and take indexed arrays",
            )
        found.append((parameter, type_))
    return tuple(found)
