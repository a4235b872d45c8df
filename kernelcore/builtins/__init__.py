"""The operations of the kernel language: one table and a library. May import: ir and below."""

from kernelcore.builtins.declare import Builtin as Builtin
from kernelcore.builtins.functions import LIBRARY as LIBRARY
from kernelcore.builtins.table import BUILTINS as BUILTINS
from kernelcore.builtins.table import OPS as OPS
