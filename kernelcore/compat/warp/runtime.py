"""Modules, devices and memory pools of NVIDIA Warp, which mean little or nothing here."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cache
from types import ModuleType
from typing import Any

import kernelcore as kc
from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import KernelArgumentError
from kernelcore.base.keywords import refuse_unknown
from kernelcore.language.types import INTEGERS, AnyFloat, AnyNumber, TypeClass

__all__ = [
    "LOG_DEBUG",
    "LOG_ERROR",
    "LOG_INFO",
    "LOG_WARNING",
    "DeterministicMode",
    "Device",
    "DeviceLike",
    "Float",
    "Int",
    "Module",
    "Scalar",
    "ScopedDevice",
    "clear_kernel_cache",
    "force_load",
    "get_cuda_device",
    "get_cuda_device_count",
    "get_cuda_devices",
    "get_device",
    "get_devices",
    "get_logger",
    "get_mempool_release_threshold",
    "get_module",
    "get_module_options",
    "get_preferred_device",
    "get_suggested_block_size",
    "is_device_available",
    "is_mempool_access_enabled",
    "is_mempool_access_supported",
    "is_mempool_enabled",
    "is_mempool_supported",
    "is_peer_access_enabled",
    "is_peer_access_supported",
    "load_module",
    "set_mempool_access_enabled",
    "set_mempool_enabled",
    "set_mempool_release_threshold",
    "set_module_options",
    "set_peer_access_enabled",
]

LOG_DEBUG, LOG_INFO = logging.DEBUG, logging.INFO
LOG_WARNING, LOG_ERROR = logging.WARNING, logging.ERROR
# What a launch takes when the program does not say; see ``config.block_dim``.
_BLOCK_SIZE = 256


class DeterministicMode(IntEnum):
    """Whether sums on a GPU have one order, for ``config.deterministic``."""

    NOT_GUARANTEED = 0
    RUN_TO_RUN = 1
    GPU_TO_GPU = 2


class LaunchArrayAccessMode(IntEnum):
    """What a launch checks of the devices of its arrays; all are checked in any mode."""

    RELAXED = 0
    CHECKED = 1
    STRICT = 2


# Classes of types for annotations.
Float, Int, Scalar = AnyFloat, TypeClass("Int", INTEGERS), AnyNumber
DeviceLike = Any
# The options of modules in Warp. None has an effect: results are those of IEEE 754, which every
# value allows, and code is made as it is needed.
_OPTIONS: dict[str, Any] = {
    "block_dim": 256,
    "compile_time_trace": False,
    "cpu_compiler_flags": None,
    "cuda_output": None,
    "default_grid_stride": None,
    "deterministic": 0,
    "deterministic_max_records": 0,
    "enable_backward": True,
    "enable_mathdx_fft": None,
    "enable_mathdx_gemm": None,
    "enable_mathdx_solver": None,
    "extra_build_options": None,
    "fast_math": False,
    "fuse_fp": True,
    "lineinfo": False,
    "max_unroll": 16,
    "mode": None,
    "optimization_level": None,
    "strip_hash": False,
}


class Device(kc.Device):
    """``kernelcore.Device``, and what Warp's says of memory and of the driver."""

    __slots__ = ()

    is_uva = is_primary = is_mempool_supported = is_mempool_enabled = False
    is_ipc_supported = is_managed_memory_supported = is_cubin_supported = False
    is_capturing = property(lambda self: kc.is_capturing())
    arch = sm_count = max_shared_memory_per_block = 0
    context = pci_bus_id = uuid = None

    @property
    def ordinal(self) -> int:
        """Its index among the GPUs; -1 is the CPU."""
        return super().ordinal if self.is_cuda else -1

    @property
    def total_memory(self) -> int:
        """The bytes of memory of the host.

        Raises:
            KernelArgumentError: It is a GPU.
        """
        return self._pages("SC_PHYS_PAGES")

    @property
    def free_memory(self) -> int:
        """The free bytes of memory of the host.

        Raises:
            KernelArgumentError: It is a GPU.
        """
        return self._pages("SC_AVPHYS_PAGES")

    def _pages(self, name: str) -> int:
        if self.is_cuda:
            raise KernelArgumentError(
                f"{self}: the memory of a GPU is not known", remedy="ask torch.cuda or nvidia-smi"
            )
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")

    def can_access(self, other: object) -> bool:
        """Whether it is the same device."""
        return self == other


@dataclass(slots=True)
class Module:
    """The kernels of a Python module.

    Attributes:
        name: The name of the Python module.
        options: Those of Warp, with what ``set_module_options`` gave it.
    """

    name: str
    options: dict[str, Any] = field(default_factory=_OPTIONS.copy)

    @property
    def kernels(self) -> dict[str, kc.Kernel]:
        """Its kernels by name."""
        names = vars(sys.modules[self.name]) if self.name in sys.modules else {}
        return {v.name: v for v in names.values() if isinstance(v, kc.Kernel)}

    def load(self, device: object = None, block_dim: int | None = None) -> None:
        """Compile its kernels for the CPU.

        Raises:
            KernelError: One of them cannot be compiled.
        """
        report = kc.compile_all([k for k in self.kernels.values() if not k.is_generic])
        for error in report.failed.values():
            raise error

    def mark_modified(self) -> None:
        """Nothing: a launch takes what the names of a kernel stand for then."""

    def unload(self) -> None:
        """Nothing: code stays as long as its kernels."""


class ScopedDevice(kc.ScopedDevice):
    """``kernelcore.ScopedDevice``, whose block gets the device."""

    def __enter__(self) -> Any:
        super().__enter__()
        return self.device


@cache
def get_module(name: str) -> Module:
    """The kernels of the Python module ``name``."""
    return Module(name)


def _module(module: object) -> Module:
    """The module that is given as such, by its name, or not at all: the caller of the caller's."""
    if isinstance(module, Module):
        return module
    given: Any = module
    if module is None:
        given = sys._getframe(2).f_globals["__name__"]  # pyright: ignore[reportPrivateUsage]
    return get_module(str(getattr(given, "__name__", given)))


def set_module_options(options: Mapping[str, Any], module: object = None) -> None:
    """Set options of a module, by default of the caller's; none has an effect.

    Raises:
        KernelArgumentError: Warp has no such option.
    """
    refuse_unknown("set_module_options", options, list(_OPTIONS))
    _module(module).options.update(options)


def get_module_options(module: object = None) -> dict[str, Any]:
    """The options of a module, by default of the caller's."""
    return dict(_module(module).options)


def load_module(
    module: Module | ModuleType | str | None = None,
    device: object = None,
    recursive: bool = False,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Compile the kernels of a module, by default that of the caller.

    Args:
        module: The module, or its name.
        device: Without effect: kernels are compiled for the CPU, for a GPU when they are launched.
        recursive: Whether to compile those of its submodules that are imported, too.
        block_dim: Without effect.
        max_workers: Without effect; see ``kernelcore.compile_all``.

    Raises:
        KernelError: A kernel cannot be compiled.
    """
    given: Any = sys._getframe(1).f_globals["__name__"] if module is None else module  # pyright: ignore[reportPrivateUsage]
    name: str = given.name if isinstance(given, Module) else getattr(given, "__name__", given)
    inner = [n for n in list(sys.modules) if n.startswith(f"{name}.")] if recursive else []
    for one in (name, *inner):
        get_module(one).load()


def force_load(
    device: object = None,
    modules: Sequence[Module | ModuleType] | None = None,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Compile the kernels of modules, by default of the caller; see ``load_module``."""
    own = str(sys._getframe(1).f_globals["__name__"])  # pyright: ignore[reportPrivateUsage]
    for module in [own] if modules is None else modules:
        load_module(module)


def clear_kernel_cache() -> None:
    """Nothing: the disk cache removes what was not used for long by itself."""


def get_logger() -> logging.Logger:
    """The logger of kernelcore, to which nothing is written without being asked for."""
    return logging.getLogger("kernelcore")


def is_device_available(device: object) -> bool:
    """Whether this machine has ``device``."""
    try:
        kc.get_device(str(device))
    except kc.KernelError:
        return False
    return True


def get_device(ident: object = None) -> Device:
    """A device by its name, by default the current one.

    Raises:
        KernelError: There is none.
    """
    return Device(kc.get_device(ident))


def get_preferred_device() -> Device:
    """The first GPU, or the CPU."""
    return Device(kc.get_preferred_device())


def get_devices() -> list[Device]:
    """All devices, the CPU first."""
    return [Device(found) for found in kc.get_devices()]


def get_cuda_devices() -> list[Device]:
    """All GPUs."""
    return [Device(found) for found in kc.get_cuda_devices()]


def get_cuda_device(ordinal: int | None = None) -> Device:
    """A GPU by its number, the first by default.

    Raises:
        KernelError: There is none.
    """
    return get_device(f"cuda:{ordinal or 0}")


def get_cuda_device_count() -> int:
    """How many GPUs there are."""
    return len(kc.get_cuda_devices())


def get_suggested_block_size(kernel: kc.Kernel, device: object = None) -> tuple[int, int]:
    """The threads of a block that launches take by default, and a number of blocks: one."""
    return kc.config.block_dim or _BLOCK_SIZE, 1


def is_mempool_supported(device: object) -> bool:
    """False: memory of GPUs is kept by kernelcore, not in pools that programs set up."""
    return False


is_mempool_enabled = is_mempool_supported
get_mempool_release_threshold = is_mempool_supported


def is_mempool_access_supported(target_device: object, peer_device: object) -> bool:
    """False: there are no pools, and no access of one GPU to memory of another."""
    return False


is_mempool_access_enabled = is_mempool_access_supported
is_peer_access_enabled = is_mempool_access_supported
is_peer_access_supported = is_mempool_access_supported


def set_mempool_enabled(device: object, enable: bool) -> None:
    """Nothing if ``enable`` is False.

    Raises:
        KernelArgumentError: It is True.
    """
    if enable:
        raise KernelArgumentError(
            "set_mempool_enabled: there are no memory pools to enable",
            remedy="ask is_mempool_supported first, as for devices of Warp without pools",
        )


def set_mempool_release_threshold(device: object, threshold: float) -> None:
    """Nothing: there are no pools."""


def set_mempool_access_enabled(target_device: object, peer_device: object, enable: bool) -> None:
    """As ``set_mempool_enabled``."""
    set_mempool_enabled(target_device, enable)


set_peer_access_enabled = set_mempool_access_enabled
