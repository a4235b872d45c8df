"""IR to PTX: found by its content hash, else made."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from kernelcore.base import native
from kernelcore.base.config import config
from kernelcore.base.disk_cache import key_of
from kernelcore.base.host import host
from kernelcore.base.lazy import Deferred
from kernelcore.base.nesting import refusing_deep_nesting
from kernelcore.base.source_digest import codegen_version
from kernelcore.codegen import abi
from kernelcore.codegen.gpu.architectures import FORWARD_COMPATIBLE
from kernelcore.compiler.code_store import GPU, Compiled, symbol_of
from kernelcore.ir.core import Func
from kernelcore.ir.printer import canonical
from kernelcore.passes.access.accumulation_plan import Order, fixed_order
from kernelcore.passes.autodiff.rules import without_rules

# Adapters import this module, and few programs have a GPU.
if TYPE_CHECKING:
    from kernelcore.codegen.gpu import ptx
else:
    ptx = Deferred("kernelcore.codegen.gpu.ptx")

# Of the entry's name. PTX has letters, digits and underscores, and names of 1,024 at most.
_WORDS = re.compile(r"[A-Za-z0-9]+")
_MAX_LABEL = 200
_DIGITS = 8


def device_code(func: Func, architecture: str) -> Compiled:
    """The code of ``func``: from this process, else from the disk cache, else new.

    With ``config.deterministic``, its sums of floats have one order.

    Args:
        func: A verified kernel without calls.
        architecture: One of ``architectures.ARCHITECTURES``.

    Raises:
        KernelCompileError: ``func`` has what GPUs have no code for.
        KernelSyntaxError: It is nested too deeply.
    """
    func = without_rules(func)
    key = device_key(func, architecture)

    def make() -> bytes:
        with refusing_deep_nesting(f"'{func.name}'", func.loc):
            return ptx.ptx_text(func, symbol_of(key), architecture, _order(func)).encode()

    image, name = named(func.label, key, GPU.find_or_make(key, make)[0])
    return Compiled(key, image, *abi.layout(func.params), name=name)


def device_key(func: Func, architecture: str) -> str:
    """The content hash of the code of ``func``, which is not made; see ``device_code``."""
    func = without_rules(func)
    version = ".".join(map(str, host().llvm_version))
    # Sums are contracted as on this processor.
    has_fma = str(native.has_fma)
    form = (architecture, _order(func).name, version, has_fma, codegen_version())
    return key_of(canonical(func), *form)


def _order(func: Func) -> Order:
    return fixed_order(func) if config.deterministic else Order.ANY


def named(label: str, key: str, image: bytes) -> tuple[bytes, str]:
    """The stored PTX ``image`` with the name of kernel ``label`` for its entry, and that name.

    Profilers of GPUs show the entry. Kernels of one content share their code, not their names.
    """
    words = "_".join(_WORDS.findall(label))[:_MAX_LABEL]
    name = f"kc_{words}_{key[:_DIGITS]}"
    return image.replace(symbol_of(key).encode(), name.encode()), name


@cache
def architecture_of(ordinal: int) -> str:
    """The newest architecture whose code CUDA device ``ordinal`` runs.

    Raises:
        KernelDeviceError: There is no such device.
    """
    capability = native.cuda_compute_capability(ordinal)
    known = [int(name[3:]) for name in FORWARD_COMPATIBLE]
    return f"sm_{max(n for n in known if n <= max(capability, min(known)))}"
