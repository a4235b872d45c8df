"""Kernels for C programs: an object file, or PTX, and the header that describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kernelcore.base.errors import FLOAT_PLACE, INTEGER_PLACE, KernelCompileError
from kernelcore.base.host import host
from kernelcore.codegen import abi
from kernelcore.codegen.abi import Field
from kernelcore.codegen.gpu import ptx
from kernelcore.codegen.gpu.architectures import DEFAULT_ARCHITECTURE
from kernelcore.compiler.native_code import object_of
from kernelcore.ir.core import Func
from kernelcore.ir.walk import assertions
from kernelcore.language.types import MAX_GRID_DIMS, ArrayType, Scalar
from kernelcore.passes.access.effects import effects
from kernelcore.passes.pipeline import optimize, standalone

# Of files with code for GPUs.
PTX_SUFFIX = ".ptx"

# Floats of 16 bits are given as their bits: not every C compiler knows them.
C_TYPES = {
    "bool": "uint8_t",
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
}
HEADER = """\
/* The kernel {name}, made by kernelcore for {target}.

{usage}
{statuses}*/
#ifndef {guard}
#define {guard}

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{grid}

typedef struct {{
{fields}
}} {symbol}_args;

{checks}
{declaration}
#ifdef __cplusplus
}}
#endif
#endif
"""
HOST_USAGE = """\
{symbol} runs the points of the grid whose row-major index lies in [begin, end), on the calling
thread; several threads may run parts of one grid. Arrays that the kernel writes share no memory
with others. Elements lie at their natural alignment. Floats are computed with in the mode of the
thread, which should round to nearest and {denormals} denormals. grid->status has {status_bytes}
bytes; *grid->status is 0 before the first call, and a part that fails makes it nonzero and
returns."""
HOST_GRID = """\
#ifndef KC_GRID
#define KC_GRID
/* Extents of the launch, at most {rank} of them used by a kernel; all others are 1. */
typedef struct {{
  int64_t dims[{rank}];
  int64_t *status;
}} kc_grid;
#endif"""
HOST_DECLARATION = """
void {symbol}(const {symbol}_args *args, const kc_grid *grid, int64_t begin, int64_t end);
"""
DEVICE_USAGE = """\
{symbol} is the entry of a module for cuModuleLoadData. Its threads share the points of the grid
whose row-major index lies in [begin, end), whatever blocks along the first axis there are:

  void *parameters[] = {{&args, &grid, &begin, &end}};
  cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL);

with the structs below, int64_t begin and end, and addresses in memory of the device. Arrays that
the kernel writes share no memory with others. Elements lie at their natural alignment. The
{status_bytes} bytes at grid.status, where the device writes, are 0 before the launch; one that
fails makes the first word nonzero."""
DEVICE_GRID = """\
#ifndef KC_DEVICE_GRID
#define KC_DEVICE_GRID
/* Extents of the launch, at most {rank} of them used by a kernel; all others are 1. */
typedef struct {{
  int64_t dims[{rank}];
  int64_t *status;
  int64_t unused[3]; /* 0 */
}} kc_device_grid;
static_assert(sizeof(kc_device_grid) == {grid_bytes}, "layout");
#endif"""


def export(func: Func, path: str | Path, architecture: str | None = None) -> tuple[Path, Path]:
    """Write the kernel ``func`` as an object, or PTX, at ``path`` and its header beside it.

    Args:
        func: A normalized kernel.
        path: With the suffix .ptx for code for GPUs.
        architecture: Of GPUs, for PTX; the oldest by default.

    Returns:
        The paths of the code and of the header.

    Raises:
        KernelCompileError: A name is none in C, or there is no such architecture.
    """
    symbol = f"kc_{_identifier(func.name)}"
    path = Path(path)
    is_device = path.suffix == PTX_SUFFIX
    if architecture is not None and not is_device:
        raise KernelCompileError(
            f"export: expected a path with the suffix {PTX_SUFFIX} for {architecture}, "
            f"found {path.name}",
            remedy="leave the architecture out for code for this processor",
        )
    if is_device:
        architecture = architecture or DEFAULT_ARCHITECTURE
        func = optimize(func)
        code = ptx.ptx_text(func, symbol, architecture).encode()
        text = header(func, symbol, architecture)
    else:
        func = standalone(func)
        code, text = object_of(func, symbol), header(func, symbol)
    described = path.with_suffix(".h")
    path.write_bytes(code)
    described.write_text(text, encoding="utf-8")
    return path, described


def header(func: Func, symbol: str, architecture: str | None = None) -> str:
    """The C header of ``func``, defined as ``symbol`` by an object, or PTX for ``architecture``.

    Raises:
        KernelCompileError: A name is none in C.
    """
    fields, size = abi.layout(func.params)
    names = [f"{_identifier(p.name)}_" for p in func.params]
    if len(set(names)) < len(names):
        raise KernelCompileError(f"export: parameters of '{func.name}' have the same name in C")
    rows: list[str] = []
    checks = [f'static_assert(sizeof({symbol}_args) == {size}, "layout");']
    for name, field, effect in zip(names, fields, effects(func), strict=True):
        rows += _member(name, field, is_written=effect.writes)
        checks.append(
            f'static_assert(offsetof({symbol}_args, {name}) == {field.offset}, "layout");'
        )
    is_device = architecture is not None
    usage, grid = (DEVICE_USAGE, DEVICE_GRID) if is_device else (HOST_USAGE, HOST_GRID)
    status_words = max((len(e.inputs) for e in assertions(func)), default=1)
    processor = f"{host().triple}, {host().cpu}"
    return HEADER.format(
        name=func.name,
        symbol=symbol,
        target=f"GPUs of {architecture} and newer" if is_device else processor,
        usage=usage.format(
            symbol=symbol,
            status_bytes=8 * status_words,
            denormals="flush" if func.flush_denormals else "keep",
        ),
        grid=grid.format(rank=MAX_GRID_DIMS, grid_bytes=abi.GRID_BYTES),
        declaration="" if is_device else HOST_DECLARATION.format(symbol=symbol),
        guard=f"{symbol.upper()}_H",
        fields="\n".join(rows) or "  char unused[8];",
        checks="\n".join(checks if fields else []),
        statuses="\n".join(_statuses(func)) + "\n",
    )


def _member(name: str, field: Field, is_written: bool) -> Iterator[str]:
    """The lines that declare one field of the argument block."""
    if isinstance(field.type, Scalar):
        yield f"  {_c_type(field.type)} {name};"
        return
    assert isinstance(field.type, ArrayType)
    const = "" if is_written else "const "
    pointer = f"{const}{_c_type(field.type.dtype)} *"
    if field.type.ndim == 0:
        yield f"  struct {{ {pointer}data; }} {name};"
        return
    extents = f"[{field.type.ndim}]"
    yield f"  struct {{ {pointer}data; int64_t shape{extents}, stride_bytes{extents}; }} {name};"


def _statuses(func: Func) -> Iterator[str]:
    """The meaning of each value of the status."""
    yield f"\nStatus {abi.STATUS_OUT_OF_MEMORY}: out of memory."
    for number, eqn in enumerate(assertions(func), abi.STATUS_FIRST_ASSERTION):
        words = _with_words(eqn.attrs["text"]).split()
        text = " ".join(words).replace("*/", "* /")
        yield f"Status {number}: {text}"


def _with_words(text: str) -> str:
    """The text of an assertion, with the words of the status at the places for them."""
    shown, word = "", 0
    for c in text:
        word += c in (INTEGER_PLACE, FLOAT_PLACE)
        shown += {
            INTEGER_PLACE: f"status[{word}]",
            FLOAT_PLACE: f"status[{word}], as the bits of a double,",
        }.get(c, c)
    return shown


def _c_type(dtype: Scalar) -> str:
    return C_TYPES.get(dtype.name, f"{dtype.name}_t")


def _identifier(name: str) -> str:
    """``name`` as C has it; the parts of a field of a struct are joined.

    Raises:
        KernelCompileError: It has characters that C has not.
    """
    joined = name.replace(".", "_")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", joined):
        raise KernelCompileError(
            f"export: '{name}' is no name in C", remedy="use letters, digits and underscores"
        )
    return joined
