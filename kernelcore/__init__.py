"""Compute kernels written once in Python syntax, native operators everywhere, exact derivatives."""

import sys as _sys

from kernelcore import _exports
from kernelcore.base.lazy import export as _export
from kernelcore.language import types
from kernelcore.language.composite_types import CLASSES as _CLASSES
from kernelcore.language.composite_types import matrix as matrix
from kernelcore.language.composite_types import quaternion as quaternion
from kernelcore.language.composite_types import transformation as transformation
from kernelcore.language.composite_types import vector as vector
from kernelcore.language.types import ArrayType as ArrayType
from kernelcore.language.types import bfloat16 as bfloat16
from kernelcore.language.types import boolean as boolean
from kernelcore.language.types import float16 as float16
from kernelcore.language.types import float32 as float32
from kernelcore.language.types import float64 as float64
from kernelcore.language.types import int8 as int8
from kernelcore.language.types import int16 as int16
from kernelcore.language.types import int32 as int32
from kernelcore.language.types import int64 as int64
from kernelcore.language.types import uint8 as uint8
from kernelcore.language.types import uint16 as uint16
from kernelcore.language.types import uint32 as uint32
from kernelcore.language.types import uint64 as uint64

__version__ = "0.1.0"

# The kernel language's names of the types, for annotations and conversions.
bool = boolean
int = int32
float = float32

# They make types, and are looked for beside them.
types.__dict__.update(
    vector=vector, matrix=matrix, quaternion=quaternion, transformation=transformation
)

globals().update(_CLASSES)
# Importing the compiler takes longer than the rest, and declaring kernels does not need it.
_export(
    _sys.modules[__name__],
    {**_exports.ADAPTERS, **_exports.HOMES},
    _exports.operations,
    _exports.ADAPTERS,
    _exports.PACKAGES,
)
