"""StableHLO as text, for programs that are written without JAX tracing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.interpreters import mlir

from jax_ffi.placement import Pairs, Shape


class Text:
    """Lines of StableHLO; values are names, with their types."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.types: dict[str, str] = {}
        self._channels = 0

    def add(
        self, op: str, inputs: Sequence[str], attributes: str, type_: str, body: str = ""
    ) -> str:
        """Append an operation with one result."""
        name = f"%v{len(self.types)}"
        given = ", ".join(self.types[i] for i in inputs)
        self.lines.append(
            f'{name} = "stablehlo.{op}"({", ".join(inputs)}) {attributes} {body} : '
            f"({given}) -> {type_}"
        )
        self.types[name] = type_
        return name

    def channel(self) -> str:
        self._channels += 1
        return f"channel_handle = #stablehlo.channel_handle<handle = {self._channels}, type = 1>"


class ArrayText:
    """Operations on arrays of one dtype in ``Text``."""

    def __init__(self, text: Text, dtype: Any) -> None:
        self.text = text
        self.element = str(mlir.dtype_to_ir_type(np.dtype(dtype)))

    def type(self, shape: Shape) -> str:
        return f"tensor<{''.join(f'{n}x' for n in shape)}{self.element}>"

    def zeros(self, shape: Shape) -> str:
        zero = "0" if self.element[0] in "iu" else "0.0"
        zero = "false" if self.element == "i1" else zero
        type_ = self.type(shape)
        return self.text.add("constant", [], f"<{{value = dense<{zero}> : {type_}}}>", type_)

    def slice(self, value: str, shape: Shape, axis: int, start: int, stop: int) -> str:
        starts = [start if k == axis else 0 for k in range(len(shape))]
        stops = [stop if k == axis else n for k, n in enumerate(shape)]
        rows = {"limit_indices": stops, "start_indices": starts, "strides": [1] * len(shape)}
        attributes = ", ".join(
            f"{name} = array<i64: {', '.join(map(str, row))}>" for name, row in rows.items()
        )
        made = tuple(b - a for a, b in zip(starts, stops, strict=True))
        return self.text.add("slice", [value], f"<{{{attributes}}}>", self.type(made))

    def dynamic_slice(self, value: str, shape: Shape, axis: int, start: str, size: int) -> str:
        """``size`` elements of ``value`` along ``axis``, from the int32 ``start`` on."""
        sizes = [size if k == axis else n for k, n in enumerate(shape)]
        return self.text.add(
            "dynamic_slice",
            [value, *self._at(shape, axis, start)],
            f"<{{slice_sizes = array<i64: {', '.join(map(str, sizes))}>}}>",
            self.type(tuple(sizes)),
        )

    def dynamic_update_slice(
        self, value: str, shape: Shape, axis: int, start: str, update: str
    ) -> str:
        """``value`` with ``update`` along ``axis``, from the int32 ``start`` on."""
        inputs = [value, update, *self._at(shape, axis, start)]
        return self.text.add("dynamic_update_slice", inputs, "", self.type(shape))

    def _at(self, shape: Shape, axis: int, start: str) -> list[str]:
        zero = self.text.add("constant", [], "<{value = dense<0> : tensor<i32>}>", "tensor<i32>")
        return [start if k == axis else zero for k in range(len(shape))]

    def concatenate(self, values: Sequence[str], shape: Shape, axis: int) -> str:
        attribute = f"<{{dimension = {axis} : i64}}>"
        return self.text.add("concatenate", values, attribute, self.type(shape))

    def permuted(self, value: str, pairs: Pairs) -> str:
        rows = f"dense<{[list(p) for p in pairs]}> : tensor<{len(pairs)}x2xi64>"
        attributes = f"<{{{self.text.channel()}, source_target_pairs = {rows}}}>"
        return self.text.add("collective_permute", [value], attributes, self.text.types[value])

    def added(self, first: str, second: str) -> str:
        return self.text.add("add", [first, second], "", self.text.types[first])

    def reduced(self, operation: str, value: str, groups: list[list[int]]) -> str:
        """``value`` of all devices of each group, combined by ``operation``."""
        one = self.type(())
        body = (
            f"({{\n^bb0(%a: {one}, %b: {one}):\n%s = stablehlo.{operation} %a, %b : {one}\n"
            f"stablehlo.return %s : {one}\n}})"
        )
        rows = f"dense<{groups}> : tensor<{len(groups)}x{len(groups[0])}xi64>"
        attributes = f"<{{{self.text.channel()}, replica_groups = {rows}, use_global_device_ids}}>"
        return self.text.add("all_reduce", [value], attributes, self.text.types[value], body)

    def extremum(self, update: str, value: str, shape: Shape, groups: list[list[int]]) -> str:
        """The maximum ("max") or minimum of ``value`` of all devices of each group.

        Floats are compared as integers of their order: XLA's own reduction drops NaNs on CPUs.
        """
        operation = {"max": "maximum", "min": "minimum"}[update]
        if "f" not in self.element:
            return self.reduced(operation, value, groups)
        bits = int(self.element.lstrip("bf"))
        keys = ArrayText(self.text, f"int{bits}")
        type_, add = keys.type(shape), self.text.add

        def ordered(key: str) -> str:
            """Bits of floats as integers of their order, and such integers as bits."""
            sign = add("shift_right_arithmetic", [key, keys.filled(bits - 1, shape)], "", type_)
            magnitude = add("and", [sign, keys.filled((1 << bits - 1) - 1, shape)], "", type_)
            return add("xor", [key, magnitude], "", type_)

        order = "<{comparison_direction = #stablehlo<comparison_direction NE>}>"
        is_nan = add("compare", [value, value], order, self.type(shape).replace(self.element, "i1"))
        key = ordered(add("bitcast_convert", [value], "", type_))
        last = keys.filled((1 << bits - 1) - 1 if update == "max" else -(1 << bits - 1), shape)
        key = keys.reduced(operation, add("select", [is_nan, last, key], "", type_), groups)
        return add("bitcast_convert", [ordered(key)], "", self.type(shape))

    def filled(self, value: int, shape: Shape) -> str:
        """An array of an integer."""
        type_ = self.type(shape)
        return self.text.add("constant", [], f"<{{value = dense<{value}> : {type_}}}>", type_)
