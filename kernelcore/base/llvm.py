"""LLVM itself, imported and set up when it is first needed."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from kernelcore.base.threads import ForkLock

# LLVM is entered by one thread at a time; llvmlite's own lock covers single calls only. Functions
# are decorated with it: the objects of llvmlite that they leave are then released under the lock.
lock = ForkLock()


@cache
def engine() -> Any:
    """llvmlite's binding of LLVM, ready to make code for this host.

    Its import takes longer than loading a hundred kernels from the disk cache, which need no LLVM.
    """
    with lock:
        llvm: Any = importlib.import_module("llvmlite.binding")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
    return llvm
