"""Native snippets called from Python, for the interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from kernelcore.base.errors import KernelError, SrcLoc
from kernelcore.codegen.snippet import toolchain, translation_unit
from kernelcore.codegen.target import cpu
from kernelcore.ir.snippet import Snippet, SnippetSlot
from kernelcore.language.flatten import scalars_of
from kernelcore.language.types import ArrayType

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@lru_cache(maxsize=256)
def snippet_function(snippet: Snippet) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function that takes one NumPy scalar or array per input that is no index.

    An array has the dimensions of its slot; it is written in place. The outputs are NumPy scalars.

    Raises:
        KernelCompileError: There is no compiler, or it does not accept the text.
    """
    code = toolchain.compile_snippet(snippet)
    entry = _ENTRY(cpu.load(code, translation_unit.symbol_of(snippet)))
    types: list[Any] = []
    for slot in snippet.slots:
        is_array = isinstance(slot.type, ArrayType)
        types += [None] if is_array else scalars_of(slot.type)
    outputs = snippet.output_types

    def call(values: Sequence[Any]) -> tuple[Any, ...]:
        words: list[np.ndarray[Any, Any]] = []
        for type_, value in zip(types, values, strict=True):
            if type_ is None:
                extents = (value.ctypes.data, *value.shape, *value.strides)
                words.append(np.array(extents, np.int64))
            else:
                words.append(_word(type_.numpy.type(value)))
        size = sum(w.size for w in words)
        block = np.concatenate([*words, np.zeros(len(outputs) + 1, np.int64)])
        entry(block.ctypes.data)
        found = (block[size + n : size + n + 1].view(t.numpy)[0] for n, t in enumerate(outputs))
        return tuple(found)

    return call


def passed(slot: SnippetSlot, found: Sequence[Any], loc: SrcLoc | None) -> Sequence[Any]:
    """What a snippet is passed for ``slot``: scalars, or the view of an array at leading indices.

    Raises:
        KernelError: An index out of bounds.
    """
    if not isinstance(slot.type, ArrayType) or len(found) == 1:
        return found
    array, *index = found
    for axis, i in enumerate(index):
        if not 0 <= i < array.shape[axis]:
            extent = array.shape[axis]
            raise KernelError(f"index {i} is out of bounds for axis {axis} of extent {extent}", loc)
    return [array[tuple(index)]]


def _word(value: Any) -> np.ndarray[Any, Any]:
    data = value.tobytes()
    return np.frombuffer(data + bytes(8 - len(data)), np.int64)
