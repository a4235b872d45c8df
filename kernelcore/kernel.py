"""Kernel: a Python function in the kernel language, compiled when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, overload

from kernelcore import inspection
from kernelcore.compile import compile_func
from kernelcore.errors import KernelArgumentError, KernelError
from kernelcore.frontend.function import Function
from kernelcore.frontend.specialize import specialize_kernel
from kernelcore.ir.core import Func
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.access import Effect, effects
from kernelcore.passes.dce import drop_unused_params
from kernelcore.passes.pipeline import normalize, optimize
from kernelcore.passes.reverse import vjp
from kernelcore.signature import Binding, Role, make_signature
from kernelcore.types import ArrayType


class Kernel:
    """A kernel; ``launch`` runs it over plain arrays, the adapters make operators of it.

    Attributes:
        pyfunc: The Python function that defines it.
        name: Its name.
    """

    def __init__(self, pyfunc: Callable[..., Any]) -> None:
        self.pyfunc = pyfunc
        self.name = pyfunc.__name__
        self.__name__ = pyfunc.__name__
        self.__doc__ = pyfunc.__doc__
        self._adjoints: dict[tuple[tuple[int, ...], tuple[int, ...]], Adjoint] = {}

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise KernelError(
            f"kernel '{self.name}' was called like a function",
            self.func.loc,
            f"run it with kernelcore.launch({self.name}, dim=..., inputs=[...])",
        )

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    @cached_property
    def func(self) -> Func:
        """The kernel as normalized IR.

        Raises:
            KernelError: The source is not in the kernel language; says where.
        """
        return normalize(specialize_kernel(self.pyfunc))

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """What the kernel does to each parameter."""
        return effects(self.func)

    @cached_property
    def direct(self) -> Direct:
        """The kernel on arrays that the caller provides, which do not share memory."""
        return Direct(optimize(self.func))

    @cached_property
    def shared(self) -> Direct:
        """The kernel on arrays that may share memory: it accumulates with atomics only."""
        return Direct(self.func)

    def adjoint(self, wrt: tuple[int, ...], seeds: tuple[int, ...]) -> Adjoint:
        """The adjoint for cotangents of parameters ``wrt``, given those of arrays ``seeds``.

        Raises:
            KernelGradError: The kernel has no exact derivative.
        """
        if (wrt, seeds) not in self._adjoints:
            self._adjoints[wrt, seeds] = Adjoint(self.func, wrt, seeds)
        return self._adjoints[wrt, seeds]

    def inspect(self, stage: str) -> str:
        """One stage of the compiler's work as text.

        Args:
            stage: 'source', 'ir', 'jvp', 'vjp' (with respect to all float parameters), 'llvm' or
                'asm'.
        """
        return inspection.stage_text(self.pyfunc, self.func, stage)


def not_a_kernel(found: object) -> KernelArgumentError:
    """The error for something else where a kernel is expected."""
    return KernelArgumentError(
        f"expected a kernel, found {type(found).__name__}",
        remedy="decorate the function with @kernelcore.kernel",
    )


class Adjoint:
    """An adjoint kernel for arrays that the caller provides.

    Attributes:
        func: The adjoint, without the parameters it does not use.
        order: Per parameter of ``func``: the primal parameter, and whether this is its cotangent.
    """

    def __init__(self, primal: Func, wrt: tuple[int, ...], seeds: tuple[int, ...]) -> None:
        derived = vjp(primal, wrt, seeds)
        self.func, kept = drop_unused_params(normalize(derived.func))
        source = {new: old for old, new in derived.derivative_of.items()}
        self.order = tuple((source.get(i, i), i in source) for i in kept)

    @cached_property
    def direct(self) -> Direct:
        """The adjoint on arrays that the caller provides, which do not share memory."""
        return Direct(optimize(self.func))


class Direct:
    """A kernel over arrays that the caller provides.

    Attributes:
        signature: The kernel as native launchers take it.
        exclusive: Parameters that the code updates without atomics, since no two threads touch
            the same element; true only if no other array and no other index reaches it.
    """

    def __init__(self, func: Func) -> None:
        compiled = compile_func(func)
        bindings: list[Binding] = []
        for index, (param, effect) in enumerate(zip(func.params, effects(func), strict=True)):
            role = Role.OUTPUT if effect.writes else Role.INPUT
            is_array = isinstance(param.type, ArrayType)
            bindings.append(Binding(role if is_array else Role.VALUE, index))
        self.signature = make_signature(func, compiled, bindings)
        owned = {e.inputs[0] for e in walk_eqns(func.body) if e.attrs.get("owned")}
        self.exclusive = tuple(i for i, p in enumerate(func.params) if p in owned)


@overload
def kernel(pyfunc: Callable[..., Any]) -> Kernel: ...
@overload
def kernel() -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    pyfunc: Callable[..., Any] | None = None,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a kernel of a Python function whose parameters are annotated with kernelcore types."""
    return Kernel if pyfunc is None else Kernel(pyfunc)


@overload
def func(pyfunc: Callable[..., Any]) -> Function: ...
@overload
def func() -> Callable[[Callable[..., Any]], Function]: ...
def func(
    pyfunc: Callable[..., Any] | None = None,
) -> Function | Callable[[Callable[..., Any]], Function]:
    """Make a function of the kernel language, to be called from kernels and other functions."""
    return Function if pyfunc is None else Function(pyfunc)
