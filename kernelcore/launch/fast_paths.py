"""The kernels that native code launches without Python, until a setting changes."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from kernelcore.base.config import config, on_change

if TYPE_CHECKING:
    from kernelcore.launch.kernel import Kernel

# By references that are as equal as the kernels are: each is in it once.
_known: dict[ref[Kernel], None] = {}


def keep(kernels: tuple[Kernel, ...], changes: int) -> None:
    """Keep the fast paths of ``kernels``, which were set just now, until a setting changes.

    ``changes`` is ``config.changes`` from before the kernels were compiled; where another thread
    has changed a setting since then, the paths are not kept.
    """
    for kernel in kernels:
        _known.setdefault(ref(kernel, _forget))
    # Asked once they are known: later changes find them.
    if config.changes != changes:
        for kernel in kernels:
            kernel.cpu_fast_path = kernel.gpu_fast_path = None


def _forget(gone: ref[Kernel]) -> None:
    _known.pop(gone, None)


def _forget_paths() -> None:
    """Let every launch ask for the mode and the checks."""
    # One by one: other threads add and drop kernels meanwhile.
    while _known:
        try:
            kernel = _known.popitem()[0]()
        except KeyError:
            return
        if kernel is not None:
            kernel.cpu_fast_path = kernel.gpu_fast_path = None


on_change.append(_forget_paths)
