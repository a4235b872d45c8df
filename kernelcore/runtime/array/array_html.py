"""Arrays as notebooks show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernelcore.base.notebook import cells, preformatted, titled

if TYPE_CHECKING:
    from kernelcore.runtime.array.array import Array

# Elements of an axis that are shown; the rest is an ellipsis.
_SHOWN = 10


def array_html(array: Array) -> str:
    """What an array is, and its first elements."""
    dtype = getattr(array.dtype, "__name__", str(array.dtype))
    rows = [("dtype", dtype), ("shape", str(array.shape)), ("device", str(array.device))]
    if array.requires_grad:
        rows.append(("requires_grad", "True"))
    return titled("array", rows, _elements(array))


def _elements(array: Array) -> str:
    if array.ndim not in (1, 2) or array.size == 0:
        return preformatted(np.array2string(array.numpy(), threshold=100))
    places = tuple(slice(0, _SHOWN) for _ in array.shape)
    found = array[places].numpy()
    rows = [found] if array.ndim == 1 else list(found)
    texts = [[_text(element) for element in row] for row in rows]
    if array.shape[-1] > _SHOWN:
        texts = [[*row, "…"] for row in texts]
    if array.ndim == 2 and array.shape[0] > _SHOWN:
        texts.append(["…"] * len(texts[0]))
    return cells(texts)


def _text(element: object) -> str:
    return np.array2string(np.asarray(element), precision=6, separator=", ").replace("\n", " ")
