"""Kernels as notebooks show them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from kernelcore.base.errors import KernelError
from kernelcore.base.notebook import preformatted, titled
from kernelcore.launch.infer_types import Parameter

if TYPE_CHECKING:
    from kernelcore.launch.kernel import Kernel


def kernel_html(kernel: Kernel) -> str:
    """What a kernel takes, where it is defined, and the code that was made of it."""
    try:
        texts = map(_text, kernel.parameters)
        rows = [("signature", f"{kernel.name}({', '.join(texts)})")]
    except KernelError as error:
        rows = [("error", error.message)]
    if kernel.loc is not None:
        rows.append(("defined", f"{kernel.loc.file}:{kernel.loc.line}"))
    rows.append(("code", _code(kernel)))
    doc = inspect.getdoc(kernel)
    return titled(f"kernel {kernel.name}", rows, preformatted(doc) if doc else "")


def _text(parameter: Parameter) -> str:
    return f"{parameter.name}: {'Any' if parameter.type is None else parameter.type}"


def _code(kernel: Kernel) -> str:
    """Bytes of code by what they are for; a generic kernel has those of its overloads."""
    kernels = [kernel, *kernel.overloads]
    made = [k.executable.code_bytes for k in kernels if "executable" in k.__dict__]
    texts = [f"{size} bytes for {target}" for sizes in made for target, size in sizes.items()]
    return "; ".join(texts) or "none yet: a kernel is compiled when it is first launched"
