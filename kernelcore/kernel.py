"""Kernel: a Python function in the kernel language, compiled when it is first needed."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from kernelcore import inspection
from kernelcore.builtins.function import Function, Overload, require_function
from kernelcore.compile import compile_func
from kernelcore.errors import KernelArgumentError, KernelError
from kernelcore.frontend.parameters import kernel_parameters
from kernelcore.frontend.source import read_source
from kernelcore.frontend.specialize import specialize_kernel
from kernelcore.generic import Parameter, argument_types, is_leaf, overload_types
from kernelcore.ir.core import Func
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.access import Effect, effects
from kernelcore.passes.dce import drop_unused_params
from kernelcore.passes.pipeline import normalize, optimize
from kernelcore.passes.reverse import vjp
from kernelcore.runtime import native
from kernelcore.signature import Binding, Role, make_signature
from kernelcore.types import ArrayType, SourceType


class Kernel:
    """A kernel; ``launch`` runs it over plain arrays, the adapters make operators of it.

    A generic kernel, with a parameter that may have several types, is a family of kernels:
    ``overload`` gives the one for given types, and ``launch`` the one for its arguments.

    Attributes:
        pyfunc: The Python function that defines it.
        name: Its name.
    """

    def __init__(
        self, pyfunc: Callable[..., Any], types: tuple[SourceType, ...] | None = None
    ) -> None:
        self.pyfunc = pyfunc
        self.name = pyfunc.__name__
        self._types = types
        self._overloads: dict[tuple[SourceType, ...], Kernel] = {}
        self.__name__ = pyfunc.__name__
        self.__doc__ = pyfunc.__doc__
        self._adjoints: dict[tuple[tuple[int, ...], tuple[int, ...]], Adjoint] = {}

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise KernelError(
            f"kernel '{self.name}' was called like a function",
            read_source(self.pyfunc).name_loc(),
            f"run it with kernelcore.launch({self.name}, dim=..., inputs=[...])",
        )

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters as they are declared.

        Raises:
            KernelError: An annotation is not in the kernel language.
        """
        found = tuple(Parameter(*row) for row in kernel_parameters(self.pyfunc))
        if self._types is None:
            return found
        return tuple(replace(p, wanted=type_) for p, type_ in zip(found, self._types, strict=True))

    @cached_property
    def is_generic(self) -> bool:
        """Whether a parameter may have several types."""
        return any(p.type is None for p in self.parameters)

    @cached_property
    def is_plain(self) -> bool:
        """Whether every parameter is one parameter of the IR, given as it is."""
        return all(is_leaf(p.type) for p in self.parameters)

    def overload(self, types: Sequence[object] | Mapping[str, object]) -> Kernel:
        """The kernel for parameters of given types.

        Args:
            types: A type per parameter, in order or by name; parameters that have one type can be
                left out of a mapping.

        Raises:
            KernelTypeError: A type does not match the declaration.
        """
        chosen = overload_types(self.name, self.parameters, types)
        if chosen not in self._overloads:
            self._overloads[chosen] = Kernel(self.pyfunc, chosen)
        return self._overloads[chosen]

    def for_arguments(self, args: Sequence[object]) -> Kernel:
        """The kernel for the types of ``args``; itself if it is not generic.

        Raises:
            KernelTypeError: The types do not match the declaration.
        """
        if not self.is_generic:
            return self
        return self.overload(argument_types(self.name, self.parameters, args))

    @cached_property
    def func(self) -> Func:
        """The kernel as normalized IR.

        Raises:
            KernelError: The source is not in the kernel language; says where.
        """
        return normalize(specialize_kernel(self.pyfunc, self._types))

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """What the kernel does to each parameter."""
        return effects(self.func)

    @cached_property
    def direct(self) -> Direct:
        """The kernel on arrays that the caller provides, which do not share memory."""
        return Direct(optimize(self.func))

    @cached_property
    def ready(self) -> Direct | None:
        """``direct`` if arguments are taken as they are, None if they have to be looked at."""
        return None if self.is_generic or not self.is_plain else self.direct

    @cached_property
    def quick(self) -> native.Signature | None:
        """What to launch if no argument has to be looked at before; else None."""
        direct = self.ready
        return None if direct is None or direct.exclusive else direct.signature

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
            stage: 'source', 'ir', 'jvp', 'vjp' (with respect to all float parameters; it starts
                with what it records), 'llvm' or 'asm'.
        """
        return inspection.stage_text(self.pyfunc, self.func, stage)


def not_a_kernel(found: object) -> KernelArgumentError:
    """The error for something else where a kernel is expected."""
    return KernelArgumentError(
        f"expected a kernel, found {type(found).__name__}",
        remedy="decorate the function with @kernelcore.kernel",
    )


def overload(kernel: Kernel, types: Sequence[object] | Mapping[str, object]) -> Kernel:
    """The kernel that a generic ``kernel`` is for given types; see ``Kernel.overload``."""
    if not isinstance(kernel, Kernel):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise not_a_kernel(kernel)
    return kernel.overload(types)


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
    def reads(self) -> frozenset[int]:
        """The primal parameters whose elements it loads."""
        pairs = zip(self.order, effects(self.func), strict=True)
        return frozenset(i for (i, is_cotangent), e in pairs if e.loads and not is_cotangent)

    @cached_property
    def writes(self) -> frozenset[int]:
        """The primal parameters whose elements it writes."""
        pairs = zip(self.order, effects(self.func), strict=True)
        return frozenset(i for (i, is_cotangent), e in pairs if e.writes and not is_cotangent)

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


@typing.overload
def kernel(pyfunc: Callable[..., Any]) -> Kernel: ...
@typing.overload
def kernel() -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    pyfunc: Callable[..., Any] | None = None,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a kernel of a Python function whose parameters are annotated with kernelcore types.

    The function is read when the kernel is first needed; constants of the scopes around it have the
    values that they have then.

    Raises:
        KernelTypeError: ``pyfunc`` is no plain Python function.
    """
    return _kernel if pyfunc is None else _kernel(pyfunc)


def _kernel(pyfunc: Callable[..., Any]) -> Kernel:
    require_function(pyfunc, "kernel")
    return Kernel(pyfunc)


@typing.overload
def func(pyfunc: Callable[..., Any]) -> Function: ...
@typing.overload
def func() -> Callable[[Callable[..., Any]], Function]: ...
def func(
    pyfunc: Callable[..., Any] | None = None,
) -> Function | Callable[[Callable[..., Any]], Function]:
    """Make a function of the kernel language, to be called from kernels and other functions.

    A second function of the same name in the same place is an overload of the first; with the same
    annotations it takes its place. Where code runs again, as a cell of a notebook does, or defines
    a name that another file defined, it replaces all that the name stood for.

    Raises:
        KernelTypeError: ``pyfunc`` is no plain Python function.
    """
    return _defined if pyfunc is None else _defined(pyfunc)


def _defined(pyfunc: Callable[..., Any]) -> Function:
    """A function with ``pyfunc`` as its last overload."""
    require_function(pyfunc, "func")
    function = _earlier(pyfunc) or Function(pyfunc.__name__)
    function.add(Overload(pyfunc))
    return function


def _earlier(pyfunc: Callable[..., Any]) -> Function | None:
    """What the name of ``pyfunc`` stands for in the module, class or function that defines it."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    found = None if frame is None else frame.f_locals.get(pyfunc.__name__)
    if not isinstance(found, Function) or found.is_library:
        return None
    return found if all(_is_beside(o.pyfunc, pyfunc) for o in found.overloads) else None


def _is_beside(earlier: Callable[..., Any], later: Callable[..., Any]) -> bool:
    """Whether one run of one piece of code defines both: in order, or by a loop."""
    first, second = earlier.__code__, later.__code__
    is_below = second.co_firstlineno > first.co_firstlineno
    return first is second or (first.co_filename == second.co_filename and is_below)
