"""IR as bytes for the disk cache, which only its owner can write: it is trusted as code is."""

from __future__ import annotations

import io
import pickle
from types import MappingProxyType
from typing import Any, cast

from kernelcore.builtins import OPS
from kernelcore.ir import op as grammar
from kernelcore.ir.core import Func
from kernelcore.ir.op import Op

_OPS = {**OPS, **{op.name: op for op in vars(grammar).values() if isinstance(op, Op)}}


class _Pickler(pickle.Pickler):
    """Knows the ops of the table by name, as they hold functions."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Op):
            assert _OPS.get(obj.name) is obj
            return _op, (obj.name,)
        if isinstance(obj, MappingProxyType):
            return _attributes, (dict(cast("Any", obj)),)
        return NotImplemented


def _op(name: str) -> Op:
    return _OPS[name]


def _attributes(found: dict[str, Any]) -> MappingProxyType[str, Any]:
    return MappingProxyType(found)


def dumps(func: Func) -> bytes:
    """``func``, a normalized kernel, for ``loads``."""
    file = io.BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(func)
    return file.getvalue()


def loads(stored: bytes) -> Func:
    """The kernel that ``dumps`` stored."""
    return pickle.loads(stored)
