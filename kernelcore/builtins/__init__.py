"""The operations of the kernel language, one table entry each."""

from kernelcore.builtins.declare import Builtin as Builtin
from kernelcore.builtins.table import BUILTINS as BUILTINS
from kernelcore.builtins.table import OPS as OPS
