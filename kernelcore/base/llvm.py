"""LLVM itself, imported and set up when it is first needed."""

from __future__ import annotations

import importlib
import threading
from functools import cache
from typing import Any

# LLVM is entered by one thread at a time; llvmlite's own lock covers single calls only.
lock = threading.RLock()


@cache
def engine() -> Any:
    """llvmlite's binding of LLVM, ready to make code for this host.

    Its import takes longer than loading a hundred kernels from the disk cache, which need no LLVM.
    """
    llvm: Any = importlib.import_module("llvmlite.binding")
    with lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
    return llvm
