"""Snippets as C++ translation units, and calls of them.

A snippet becomes ``extern "C" void symbol(int64* block)``. The block has a word of eight bytes per
scalar, then for an array its address, extents and strides in bytes; words for the outputs follow.
The text is compiled by the system's compiler (``toolchain.py``) for this processor, and by NVRTC
(``nvrtc.py``) for GPUs, where a prelude of their own comes first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

from kernelcore.base import disk_cache
from kernelcore.base.errors import KernelCompileError
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.ir.core import Atom, Eqn, Func
from kernelcore.ir.op import OpKind
from kernelcore.ir.snippet import (
    Snippet,
    SnippetSlot,
    SnippetType,
    Use,
    Variant,
    is_float_value,
    no_tangent,
    snippet_of,
)
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.flatten import scalars_of
from kernelcore.language.types import ArrayType, Dense, Scalar, element_type

# The file that lines of a snippet are in, to the compiler.
SNIPPET_FILE = "kernelcore.snippet"

_CXX_TYPES = {
    "bool": "bool",
    "float32": "float",
    "float64": "double",
    **{f"{s}int{b}": f"std::{s}int{b}_t" for s in ("", "u") for b in (8, 16, 32, 64)},
}


def snippets(func: Func) -> list[Snippet]:
    """The snippets that ``func`` calls, each variant once."""
    found = (snippet_of(e) for e in walk_eqns(func.body) if e.op.kind is OpKind.SNIPPET)
    return list(dict.fromkeys(found))


def key_of(snippet: Snippet) -> str:
    """32 hexadecimal digits that name the C++ of ``snippet``."""
    return disk_cache.key_of(_prelude("prelude.h") + _unit(snippet, ""))


def symbol_of(snippet: Snippet) -> str:
    """The linker symbol of ``snippet``."""
    return f"kc_native_{key_of(snippet)}"


def source(snippet: Snippet) -> str:
    """The C++ translation unit that defines ``symbol_of(snippet)``."""
    return _prelude("prelude.h") + _unit(snippet, symbol_of(snippet))


def device_source(found: Sequence[Snippet]) -> str:
    """The CUDA C++ that defines the symbols of the snippets ``found``."""
    preludes = _prelude("prelude_cuda.h") + _prelude("prelude.h")
    return preludes + "".join(_unit(snippet, symbol_of(snippet)) for snippet in found)


def words_of(type_: SnippetType) -> int:
    """How many words of the block a slot takes."""
    return 1 + 2 * type_.ndim if isinstance(type_, ArrayType) else len(scalars_of(type_))


def emit_native(e: Emitter, eqn: Eqn) -> list[str]:
    """A call of a snippet."""
    snippet = snippet_of(eqn)
    if snippet.variant is Variant.TANGENT:
        raise no_tangent(eqn)
    arguments = snippet.arguments(eqn.inputs)
    size = sum(words_of(slot.type) for slot, _ in arguments)
    block = e.slot(f"[{max(size + len(eqn.outputs), 1)} x i64]")

    def word(index: int) -> str:
        return e.op(f"getelementptr i64, ptr {block}, i64 {index}")

    at = 0
    for slot, atoms in arguments:
        if isinstance(slot.type, ArrayType):
            for offset, (kind, value) in enumerate(_array_words(e, slot.type, atoms)):
                e.effect(f"store {kind} {value}, ptr {word(at + offset)}")
        else:
            for offset, atom in enumerate(atoms):
                memory.store(e, scalar_type(atom), e.value(atom), word(at + offset))
        at += words_of(slot.type)
    symbol = symbol_of(snippet)
    e.declare(f"declare void @{symbol}(ptr) nounwind")
    e.effect(f"call void @{symbol}(ptr {block})")
    return [memory.load(e, scalar_type(v), word(size + n)) for n, v in enumerate(eqn.outputs)]


def _array_words(e: Emitter, type_: ArrayType, atoms: Sequence[Atom]) -> list[tuple[str, str]]:
    array, indices = e.array(atoms[0]), atoms[1:]
    data = memory.address(e, array, indices)
    inner = slice(len(indices), len(indices) + type_.ndim)
    extents = [("i64", text) for text in (*array.shape[inner], *array.strides[inner])]
    return [("ptr", data), *extents]


def _unit(snippet: Snippet, symbol: str) -> str:
    """What comes after the prelude: the text as a function, and the entry that calls it."""
    is_adjoint = snippet.variant is Variant.ADJOINT
    params, unpack, names = _parameters(snippet)
    at = sum(words_of(slot.type) for slot in snippet.slots)
    pack: list[str] = []
    if is_adjoint:
        for p in filter(is_float_value, snippet.params):
            params.append(f"{_value_type(p.type)}& adj_{p.name}")
            unpack.append(f"  {_value_type(p.type)} adj_{p.name}{{}};")
            names.append(f"adj_{p.name}")
            pack += _store(f"adj_{p.name}", p.type, at)
            at += words_of(p.type)
    result = None if is_adjoint else snippet.result
    function = f"{symbol}_text"
    call = f"{function}({', '.join(names)});"
    if result is not None:
        call = f"const {_value_type(result)} kc_ret = {call}"
        pack += _store("kc_ret", result, at)
    lines = [
        "namespace {",
        f"inline {'void' if result is None else _value_type(result)} {function}("
        f"{', '.join(params)}) {{",
        f'#line 1 "{SNIPPET_FILE}"',
        snippet.text,
        '#line 1 "kernelcore.entry"',
        "}",
        "}  // namespace",
        f'extern "C" void {symbol}(std::int64_t* kc_block) {{',
        "  (void)kc_block;",
        *unpack,
        f"  {call}",
        *pack,
        "}",
    ]
    return "\n".join(lines) + "\n"


def _parameters(snippet: Snippet) -> tuple[list[str], list[str], list[str]]:
    """Parameters of the C++ function, statements that read them from the block, their names."""
    params: list[str] = []
    unpack: list[str] = []
    names: list[str] = []
    at = 0
    for slot in snippet.slots:
        type_ = _array_type(slot) if isinstance(slot.type, ArrayType) else _value_type(slot.type)
        params.append(f"{type_} {slot.name}")
        unpack.append(f"  const {type_} {slot.name}{{{_initializer(slot.type, at)}}};")
        names.append(slot.name)
        at += words_of(slot.type)
    if snippet.variant is Variant.ADJOINT:
        for p, is_given in zip(snippet.params, snippet.given, strict=True):
            if isinstance(p.type, ArrayType) and not is_given and p.is_float:
                element = _cxx(p.type.dtype)
                params.append(f"kc::absent<{element}, {p.type.ndim}> adj_{p.name}")
                names.append("{}")
    return params, unpack, names


def _initializer(type_: SnippetType, at: int) -> str:
    if not isinstance(type_, ArrayType):
        reads = (_read(s, at + n) for n, s in enumerate(scalars_of(type_)))
        return ", ".join(reads)
    data = f"*reinterpret_cast<{_cxx(type_.dtype)}**>(kc_block + {at})"
    shape = ", ".join(f"kc_block[{at + 1 + a}]" for a in range(type_.ndim))
    strides = ", ".join(f"kc_block[{at + 1 + type_.ndim + a}]" for a in range(type_.ndim))
    return f"{data}, {{{shape}}}, {{{strides}}}"


def _read(dtype: Scalar, at: int) -> str:
    return f"*reinterpret_cast<const {_cxx(dtype)}*>(kc_block + {at})"


def _store(name: str, type_: SnippetType, at: int) -> list[str]:
    element = _cxx(element_type(type_))
    count = len(scalars_of(type_))
    if isinstance(type_, Scalar):
        values = [name]
    elif isinstance(type_, Dense) and type_.kind == "matrix":
        values = [f"{name}.c[{n}]" for n in range(count)]
    else:
        values = [f"{name}[{n}]" for n in range(count)]
    return [
        f"  *reinterpret_cast<{element}*>(kc_block + {at + n}) = {v};" for n, v in enumerate(values)
    ]


def _value_type(type_: SnippetType) -> str:
    if not isinstance(type_, Dense):
        return _cxx(element_type(type_))
    sizes = ", ".join(map(str, type_.extents))
    return f"kc::{'matrix' if type_.kind == 'matrix' else 'vector'}<{_cxx(type_.scalar)}, {sizes}>"


def _array_type(slot: SnippetSlot) -> str:
    assert isinstance(slot.type, ArrayType)
    match slot.use:
        case Use.NONE | Use.LOAD:
            access = "Read"
        case Use.STORE if not slot.is_cotangent:
            access = "Write"
        case _:
            access = "Sum" if slot.is_cotangent else "Update"
    return f"kc::array<kc::{access}, {_cxx(slot.type.dtype)}, {slot.type.ndim}>"


def _cxx(dtype: Scalar) -> str:
    if dtype.name not in _CXX_TYPES:
        raise KernelCompileError(f"a native snippet cannot be passed {dtype}")
    return _CXX_TYPES[dtype.name]


@cache
def _prelude(name: str) -> str:
    # Not pathlib: every process that compiles would wait for its import.
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()
