"""``@kernel``: makes a Kernel of a Python function, or of its text; what else may stand for one."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernelcore.base.config import check_module_options
from kernelcore.base.errors import KernelArgumentError
from kernelcore.base.lazy import Deferred
from kernelcore.launch.kernel import Kernel

# Most kernels are functions of files.
if TYPE_CHECKING:
    from kernelcore.language import text_function
else:
    text_function = Deferred("kernelcore.language.text_function")


_OPTIONS = (
    *("name", "enable_backward", "module", "module_options", "launch_bounds", "grid_stride"),
    *("max_unroll", "cuda_max_registers", "enable_cuda_smem_spilling", "cluster_dim"),
    "entry_point_abi",
)


class OfKernel:
    """An operator of one kernel, as ``op`` makes it; it may be given wherever a kernel may."""

    __slots__ = ()

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        raise NotImplementedError


@typing.overload
def kernel(pyfunc: Callable[..., Any]) -> Kernel: ...
@typing.overload
def kernel(
    *,
    source: str,
    globals: dict[str, Any] | None = None,
    flush_denormals: bool | None = None,
    **options: Any,
) -> Kernel: ...
@typing.overload
def kernel(
    *, source: None = None, flush_denormals: bool | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    pyfunc: Callable[..., Any] | None = None,
    *,
    source: str | None = None,
    globals: dict[str, Any] | None = None,
    flush_denormals: bool | None = None,
    **options: Any,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a kernel of a Python function whose parameters are annotated with kernelcore types.

    Its text is that which the file had when the kernel was made. The names of the scopes around it
    have the values that they have at a launch, as in Python: after ``SCALE = 2.0``, or where a
    function that it calls is defined again, the next launch compiles the kernel for that. Values
    that were met before are not compiled again. What is made of a kernel keeps the values that
    names had then: operators of torch and Paddle, functions that JAX has traced, captured graphs,
    recorded launches from their first run on, exported files, and what a Tape has recorded. So do
    default values of parameters, and annotations. Changes inside of an object are not seen.

    ``kernel(source="def scale(x: kc.array[float]): ...")`` makes one of a text, where there is no
    file: in ``python -c``, in code that ``exec`` runs, or of kernels that a program writes. Errors
    show the line of the text.

    Args:
        pyfunc: The function.
        source: Instead of it, the text of its definition, without decorators.
        globals: What names in ``source`` stand for; by default what they do where ``kernel`` is
            called: global names as they are at a launch, local ones of a function as they are now.
        flush_denormals: Whether the kernel, and every kernel that is derived of it, takes subnormal
            numbers for zeros and makes zeros of them. Default: ``config.flush_denormals``.
        options: Of programs written for Warp: ``name`` is the key of the kernel. The others are
            kept in ``Kernel.options`` and have no effect, since adjoints are made when they are
            asked for, and kernels are compiled one by one: ``enable_backward``, ``module``,
            ``launch_bounds``, ``grid_stride``, ``max_unroll`` and other limits of CUDA's compiler.
            ``module_options`` are those of ``set_module_options``.

    Raises:
        KernelArgumentError: ``flush_denormals`` is no bool, or there is no such option.
        KernelTypeError: ``pyfunc`` is no plain Python function.
        KernelSyntaxError: ``source`` is not one definition.
    """
    if flush_denormals is not None and type(flush_denormals) is not bool:
        raise KernelArgumentError(
            f"kernel: flush_denormals: expected a bool, found {flush_denormals!r}"
        )

    _check_options(options)
    key = options.pop("name", None)

    def make(pyfunc: Callable[..., Any]) -> Kernel:
        return Kernel(pyfunc, None, flush_denormals, key=key, options=options)

    if source is not None:
        return make(text_function.function_of_text(source, globals, "kernel"))
    return make if pyfunc is None else make(pyfunc)


def as_kernel(found: object) -> Kernel:
    """The kernel ``found``, or that of an operator.

    Raises:
        KernelArgumentError: It is neither.
    """
    if isinstance(found, OfKernel):
        return found.kernel
    if not isinstance(found, Kernel):
        raise not_a_kernel(found)
    return found


def not_a_kernel(found: object) -> KernelArgumentError:
    """The error for something else where a kernel is expected."""
    return KernelArgumentError(
        f"expected a kernel, found {type(found).__name__}",
        remedy="it is an operator already: call it, or make another of its attribute 'kernel'"
        if isinstance(found, OfKernel)
        else "decorate the function with @kernelcore.kernel",
    )


def _check_options(options: dict[str, Any]) -> None:
    """Refuse options of ``kernel`` that do not exist, or that results would have to follow.

    Raises:
        KernelArgumentError: There is one.
    """
    if not options:
        return
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise KernelArgumentError(
            f"kernel: unknown option {unknown[0]!r}",
            remedy=f"the options are flush_denormals, {', '.join(_OPTIONS)}",
        )
    check_module_options("kernel: module_options", options.get("module_options") or {})
