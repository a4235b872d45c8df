"""``kernel``, ``func`` and ``struct`` for programs written for NVIDIA Warp."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

import kernelcore as kc
from kernelcore.compat.warp.semantics import DIALECT
from kernelcore.language.dialect import written_in
from kernelcore.language.function import require_function

# The kernels of the program, of which one may be asked for the function of another.
_kernels: WeakSet[kc.Kernel] = WeakSet()


def kernel(pyfunc: Callable[..., Any] | None = None, **options: Any) -> Any:
    """``kernelcore.kernel`` with Warp's operators; see ``semantics``.

    Options of Warp's compiler, such as ``enable_backward`` and ``module``, are accepted as
    ``kernelcore.kernel`` accepts them.
    """

    def make(pyfunc: Callable[..., Any]) -> kc.Kernel:
        require_function(pyfunc, "kernel")
        made = kc.kernel(written_in(pyfunc, DIALECT), **options)
        _kernels.add(made)
        return made

    return make if pyfunc is None else make(pyfunc)


class _KernelClass:
    """``kernelcore.Kernel`` with Warp's operators, also of the ``func`` of another kernel."""

    __name__ = "Kernel"

    def __call__(
        self,
        func: Any,
        key: str | None = None,
        module: object = None,
        options: Mapping[str, Any] | None = None,
        code_transformers: object = None,
    ) -> kc.Kernel:
        """Make a kernel; ``module`` and ``code_transformers`` have no effect."""
        pyfunc = next((k.pyfunc for k in _kernels if vars(k).get("func") is func), func)
        require_function(pyfunc, "kernel")
        made = kc.Kernel(written_in(pyfunc, DIALECT), key=key, options=options)
        _kernels.add(made)
        return made

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, kc.Kernel)


Kernel = _KernelClass()


_WITHOUT_EFFECT = ("name", "module", "inline")


def func(pyfunc: Callable[..., Any] | None = None, **options: Any) -> Any:
    """``kernelcore.func`` with Warp's operators; see ``semantics``.

    Options of Warp's compiler have no effect: ``name``, ``module`` and ``inline``.
    """
    options = {name: value for name, value in options.items() if name not in _WITHOUT_EFFECT}

    def make(pyfunc: Callable[..., Any]) -> Any:
        require_function(pyfunc, "func")
        return kc.func(written_in(pyfunc, DIALECT), **options)

    return make if pyfunc is None else make(pyfunc)


def func_grad(function: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``kernelcore.func_grad`` with Warp's operators."""
    return lambda rule: kc.func_grad(function)(written_in(rule, DIALECT))


def func_replay(function: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``kernelcore.func_replay`` with Warp's operators."""
    return lambda rule: kc.func_replay(function)(written_in(rule, DIALECT))
