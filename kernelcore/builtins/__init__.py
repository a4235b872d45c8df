"""The operations of the kernel language: a table entry each, or a function written in it."""

from kernelcore.builtins.declare import Builtin as Builtin
from kernelcore.builtins.functions import LIBRARY as LIBRARY
from kernelcore.builtins.table import BUILTINS as BUILTINS
from kernelcore.builtins.table import OPS as OPS
