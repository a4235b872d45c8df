"""Interface: the operands and results of a Python function that launches kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.base.errors import KernelArgumentError, SrcLoc
from kernelcore.base.threads import cached_property
from kernelcore.language.flatten import leaf_types, named_leaves
from kernelcore.language.source import name_loc
from kernelcore.language.types import ArrayOf, ArrayType, SourceType, is_pattern
from kernelcore.launch.infer_types import Parameter, parameters
from kernelcore.operators.arguments import Arguments, ArgumentTree
from kernelcore.operators.operation import Extent, Operand, Result, Shape, own_shape
from kernelcore.operators.shape_rules import ShapeRules
from kernelcore.operators.spec import Declaration, Spec

_DEFAULT = Spec()


@dataclass(frozen=True, eq=False)
class Interface:
    """The operands and results of a function.

    Attributes:
        function: The function, whose parameters are annotated as those of kernels.
        spec: Its contract, which names the outputs.
        parameters: Its parameters, each with its type.
        shapes: Per output its extents in terms of operands.
        assumed: The outputs whose shape is a default: that of the first array operand.
    """

    function: Callable[..., Any]
    spec: Spec
    parameters: tuple[tuple[Parameter, SourceType], ...]
    shapes: Mapping[str, Shape]
    assumed: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def outputs(self) -> tuple[str, ...]:
        """The parameters that are results only."""
        return self.spec.outputs or ()

    @property
    def in_out(self) -> tuple[str, ...]:
        """The parameters that are operands, and results."""
        return self.spec.in_out

    @cached_property
    def given(self) -> tuple[tuple[Parameter, SourceType], ...]:
        """The parameters that a caller gives, in order."""
        return tuple(row for row in self.parameters if row[0].name not in self.outputs)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The flattened arguments of a call."""
        return tuple(
            Operand(name, leaf)
            for parameter, type_ in self.given
            for name, leaf in named_leaves(parameter.name, type_)
        )

    @cached_property
    def operand_locs(self) -> tuple[SrcLoc | None, ...]:
        """The location of each operand's parameter."""
        return tuple(parameter.loc for parameter, type_ in self.given for _ in leaf_types(type_))

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

    @cached_property
    def arguments(self) -> Arguments:
        """How calls give the operands."""
        loc = self.parameters[0][0].loc if self.parameters else None
        typed = [(p.name, type_) for p, type_ in self.given]
        operands = [operand.name for operand in self.operands]
        return Arguments.of_types(self.name, loc, typed, operands, self.spec.defaults)

    @cached_property
    def trees(self) -> tuple[ArgumentTree, ...]:
        """The parameters that are results, as trees of ``results``."""
        typed = [(p.name, type_) for p, type_ in self.parameters]
        return ArgumentTree.of_all(typed, [result.name for result in self.results])


def declaration(function: Callable[..., Any]) -> Declaration:
    """That of a Python function that launches kernels."""
    rows = declared_parameters(function)
    loc = rows[0][0].loc if rows else None
    return Declaration(function.__name__, tuple(p.name for p, _ in rows), loc)


def with_function_results(function: Callable[..., Any], spec: Spec) -> Spec:
    """``spec`` with the results of ``function``: its last parameter, if it names none."""
    if spec.outputs is not None:
        return spec
    names = [p.name for p, _ in declared_parameters(function)]
    return replace(spec, outputs=() if spec.in_out else tuple(names[-1:]))


def interface(function: Callable[..., Any], spec: Spec = _DEFAULT) -> Interface:
    """The operands and results of ``function``.

    An output without a shape has that of the first array operand, if launches over it write it at
    their launch index.

    Args:
        function: A Python function that launches kernels; its parameters are annotated as those of
            kernels.
        spec: Its contract.

    Raises:
        KernelArgumentError: The parameters are not as ``spec`` says.
    """
    rows = declared_parameters(function)
    spec = with_function_results(function, spec)
    outputs = spec.outputs or ()
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
    for name in (*outputs, *spec.in_out):
        if name not in arrays:
            raise rules.fail(f"'{name}' is no array parameter", f"these are {', '.join(arrays)}")
    if not (outputs or spec.in_out):
        raise rules.fail("no parameter is a result", "name outputs, or arrays that are in-out")
    assumed: set[str] = set()

    def of_first_array(name: str) -> Shape:
        assumed.add(name)
        return rules.shape(rules.first_array("give output_dims"))

    dims: Any = spec.output_dims
    shapes = rules.outputs(outputs, dims, of_first_array)
    return Interface(function, spec, rows, shapes, frozenset(assumed))


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
                "annotate it with a type such as kc.array[float]; kernels that are launched "
                "may be generic, and take indexed arrays",
            )
        found.append((parameter, type_))
    return tuple(found)
