"""The program of one device for a launch that is cut over several, as StableHLO text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from jax.interpreters import mlir
from jaxlib.mlir import ir

from jax_ffi.attributes import launch_attributes
from jax_ffi.placement import Placement, Shape
from jax_ffi.primitive import Launch, label
from jax_ffi.registration import TARGET
from jax_ffi.stablehlo_text import ArrayText, Text
from kernelcore.operators import AxisSplit, Operation, Role, Window, as_array, local_operation


class _Program:
    """The text of one launch."""

    def __init__(
        self,
        launch: Launch,
        platform: str,
        splits: Mapping[int, AxisSplit],
        placement: Placement,
    ) -> None:
        self.launch = launch
        self.operation = launch.operation
        self.platform = platform
        self.splits = splits
        self.placement = placement
        self.text = Text()
        self._partition: str | None = None

    def made(self) -> str:
        op, at, text = self.operation, self.placement, self.text
        given: list[str] = []
        for k, operand in enumerate(op.operands):
            dtype = as_array(operand.type).dtype.numpy
            name, shape = f"%arg{k}", at.held(at.operands[k], at.operand_cuts[k])
            text.types[name] = ArrayText(text, dtype).type(shape)
            given.append(name)
        arguments = ", ".join(f"{n}: {text.types[n]}" for n in given)
        grid = [at.cuts[a].part if a in at.cuts else n for a, n in enumerate(at.grid)]
        cut = {a: self.splits[a] for a in sorted(at.cuts)}
        guarded = [a for a in cut if at.cuts[a].is_guarded]
        local = local_operation(op, cut, grid, guarded)
        values = [self.operand(k, name) for k, name in enumerate(given)]
        values += [
            *(self.table([at.first(a, p) for p in at.part_of_device(a)]) for a in local.starts),
            *(self.number(at.grid[a]) for a in local.extents),
        ]
        found = self.call(local.operation, values)
        outs = [self.result(k, name) for k, name in enumerate(found[: op.visible])]
        types = ", ".join(text.types[o] for o in outs)
        body = "\n".join(text.lines)
        return (
            f"module @kernelcore {{\nfunc.func public @main({arguments}) -> ({types}) {{\n{body}\n"
            f"return {', '.join(outs)} : {types}\n}}\n}}\n"
        )

    def operand(self, k: int, name: str) -> str:
        """What the kernel is given for operand ``k``: the window with its border."""
        op, at = self.operation, self.placement
        array = ArrayText(self.text, as_array(op.operands[k].type).dtype.numpy)
        shape = at.held(at.operands[k], at.operand_cuts[k])
        bound = next((b for b in op.bindings if b.operand == k), None)
        result = -1 if bound is None or bound.role is not Role.INOUT else bound.result
        if result >= 0:
            name = self.start_of_sum(array, result, name, shape)
        for axis, window in at.operand_cuts[k].items():
            cut, along = at.cuts[axis], window.axis
            is_added = result in self.splits[axis].added
            parts: list[str] = []
            extent, whole = shape[along], at.operands[k][along]
            below, above = cut.borders(window, whole)
            for width, begin, step in ((below, extent - below, 1), (0, 0, 0), (above, 0, -1)):
                if step == 0:
                    parts.append(name)
                elif width and is_added:
                    parts.append(array.zeros(_with_extent(shape, along, width)))
                elif width:
                    edge = array.slice(name, shape, along, begin, begin + width)
                    pairs = at.neighbours(axis, step, window.wraps)
                    parts.append(array.permuted(edge, pairs))
            shape = _with_extent(shape, along, below + extent + above)
            name = array.concatenate(parts, shape, along) if len(parts) > 1 else name
            inner = _with_extent(shape, along, at.window(at.operands[k], {axis: window})[along])
            if inner != shape:
                at_device = self.offset(axis, window, whole)
                name = array.dynamic_slice(name, shape, along, at_device, inner[along])
            shape = inner
        return name

    def offset(self, axis: int, window: Window, extent: int) -> str:
        """Where the window of the device begins in its elements and their borders."""
        offsets = self.placement.cuts[axis].offsets(window, extent)
        return self.table([offsets[p] for p in self.placement.part_of_device(axis)])

    def start_of_sum(self, array: ArrayText, result: int, name: str, shape: Shape) -> str:
        """The start of a result to which every part adds: in one part that which is given."""
        axes = self.summed_axes(result)
        if not axes:
            return name
        places = [self.placement.part_of_device(a) for a in axes]
        is_first = [int(not any(row)) for row in zip(*places, strict=True)]
        chosen = self.table(is_first)
        condition = self.text.add("convert", [chosen], "", "tensor<i1>")
        zeros = array.zeros(shape)
        return self.text.add("select", [condition, name, zeros], "", array.type(shape))

    def summed_axes(self, result: int) -> list[int]:
        return [a for a in self.placement.tiles if result in self.splits[a].sums]

    def result(self, k: int, name: str) -> str:
        """Result ``k`` of the whole: borders go to the neighbours that own them, sums are added."""
        op, at = self.operation, self.placement
        array = ArrayText(self.text, op.results[k].type.dtype.numpy)
        shape = at.window(at.results[k], at.result_cuts[k])
        for axis, window in reversed([*at.result_cuts[k].items()]):
            cut, along, whole = at.cuts[axis], window.axis, at.results[k][window.axis]
            extent, (below, above) = cut.held(whole), cut.borders(window, whole)
            if cut.step(window, whole):
                shape = _with_extent(shape, along, below + extent + above)
                place = self.offset(axis, window, whole)
                name = array.dynamic_update_slice(array.zeros(shape), shape, along, place, name)
            if not below and not above:
                continue
            own = array.slice(name, shape, along, below, below + extent)
            inner = _with_extent(shape, along, extent)
            edges = ((below, 0, -1, extent - below), (above, below + extent, 1, 0))
            for width, begin, step, place in edges if k in self.splits[axis].added else ():
                if width:
                    edge = array.slice(name, shape, along, begin, begin + width)
                    edge = array.permuted(edge, at.neighbours(axis, step, window.wraps))
                    own = self._added_at(array, own, inner, along, place, edge, width)
            name, shape = own, inner
        if axes := self.summed_axes(k):
            name = array.reduced("add", name, at.groups(axes))
        for update in ("max", "min"):
            if axes := [a for a in at.tiles if self.splits[a].extrema.get(k) == update]:
                name = array.extremum(update, name, shape, at.groups(axes))
        return name

    def _added_at(
        self,
        array: ArrayText,
        value: str,
        shape: Shape,
        axis: int,
        place: int,
        edge: str,
        width: int,
    ) -> str:
        """``value`` plus ``edge``, which is ``width`` wide, at ``place``."""
        part = array.slice(value, shape, axis, place, place + width)
        pieces = [array.added(part, edge)]
        if place:
            pieces.insert(0, array.slice(value, shape, axis, 0, place))
        if place + width < shape[axis]:
            pieces.append(array.slice(value, shape, axis, place + width, shape[axis]))
        return array.concatenate(pieces, shape, axis)

    def number(self, value: int) -> str:
        return self.text.add(
            "constant", [], f"<{{value = dense<{value}> : tensor<i32>}}>", "tensor<i32>"
        )

    def table(self, rows: Sequence[int]) -> str:
        """The number that ``rows`` has for the device, an int32."""
        text = self.text
        if self._partition is None:
            self._partition = text.add("partition_id", [], "", "tensor<ui32>")
        type_ = f"tensor<{len(rows)}xi32>"
        all_ = text.add("constant", [], f"<{{value = dense<{list(rows)}> : {type_}}}>", type_)
        one = text.add(
            "dynamic_slice",
            [all_, self._partition],
            "<{slice_sizes = array<i64: 1>}>",
            "tensor<1xi32>",
        )
        return text.add("reshape", [one], "", "tensor<i32>")

    def call(self, local: Operation, values: Sequence[str]) -> list[str]:
        """The launch on one device; per result a name."""
        at, text, op = self.placement, self.text, self.operation
        count = len(values)
        types: list[str] = []
        for k, result in enumerate(op.results):
            shape = at.window(at.results[k], at.result_cuts[k])
            types.append(ArrayText(text, result.type.dtype.numpy).type(shape))
        described = launch_attributes(
            local,
            range(count),
            range(count, count + len(types)),
            platform=self.platform,
            block_dim=self.launch.block_dim,
        )
        config = str(ir.DictAttr.get({k: mlir.ir_attribute(v) for k, v in described.items()}))
        updated = [
            (b.operand, b.result)
            for b in local.bindings
            if b.role in (Role.INOUT, Role.SCRATCH) and b.operand >= 0
        ]
        alias = ", ".join(
            "#stablehlo.output_operand_alias<output_tuple_indices = "
            f"[{r if len(types) > 1 else ''}], operand_index = {k}, operand_tuple_indices = []>"
            for k, r in updated
        )
        layouts = [
            f"{kind} = [{', '.join(map(_row_major, ts))}]"
            for kind, ts in (
                ("operand_layouts", [text.types[v] for v in values]),
                ("result_layouts", types),
            )
        ]
        name = f"%call{len(text.types)}"
        given = ", ".join(text.types[v] for v in values)
        text.lines.append(
            f'{name}:{len(types)} = "stablehlo.custom_call"({", ".join(values)}) <{{'
            f'call_target_name = "{TARGET}", api_version = 4 : i32, backend_config = {config}, '
            f"output_operand_aliases = [{alias}], {', '.join(layouts)}}}> : "
            f"({given}) -> ({', '.join(types)}) loc({json.dumps(label(self.operation))})"
        )
        names = [f"{name}#{k}" for k in range(len(types))]
        text.types.update(zip(names, types, strict=True))
        return names


def _with_extent(shape: Shape, axis: int, extent: int) -> Shape:
    return (*shape[:axis], extent, *shape[axis + 1 :])


def _row_major(type_: str) -> str:
    rank = type_.count("x") if type_.startswith("tensor<") else 0
    order = ", ".join(map(str, reversed(range(rank))))
    return f"dense<[{order}]> : tensor<{rank}xindex>" if rank else "dense<> : tensor<0xindex>"


def local_program(
    launch: Launch, platform: str, splits: Mapping[int, AxisSplit], placement: Placement
) -> str:
    """The module that one device runs for ``launch``."""
    with ir.Context(), ir.Location.unknown():
        return _Program(launch, platform, splits, placement).made()
