"""IR to code for devices: content hash, registry of this process, disk cache, PTX."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

from kernelcore.base import native
from kernelcore.base.config import config
from kernelcore.base.disk_cache import KEY_DIGITS, default_cache
from kernelcore.base.host import host
from kernelcore.base.source_digest import codegen_version
from kernelcore.codegen import abi
from kernelcore.codegen.abi import Field
from kernelcore.codegen.gpu import ptx
from kernelcore.compiler.native_code import symbol_of
from kernelcore.ir.core import Func
from kernelcore.ir.printer import canonical
from kernelcore.passes.access.accumulation_plan import Order, fixed_order
from kernelcore.passes.autodiff.rules import without_rules

# The suffix of entries of the disk cache.
PTX_SUFFIX = "ptx"


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """Code of a kernel for GPUs of an architecture and newer ones.

    Attributes:
        key: Content hash of IR, architecture, order and all that generates code; the same in every
            process.
        image: PTX that defines ``symbol``.
        fields: The argument block, along the kernel's parameters.
        block_size: Bytes of the argument block.
    """

    key: str
    image: bytes
    fields: tuple[Field, ...]
    block_size: int

    @property
    def symbol(self) -> str:
        """The kernel's name in ``image``."""
        return symbol_of(self.key)

    @property
    def address(self) -> int:
        """There is none in this process."""
        return 0


_codes: dict[str, DeviceCode] = {}


def device_code(func: Func, architecture: str) -> DeviceCode:
    """The code of ``func``: from this process, else from the disk cache, else new.

    With ``config.deterministic``, its sums of floats have one order.

    Args:
        func: A verified kernel without calls.
        architecture: One of ``ptx.ARCHITECTURES``.

    Raises:
        KernelCompileError: ``func`` has what GPUs have no code for.
    """
    func = without_rules(func)
    order = fixed_order(func) if config.deterministic else Order.ANY
    version = ".".join(map(str, host().llvm_version))
    text = "\0".join((canonical(func), architecture, order.name, version, codegen_version()))
    key = hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]
    found = _codes.get(key)
    if found is None:
        # Two threads may make the same code, which is the same.
        found = _codes[key] = DeviceCode(
            key, _image(func, key, architecture, order), *abi.layout(func.params)
        )
    return found


def stored_image(key: str) -> bytes | None:
    """The code of the kernel with content hash ``key``, if this process or the disk has it."""
    found = _codes.get(key)
    if found is not None:
        return found.image
    disk = default_cache(PTX_SUFFIX)
    return disk.load(key) if disk else None


def _image(func: Func, key: str, architecture: str, order: Order) -> bytes:
    disk = default_cache(PTX_SUFFIX)
    image = disk.load(key) if disk else None
    if image is None:
        image = ptx.ptx_text(func, symbol_of(key), architecture, order).encode()
        if disk:
            disk.store(key, image)
    return image


@cache
def architecture_of(ordinal: int) -> str:
    """The newest architecture whose code CUDA device ``ordinal`` runs.

    Raises:
        KernelDeviceError: There is no such device.
    """
    capability = native.cuda_compute_capability(ordinal)
    known = [int(name[3:]) for name in ptx.FORWARD_COMPATIBLE]
    return f"sm_{max(n for n in known if n <= max(capability, min(known)))}"
