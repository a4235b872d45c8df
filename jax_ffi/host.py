"""Calls of a Python function from a program of JAX, on arrays whose elements it can read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.ffi

import kernelcore as kc
from jax_ffi.callback import (
    CudaBuffer,
    HostBuffer,
    RawBuffer,
    call_loan,
    device_at,
    register_handler,
)
from kernelcore import ArrayType
from kernelcore.base.errors import KernelGradError
from kernelcore.operators import (
    ArgumentTree,
    ArrayOf,
    Dense,
    Interface,
    Scalar,
    SourceType,
    StructType,
    default_shapes_checked,
    evaluate,
)

_numbers = itertools.count()


class HostCall:
    """The custom call that runs a function."""

    def __init__(self, interface: Interface, has_side_effect: bool) -> None:
        self.interface = interface
        self.has_side_effect = has_side_effect
        names = [operand.name for operand in interface.operands]
        results = [result.name for result in interface.results]
        self.given = {tree.name: tree for tree in interface.arguments.trees}
        self.made = {tree.name: tree for tree in interface.trees}
        # A result that starts as a copy of an operand may take its memory.
        self.aliases = {names.index(r): k for k, r in enumerate(results) if r in names}
        self.starts = {result: operand for operand, result in self.aliases.items()}
        self.target: str | None = None

    def call(self, operands: Sequence[Any]) -> list[Any]:
        """The results for ``operands``.

        Raises:
            KernelGradError: The call is differentiated.
        """
        if self.target is None:
            self.target = f"kernelcore_host_{next(_numbers)}_{self.interface.name}"
            register_handler(self.target, self._handle_cpu, "cpu", graph_compatible=False)
            register_handler(self.target, self._handle_cuda, "CUDA", graph_compatible=False)
        shapes = [jax.numpy.shape(x) for x in operands]
        types = [
            jax.ShapeDtypeStruct(evaluate(r.shape, shapes), r.type.dtype.numpy)
            for r in self.interface.results
        ]
        run = jax.custom_jvp(
            jax.ffi.ffi_call(
                self.target,
                types,
                has_side_effect=self.has_side_effect,
                vmap_method="sequential",
                input_output_aliases=self.aliases,
            )
        )
        run.defjvp(self._refuse_derivative)
        return list(run(*operands))

    def _refuse_derivative(self, primals: Any, tangents: Any) -> Any:
        name = self.interface.name
        raise KernelGradError(
            f"{name}: differentiated, but made with graph_mode=GraphMode.NONE",
            remedy="use GraphMode.JAX, jax.custom_vjp, or jax.lax.stop_gradient on its arguments",
        )

    def _handle_cpu(
        self,
        inputs: Sequence[RawBuffer],
        outputs: Sequence[RawBuffer],
        attributes: Mapping[str, Any],
        stream: int,
        device: int,
    ) -> None:
        loan = call_loan()
        given = [HostBuffer(raw, loan, is_read_only=True) for raw in inputs]
        made = [HostBuffer(raw, loan, is_read_only=False) for raw in outputs]
        for k, buffer in enumerate(made):
            buffer.numpy()[...] = given[self.starts[k]].numpy() if k in self.starts else 0
        try:
            with kc.ScopedDevice("cpu"):
                self._run(given, made, HostBuffer.numpy)
        finally:
            loan.end()

    def _handle_cuda(
        self,
        inputs: Sequence[RawBuffer],
        outputs: Sequence[RawBuffer],
        attributes: Mapping[str, Any],
        stream: int,
        device: int,
    ) -> None:
        queue = kc.Stream(device_at(device, stream), cuda_stream=stream)
        loan = call_loan()
        with kc.ScopedDevice(queue.device), kc.ScopedStream(queue, sync_enter=False):
            given = [CudaBuffer(raw, loan, stream, is_read_only=True) for raw in inputs]
            made = [CudaBuffer(raw, loan, stream, is_read_only=False) for raw in outputs]
            for k, (_, address, _) in enumerate(outputs):
                if k not in self.starts:
                    made[k].array().zero_()
                elif address != inputs[self.starts[k]][1]:
                    kc.copy(made[k].array(), given[self.starts[k]].array())
            try:
                self._run(given, made, CudaBuffer.array)
            finally:
                loan.end()

    def _run(
        self, given: Sequence[Any], made: Sequence[Any], elements: Callable[[Any], Any]
    ) -> None:
        """Call the function on buffers; ``elements`` are what it reads and writes of fields."""

        def argument(type_: SourceType, tree: ArgumentTree, buffers: Sequence[Any]) -> Any:
            match type_:
                case Scalar():
                    return buffers[tree.leaves[0]].numpy().item()
                case StructType():
                    types = dict(type_.fields)
                    return {p.key: argument(types[p.key], p, buffers) for p in tree.parts}
                case ArrayOf(element=StructType()):
                    return tree.unflatten({k: elements(buffers[k]) for k in tree.leaves})
                case ArrayOf(element=element):
                    return buffers[tree.leaves[0]].array(element)
                case _:
                    assert isinstance(type_, Dense | ArrayType)
                    return buffers[tree.leaves[0]].numpy()

        args = [
            argument(type_, self.made[p.name], made)
            if p.name in self.made
            else argument(type_, self.given[p.name], given)
            for p, type_ in self.interface.parameters
        ]
        with default_shapes_checked(self.interface, args):
            self.interface.function(*args)
