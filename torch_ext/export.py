"""export_ops: operators as a shared library for C++ programs that have libtorch and no Python."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from kernelcore.base.errors import KernelArgumentError, KernelCompileError
from kernelcore.operators import (
    Binding,
    Extent,
    Operation,
    Role,
    Scalar,
    Shape,
    ZeroFill,
    abi,
    as_array,
    find_compiler,
    messages,
)
from torch_ext.entry import operators_of
from torch_ext.operator import TorchOperator

# What a number of torch's schemas becomes in the argument block, by kind and width.
_NUMBERS = {"float32": "float", "float64": "double", "bool": "uint8_t"}

# What export_runtime.h repeats of the binary interface of kernels.
_ABI = f"""\
static_assert(sizeof(Grid) == {abi.GRID_BYTES}, "the grid of kernels");
static_assert(offsetof(Grid, status) == {abi.GRID_STATUS_OFFSET}, "the status of launches");
static_assert(offsetof(Grid, shared) == {abi.GRID_SHARED_OFFSET}, "the arrays that are shared");
static_assert(offsetof(Grid, log) == {abi.GRID_LOG_OFFSET}, "the log of additions");
static_assert(offsetof(Grid, own) == {abi.GRID_OWN_OFFSET}, "the arrays that calls divide");
static_assert(kStatusWords == {abi.STATUS_WORDS}, "the words of the status");
static_assert(kFirstAssertion == {abi.STATUS_FIRST_ASSERTION}, "the status of assertions");
"""


def export_ops(path: str | Path, ops: Sequence[Callable[..., Any]]) -> Path:
    """Write operators as a shared library, for what ``torch.export`` and AOTInductor made of them.

    A C++ program loads the library (``dlopen``) before it loads the package; it needs libtorch, and
    neither Python nor kernelcore. A launch runs on the calling thread, as one chunk: sums of floats
    over more than 256 points may differ from those of this process in the last places. The code is
    made for the processor of this machine. There are no derivatives in it: programs that train are
    exported with their backward pass as operators of their own.

    Args:
        path: Of the library, which is overwritten.
        ops: What ``torch_op`` or ``kc.op`` returned.

    Returns:
        ``path``.

    Raises:
        KernelArgumentError: An entry of ``ops`` is not an operator.
        KernelCompileError: There is no C++ compiler, or a scalar of 16 bits is a number.
    """
    found: dict[str, TorchOperator] = {}
    for op in ops:
        for operator in operators_of(op):
            found[operator.qualname] = operator
    if not found:
        raise KernelArgumentError(
            "export_ops: no operators", remedy="give what torch_op or kc.op returned"
        )
    compiler = find_compiler("export_ops")
    runtime = resources.files("torch_ext").joinpath("export_runtime.h").read_text()
    with tempfile.TemporaryDirectory() as folder:
        source, objects = Path(folder, "ops.cc"), list[str]()
        kernels: dict[str, str] = {}
        for operator in found.values():
            operation = operator.operation
            if operation.key not in kernels:
                symbol = kernels[operation.key] = f"kc_{operation.key}"
                objects.append(str(Path(folder, f"{symbol}.o")))
                Path(objects[-1]).write_bytes(operation.object_code(symbol))
        parts = [_operator(o, kernels[o.operation.key]) for o in found.values()]
        registered = "\n".join(line for o in found.values() for line in _registration(o))
        body = "\n".join(parts)
        loaded = f"[[gnu::constructor]] static void register_all() {{\n{registered}\n}}\n"
        text = f"{runtime}\n{_ABI}\n{body}\n{loaded}"
        source.write_text(text, encoding="utf-8")
        command = [*compiler, "-std=c++17", "-O2", "-shared", "-fPIC", "-o", str(path)]
        # By name: the process that loads this has the library loaded.
        libraries = [f"-L{Path(torch.__file__).parent}/lib", "-Wl,--no-as-needed", "-ltorch_cpu"]
        ran = subprocess.run(
            [*command, str(source), *objects, *libraries, "-lm"],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            raise KernelCompileError(f"export_ops: the compiler failed:\n{ran.stderr[-2000:]}")
    return Path(path)


def _registration(operator: TorchOperator) -> Iterator[str]:
    namespace, name = operator.qualname.split("::")
    operands = operator.operation.operands
    has_tensors = not all(o.is_number(operator.tensor_values) for o in operands)
    key = "CPU" if has_tensors else "CompositeExplicitAutograd"
    for overload in (operator.public, operator.inner):
        schema = str(overload._schema).partition("::")[2]
        short = overload.name().partition("::")[2].partition(".")[0]
        yield f'  define("{namespace}", {_literal(schema)});'
        yield f'  implement("{namespace}", "{short}", "{key}", run_{name});'


def _operator(operator: TorchOperator, symbol: str) -> str:
    """The C++ function that runs ``operator`` on the stack of a boxed call."""
    operation = operator.operation
    name = operator.qualname.partition("::")[2]
    lines = [
        f'extern "C" Kernel {symbol};',
        f"static void run_{name}(Slot* stack, uint64_t, uint64_t) {{",
    ]
    lines += [f"  {line}" for line in _body(operation, operator.tensor_values, symbol)]
    return "\n".join([*lines, "}"])


def _body(operation: Operation, tensor_values: bool, symbol: str) -> Iterator[str]:
    is_tensor = [not o.is_number(tensor_values) for o in operation.operands]
    # Taken over first: whatever fails, the tensors on the stack are freed.
    for i in (i for i, one in enumerate(is_tensor) if one):
        yield f"Tensor a{i}(reinterpret_cast<TensorHandle>(stack[{i}]));"
    for i in (i for i, one in enumerate(is_tensor) if one):
        yield from _read(operation, i)
    for j, result in enumerate(operation.results):
        dtype = result.type.dtype
        yield f"View r{j};"
        yield f"r{j}.set_shape({_shape(result.shape)}, {dtype.size_bytes});"
        if j < operation.visible:
            yield f"Tensor t{j} = allocate(r{j}, aoti_torch_dtype_{dtype}());"
        else:
            yield f"std::vector<char> h{j}(static_cast<size_t>(r{j}.numel() * r{j}.item) + 1);"
            yield f"r{j}.data = h{j}.data();"
    yield f"std::vector<int64_t> grid{_shape(operation.grid)};"
    yield from _reach_checks(operation)
    yield f"alignas(16) char block[{max(operation.compiled.block_size, 1)}] = {{}};"
    for param, bound in enumerate(operation.bindings):
        yield from _binding(
            operation, param, bound, bound.operand >= 0 and is_tensor[bound.operand]
        )
    texts = ", ".join(_literal(m) for m in messages(operation.optimized))
    flush = str(operation.func.flush_denormals).lower()
    yield f"launch({symbol}, block, grid, {flush}, {{{texts}}});"
    for j in range(operation.visible):
        yield f"stack[{j}] = reinterpret_cast<Slot>(t{j}.release());"


def _read(operation: Operation, i: int) -> Iterator[str]:
    """C++ statements that make a view of operand ``i``, a tensor."""
    operand = operation.operands[i]
    type_ = as_array(operand.type)
    dtype = type_.dtype
    text = _literal(f"{operation.func.name}(): argument '{operand.name}': expected {type_}")
    about = f"{type_.ndim}, aoti_torch_dtype_{dtype}(), {dtype.size_bytes}, {text}"
    yield f"View v{i} = read(a{i}.get(), {about});"
    for axis, extent in enumerate(type_.components, type_.outer_ndim):
        yield f"require(v{i}.shape[{axis}] == {extent}, {text});"


def _binding(operation: Operation, param: int, bound: Binding, is_tensor: bool) -> Iterator[str]:
    """C++ statements that fill the field of one kernel parameter."""
    place = f"block + {operation.compiled.fields[param].offset}"
    i, j = bound.operand, bound.result
    if bound.role is Role.VALUE:
        type_ = operation.func.params[param].type
        assert isinstance(type_, Scalar)
        yield from _value(operation.func.name, type_, i, is_tensor, place)
        return
    if bound.role is Role.INPUT:
        yield f"put({place}, v{i});"
        return
    if i >= 0:
        yield f"copy(v{i}, r{j}, 0, v{i}.data, r{j}.data);"
    elif bound.zero is not ZeroFill.NEVER:
        outer = operation.results[j].type.outer_ndim
        shape = f"std::vector<int64_t>(r{j}.shape, r{j}.shape + {outer})"
        is_partial = bound.zero is ZeroFill.IF_PARTIAL
        yield f"if ({f'{shape} != grid' if is_partial else 'true'}) clear(r{j});"
    yield f"put({place}, r{j});"


def _reach_checks(operation: Operation) -> Iterator[str]:
    """Arrays that the launch index reaches are as large as the launch, covered ones no larger."""
    for param, axis, grid_axis in operation.grid_indexed_axes:
        view = _view(operation.bindings[param])
        name = operation.func.params[param].name
        text = _literal(
            f"{operation.func.name}(): argument '{name}' is smaller than the launch on axis {axis}"
        )
        yield f"require(fits({view}.shape[{axis}], {grid_axis}, grid), {text});"
    for param, axis, grid_axis in operation.covered:
        view = _view(operation.bindings[param])
        name = operation.func.params[param].name
        text = _literal(
            f"{operation.func.name}(): argument '{name}' is larger than the launch on axis {axis}: "
            "name launch_dims"
        )
        yield f"require({view}.shape[{axis}] <= grid[{grid_axis}], {text});"


def _view(bound: Binding) -> str:
    """The view of the array that ``bound`` names."""
    return f"v{bound.operand}" if bound.operand >= 0 else f"r{bound.result}"


def _value(title: str, dtype: Scalar, operand: int, is_tensor: bool, place: str) -> Iterator[str]:
    if is_tensor:
        yield f"std::memcpy({place}, v{operand}.data, {dtype.size_bytes});"
        return
    kind = _NUMBERS.get(dtype.name) or (f"{dtype.name}_t" if dtype.is_integer else None)
    if kind is None:
        raise KernelCompileError(
            f"export_ops: {title}: a number of type {dtype} has no type in C++",
            remedy="declare the parameter as float32",
        )
    if dtype.is_float:
        yield f"double n{operand};"
        yield f"std::memcpy(&n{operand}, stack + {operand}, sizeof n{operand});"
    elif dtype.kind == "bool":
        yield f"bool n{operand} = (stack[{operand}] & 0xff) != 0;"
    else:
        yield f"int64_t n{operand} = static_cast<int64_t>(stack[{operand}]);"
        text = _literal(f"{title}(): a number is out of the range of {dtype}")
        yield f"require(holds<{kind}>(n{operand}), {text});"
    yield f"auto s{operand} = static_cast<{kind}>(n{operand});"
    yield f"std::memcpy({place}, &s{operand}, sizeof s{operand});"


def _shape(shape: Shape) -> str:
    """``shape`` as an initialiser of extents."""
    return "{" + ", ".join(map(_extent, shape)) + "}"


def _extent(extent: Extent) -> str:
    if extent.operand < 0:
        return str(extent.value)
    if extent.axis < 0:
        return f"extent(static_cast<int64_t>(stack[{extent.operand}]))"
    return f"v{extent.operand}.shape[{extent.axis}]"


def _literal(text: str) -> str:
    """``text`` as a string literal of C++, which has no surrogate pairs."""
    return json.dumps(text, ensure_ascii=False)
