"""Compute kernels written once in Python syntax, native operators everywhere, exact derivatives."""

from typing import TYPE_CHECKING

from kernelcore.array import array as array
from kernelcore.array import array2d as array2d
from kernelcore.array import array3d as array3d
from kernelcore.array import array4d as array4d
from kernelcore.builtins import BUILTINS as _BUILTINS
from kernelcore.errors import KernelArgumentError as KernelArgumentError
from kernelcore.errors import KernelCompileError as KernelCompileError
from kernelcore.errors import KernelError as KernelError
from kernelcore.errors import KernelGradError as KernelGradError
from kernelcore.errors import KernelMemoryError as KernelMemoryError
from kernelcore.errors import KernelNameError as KernelNameError
from kernelcore.errors import KernelSyntaxError as KernelSyntaxError
from kernelcore.errors import KernelTypeError as KernelTypeError
from kernelcore.frontend.function import Function as Function
from kernelcore.frontend.intrinsics import atomic_add as atomic_add
from kernelcore.frontend.intrinsics import tid as tid
from kernelcore.kernel import Kernel as Kernel
from kernelcore.kernel import func as func
from kernelcore.kernel import kernel as kernel
from kernelcore.launch import launch as launch
from kernelcore.runtime.native import num_threads as num_threads
from kernelcore.runtime.native import set_num_threads as set_num_threads
from kernelcore.types import ArrayType as ArrayType
from kernelcore.types import boolean as boolean
from kernelcore.types import float32 as float32
from kernelcore.types import float64 as float64
from kernelcore.types import int32 as int32
from kernelcore.types import int64 as int64

# The kernel language's name of the type.
bool = boolean

if TYPE_CHECKING:
    from kernelcore.builtins.arithmetic import *  # noqa: F403
    from kernelcore.builtins.elementary import *  # noqa: F403
    from kernelcore.builtins.logic import *  # noqa: F403
else:
    # The table alone says what there is.
    globals().update(_BUILTINS)
