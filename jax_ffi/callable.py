"""jax_callable: a Python function that launches kernels, as a function of JAX values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from jax_ffi.arguments import Operands
from jax_ffi.function import JaxFunction
from jax_ffi.host import HostCall
from jax_ffi.options import (
    FrozenOutputDims,
    OutputDims,
    check_vmap_method,
    contract,
    output_shapes,
    with_shapes,
)
from jax_ffi.program import Replay, bind_program
from kernelcore.operators import (
    Declaration,
    Interface,
    Program,
    Programs,
    Scalar,
    Spec,
    cached_property,
    checked_keywords,
    declaration,
    interface,
)


class GraphMode(IntEnum):
    """How the launches of a function are run.

    Attributes:
        JAX: Recorded once and replayed without Python; JAX may make them part of its own graph.
            The default; choose it unless the function must read elements.
        WARP: As JAX, in a graph of their own. For a GPU, where many small launches of one function
            are to be started at once.
        NATIVE: The same as WARP.
        NONE: By calling the function every time, on arrays whose elements it can read. For
            functions that branch on values, or whose launches differ from call to call.
    """

    NONE = 0
    JAX = 1
    WARP = 2
    NATIVE = 2


@dataclass(frozen=True)
class _Specialisation:
    """The function for one choice of output shapes."""

    interface: Interface
    programs: Programs
    operands: Operands
    scalars: tuple[int, ...]
    host: HostCall
    replays: dict[Program, Replay] = field(default_factory=dict[Program, Replay])


@dataclass(frozen=True, eq=False, repr=False)
class JaxCallable(JaxFunction):
    """A Python function that launches kernels, for JAX values; ``jax_callable`` makes it.

    Two of one function with the same options are equal.

    Attributes:
        function: The function.
        spec: Which parameters are results, and their shapes if a call gives none.
        graph_mode: How its launches are run.
        has_side_effect: Whether calls stay although their results are not used.
    """

    function: Callable[..., Any]
    spec: Spec
    graph_mode: GraphMode = GraphMode.JAX
    has_side_effect: bool = False

    @property
    def pyfunc(self) -> Callable[..., Any]:
        """The Python function that it is made of."""
        return self.function

    @cached_property
    def specialisations(self) -> dict[FrozenOutputDims | None, _Specialisation]:
        """The function with the output shapes of calls so far."""
        return {}

    def __call__(
        self,
        *args: Any,
        output_dims: OutputDims | None = None,
        vmap_method: str | None = None,
        **named: Any,
    ) -> tuple[Any, ...]:
        """Run the launches of the function, or trace them.

        Args:
            args: One per parameter other than outputs, in order, as for ``jax_kernel``.
            output_dims: The shape of every output, or a mapping by name; the components of elements
                may be left out.
            vmap_method: Accepted for compatibility, without effect.
            named: Arguments by name.

        Returns:
            The results in the order of the parameters; an array of structs is a dictionary.

        Raises:
            KernelArgumentError: An argument does not fit, or the function does what cannot be
                recorded.
        """
        declared = self._declaration
        check_vmap_method(declared, vmap_method)
        shapes = output_shapes(declared, self.spec.outputs or (), output_dims)
        chosen = self.specialisations.get(shapes)
        if chosen is None:
            chosen = self.specialisations[shapes] = self._specialise(shapes)
        leaves = chosen.interface.arguments.bind(args, named)
        operands = chosen.operands.values(leaves)
        if self.graph_mode is GraphMode.NONE:
            found = chosen.host.call(operands)
        else:
            found = self._replay(chosen, leaves, operands)
        return tuple(tree.unflatten(found) for tree in chosen.interface.trees)

    @cached_property
    def _declaration(self) -> Declaration:
        return declaration(self.function)

    def _replay(self, chosen: _Specialisation, leaves: list[Any], operands: list[Any]) -> list[Any]:
        known = list(operands)
        for index in chosen.scalars:
            is_number = isinstance(leaves[index], bool | int | float | np.generic)
            known[index] = operands[index][()] if is_number else None
        program = chosen.programs.of(known)
        replay = chosen.replays.get(program)
        if replay is None:
            replay = chosen.replays[program] = Replay(
                program, self.has_side_effect, self.graph_mode is GraphMode.WARP
            )
        replay.check_extents([np.shape(x) for x in operands])
        return bind_program(operands, replay)

    def _specialise(self, shapes: FrozenOutputDims | None) -> _Specialisation:
        spec = self.spec if shapes is None else replace(self.spec, output_dims=dict(shapes))
        declared = interface(self.function, spec)
        operands = Operands(
            declared.name,
            declared.arguments.loc,
            declared.operands,
            declared.results,
            declared.operand_locs,
        )
        return _Specialisation(
            declared,
            Programs(declared),
            operands,
            tuple(i for i, o in enumerate(declared.operands) if isinstance(o.type, Scalar)),
            HostCall(declared, self.has_side_effect),
        )


@checked_keywords
def jax_callable(
    func: Callable[..., Any],
    num_outputs: int = 1,
    graph_compatible: bool | None = None,
    graph_mode: GraphMode = GraphMode.JAX,
    vmap_method: str | None = None,
    output_dims: OutputDims | None = None,
    in_out_argnames: str | Iterable[str] | None = None,
    has_side_effect: bool = False,
) -> JaxCallable:
    """Make a function of JAX values of a Python function that launches kernels.

    The function runs once with stand-ins for its arguments, and what it launches is kept; a jitted
    program replays that in one native call. It works under every transformation of JAX, in any
    order. A number that the function reads, as a loop over ``range(n)`` does, makes it run again
    for other values; arrays that it makes with ``kc.zeros`` or ``kc.empty`` are temporaries.

    Args:
        func: A function that returns nothing, with parameters annotated as those of kernels. Its
            last parameters are outputs.
        num_outputs: How many results there are, in-out arguments included.
        graph_compatible: An old form of ``graph_mode``: JAX if true, NONE if false.
        graph_mode: How the launches are run. With NONE the function may read elements, and is
            neither differentiated nor free of Python.
        vmap_method: Accepted for compatibility, without effect.
        output_dims: The shape of every output, or a mapping by name; default: that of the first
            array argument, of outputs that launches over it write at their launch index; other
            launches are refused then.
        in_out_argnames: Arrays that the function updates. They are arguments, which are preserved,
            and results.
        has_side_effect: Whether calls stay although their results are not used.

    Raises:
        KernelArgumentError: The options do not fit the function.
        KernelError: A parameter is not annotated with a type of the kernel language.
    """
    declared = declaration(func)
    check_vmap_method(declared, vmap_method)
    if not isinstance(graph_mode, GraphMode):
        raise declared.refuse(
            f"graph_mode: expected a GraphMode, found {graph_mode!r}", "leave it out"
        )
    if graph_compatible is not None:
        graph_mode = GraphMode.JAX if graph_compatible else GraphMode.NONE
    spec = contract(declared, num_outputs, in_out_argnames, output_dims=output_dims)
    return JaxCallable(func, spec, graph_mode, has_side_effect)


def function_operator(func: Callable[..., Any], spec: Spec) -> JaxCallable:
    """What ``jax_callable`` returns, of a function under a contract that names its outputs."""
    return JaxCallable(func, with_shapes(declaration(func), spec, None, spec.output_dims))
