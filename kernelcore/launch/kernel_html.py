"""Kernels as notebooks show them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelcore.base.errors import KernelError
from kernelcore.base.notebook import preformatted, titled
from kernelcore.launch.infer_types import Parameter

if TYPE_CHECKING:
    from kernelcore.launch.executable import Executable
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
    # A generic kernel has the code and the launches of its overloads.
    kernels = [version for k in (kernel, *kernel.overloads.values()) for version in k.versions]
    made = [k.executable for k in kernels if "executable" in k.__dict__]
    rows.append(("launches", str(sum(executable.launches for executable in made))))
    rows.append(("code", _code(made)))
    doc = inspect.getdoc(kernel)
    return titled(f"kernel {kernel.name}", rows, preformatted(doc) if doc else "")


def _text(parameter: Parameter) -> str:
    return f"{parameter.name}: {'Any' if parameter.type is None else parameter.type}"


def _code(made: Sequence[Executable]) -> str:
    """Bytes of code by what they are for."""
    sizes = [row for executable in made for row in executable.code_bytes.items()]
    texts = [f"{size} bytes for {target}" for target, size in sizes]
    return "; ".join(texts) or "none yet: a kernel is compiled when it is first launched"
