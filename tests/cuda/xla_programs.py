"""Programs that JAX lowers for CUDA, run on the fake driver: their calls of handlers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.mlir import ir

import kernelcore as kc
from jax_ffi import callback
from kernelcore import _native
from tests.cuda.xla_frames import CallSite, Memory

STAGES = {"instantiate": _native.xla_cuda_instantiate, "initialize": _native.xla_cuda_initialize}
HANDLERS = {
    "kernelcore_launch": {**STAGES, "execute": _native.xla_cuda_execute},
    "kernelcore_launch_graph": {**STAGES, "execute": _native.xla_cuda_execute_graph},
}


class Program:
    """A function of JAX, lowered for CUDA: kernels and constants, and nothing else."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        lowered = jax.jit(function).trace(*args).lower(lowering_platforms=("cuda",))
        self.text = lowered.as_text()
        # Operations do not keep their module alive.
        self._module: Any = lowered.compiler_ir("stablehlo")
        main = self._module.body.operations[0]
        block = main.body.blocks[0]
        self.operations: Sequence[Any] = list(block.operations)
        self._inputs: Sequence[Any] = list(block.arguments)
        self.sites = {
            k: CallSite(_handlers(_text(op, "call_target_name")), _attributes(op))
            for k, op in enumerate(self.operations)
            if op.operation.name == "stablehlo.custom_call"
        }

    @property
    def site(self) -> CallSite:
        """Its only call."""
        (found,) = self.sites.values()
        return found

    def image(self) -> bytes:
        """The code that its only call holds."""
        (k,) = self.sites
        return _attributes(self.operations[k])["image"].tobytes()

    def initialize(self, device: str, stream: int) -> None:
        """What XLA does before a run."""
        for site in self.sites.values():
            site.initialize(kc.get_device(device).ordinal, stream)

    def place(self, args: Sequence[Any], device: str) -> list[kc.Array]:
        """Arguments, in memory of a device."""
        types = map(_type, self._inputs)
        pairs = zip(args, types, strict=True)
        return [_placed(np.asarray(a, dtype).reshape(shape), device) for a, (shape, dtype) in pairs]

    def __call__(self, *args: Any, device: str = "cuda:0", stream: int = 1) -> list[np.ndarray]:
        self.initialize(device, stream)
        return [made.numpy() for made in self.run(self.place(args, device), device)]

    def run(self, args: Sequence[kc.Array], device: str) -> list[kc.Array]:
        """What it makes of arguments that are on a device."""
        known: dict[Any, kc.Array] = dict(zip(self._inputs, args, strict=True))
        for k, op in enumerate(self.operations):
            name = op.operation.name
            if name == "func.return":
                return [known[operand] for operand in op.operands]
            if name == "stablehlo.constant":
                shape, dtype = _type(op.results[0])
                value = np.broadcast_to(np.array(op.attributes["value"], dtype), shape)
                known[op.results[0]] = _placed(value, device)
                continue
            assert name == "stablehlo.custom_call", name
            known |= self._execute(k, op, known, device)
        raise AssertionError("a program returns")

    def _execute(self, k: int, op: Any, known: dict[Any, kc.Array], device: str) -> dict[Any, Any]:
        given = [known[operand] for operand in op.operands]
        made: dict[Any, kc.Array] = {}
        aliases = dict(_aliases(op))
        for j, result in enumerate(op.results):
            shape, dtype = _type(result)
            if j in aliases:
                # XLA copies what is used after the call, and gives the copy to both.
                made[result] = given[aliases[j]] = kc.clone(given[aliases[j]])
            else:
                made[result] = _empty(shape, dtype, device)
        operands = [_memory(a, v) for a, v in zip(given, op.operands, strict=True)]
        results = [_memory(a, v) for v, a in made.items()]
        self.sites[k].execute(operands, results)
        return made


def _handlers(target: str) -> Mapping[str, object]:
    if target in HANDLERS:
        return HANDLERS[target]
    entry = callback._targets[target, "CUDA"].entry  # pyright: ignore[reportPrivateUsage]
    return {"execute": ctypes.cast(entry, ctypes.c_void_p).value}


def _placed(value: np.ndarray, device: str) -> kc.Array:
    found = kc.array(np.array(value, order="C"), dtype=kc.dtype_from_numpy(value.dtype))
    return found.to(device)


def _empty(shape: Sequence[int], dtype: Any, device: str) -> kc.Array:
    return kc.empty(tuple(shape), dtype=kc.dtype_from_numpy(dtype), device=device)


def _memory(array: kc.Array, value: Any) -> Memory:
    shape, dtype = _type(value)
    return Memory(array.ptr or 0, dtype, shape)


def _type(value: Any) -> tuple[tuple[int, ...], Any]:
    found: Any = value.type
    return tuple(found.shape), _DTYPES[str(found.element_type)]


_DTYPES = {
    "f16": jnp.float16,
    "bf16": jnp.bfloat16,
    "f32": jnp.float32,
    "f64": jnp.float64,
    "i1": jnp.bool_,
    "i8": jnp.int8,
    "i16": jnp.int16,
    "i32": jnp.int32,
    "i64": jnp.int64,
    "ui8": jnp.uint8,
    "ui16": jnp.uint16,
    "ui32": jnp.uint32,
    "ui64": jnp.uint64,
}


def _text(op: Any, name: str) -> str:
    return op.attributes[name].value


def _attributes(op: Any) -> dict[str, Any]:
    return dict(_members(op.attributes["mhlo.backend_config"]))


def _members(attributes: Any) -> Iterator[tuple[str, Any]]:
    for member in attributes:
        attr: Any = member.attr
        match attr:
            case ir.DictAttr():
                yield member.name, dict(_members(attr))
            case ir.StringAttr():
                yield member.name, attr.value
            case ir.IntegerAttr():
                yield member.name, np.int64(attr.value)
            case ir.FloatAttr():
                yield member.name, np.dtype(_DTYPES[str(attr.type)]).type(attr.value)
            case _:
                yield member.name, np.array(attr)


def _aliases(op: Any) -> Iterator[tuple[int, int]]:
    """Results, with the operands whose memory they take."""
    for k, text in enumerate(str(a) for a in op.attributes["output_operand_aliases"]):
        result = text.split("output_tuple_indices = [")[1].split("]")[0]
        operand = text.split("operand_index = ")[1].split(",")[0]
        yield int(result or k if len(op.results) > 1 else 0), int(operand)
