"""Kernel: a Python function in the kernel language, compiled when it is first needed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelcore.base.config import config
from kernelcore.base.errors import KernelError, SrcLoc, labelled
from kernelcore.base.lazy import Deferred
from kernelcore.base.threads import cached_property
from kernelcore.language import function, source, source_check
from kernelcore.language.bound_names import BoundNames
from kernelcore.language.dialect import dialect_of, in_dialect
from kernelcore.launch import fast_paths

# Modules that declare kernels are imported without the compiler.
if TYPE_CHECKING:
    from pathlib import Path

    from kernelcore.base import native
    from kernelcore.compiler import export, kernel_cache, stages
    from kernelcore.compiler.kernel_cache import KernelEntry
    from kernelcore.ir.core import Func
    from kernelcore.language import flatten, pickling
    from kernelcore.language.effect import Effect
    from kernelcore.language.types import ArrayType, Scalar, SourceType
    from kernelcore.launch import adjoint_kernel, executable, infer_types, kernel_facts, kernel_html
    from kernelcore.launch.adjoint_kernel import Adjoint, Derivation
    from kernelcore.launch.executable import CachedGpuLaunch, Executable
    from kernelcore.launch.infer_types import Parameter
    from kernelcore.launch.tangent_launch import TangentKernel
    from kernelcore.passes import pipeline
else:
    adjoint_kernel = Deferred("kernelcore.launch.adjoint_kernel")
    executable = Deferred("kernelcore.launch.executable")
    export = Deferred("kernelcore.compiler.export")
    infer_types = Deferred("kernelcore.launch.infer_types")
    kernel_html = Deferred("kernelcore.launch.kernel_html")
    stages = Deferred("kernelcore.compiler.stages")
    kernel_facts = Deferred("kernelcore.launch.kernel_facts")
    flatten = Deferred("kernelcore.language.flatten")
    pickling = Deferred("kernelcore.language.pickling")
    pipeline = Deferred("kernelcore.passes.pipeline")
    kernel_cache = Deferred("kernelcore.compiler.kernel_cache")


# Versions of a kernel that are kept, for different objects behind the names around it.
_MOST_VERSIONS = 16
# What users need of a kernel; completion offers these, and the rest is for kernelcore.
_PUBLIC = {
    *("pyfunc", "name", "key", "parameters", "loc", "is_generic", "module", "options", "inspect"),
    *("export", "overload", "add_overload"),
}
_NO_KEY = re.compile("[^0-9a-zA-Z_]+")


class Kernel:
    """A kernel; ``launch`` runs it over plain arrays, the adapters make operators of it.

    A generic kernel, with a parameter that may have several types, is a family of kernels:
    ``overload`` gives the one for given types, and ``launch`` the one for its arguments.

    What the names around it stand for, and what the settings are, is read when the kernel
    is first needed. Where that is something else later, ``current`` gives another version of the
    kernel, which ``launch`` runs.

    Attributes:
        pyfunc: The Python function that defines it.
        name: Its name.
        key: Another name that the program chose; by default the qualified one.
        options: The options of ``@kernel`` that it was declared with.
    """

    # Native code reads `cpu_fast_path` in every launch, from a slot sooner than from a dict.
    __slots__ = ("__dict__", "__weakref__", "cpu_fast_path")

    def __init__(
        self,
        func: Callable[..., Any],
        types: tuple[SourceType, ...] | None = None,
        flush_denormals: bool | None = None,
        *,
        key: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        function.require_function(func, "kernel")
        source_check.note_text(func)
        pyfunc = self.pyfunc = func
        self.name = pyfunc.__name__
        self._types = types
        # None: as the settings say.
        self._flush_denormals = flush_denormals
        self.key = _NO_KEY.sub("", pyfunc.__qualname__.replace(".", "__")) if key is None else key
        self.options = dict(options or {})
        # Those that were asked for, by the types of parameters.
        self.overloads: dict[tuple[SourceType, ...], Kernel] = {}
        self.__name__ = pyfunc.__name__
        self.__qualname__ = pyfunc.__qualname__
        self.__doc__ = pyfunc.__doc__
        self.__module__ = pyfunc.__module__
        # Its signature and source, for the module inspect.
        self.__wrapped__ = pyfunc
        # Those that were derived.
        self.adjoints: dict[Derivation, Adjoint] = {}
        # Those that ``launch`` may run, by the parameters of which it gives cotangents.
        self.launched_adjoints: dict[tuple[tuple[int, ...], frozenset[int]], Adjoint] = {}
        # The kernels of tangents, by active parameters and axes with one point.
        self.launched_jvps: dict[tuple[tuple[int, ...], frozenset[int]], TangentKernel] = {}
        # What to launch on the CPU if no argument has to be looked at before.
        # With names, a tuple: that of a version, the version, and the names while it is current.
        self.cpu_fast_path: (
            native.LaunchDescriptor
            | tuple[native.LaunchDescriptor, Kernel, native.BoundNames]
            | None
        ) = None
        self._names = BoundNames()
        # The kernel for each state of the names around it, the one that was current last in front.
        self.versions: list[Kernel] = [self]
        # The same for arrays on a GPU.
        self.gpu_fast_path: CachedGpuLaunch | None = None
        # A Tape's LaunchPlans by the kinds of arguments, with the halves that native code follows.
        self.tape_plans: dict[bytes, tuple[Any, native.NativePlan | None]] = {}
        # Those for launches with one point on some axes, where the others have no adjoint.
        self.single_tape_plans: dict[tuple[bytes, frozenset[int]], Any] = {}

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise KernelError(
            f"kernel '{self.name}' was called like a function",
            self.loc,
            f"run it with kernelcore.launch({self.name}, dim=..., inputs=[...])",
        )

    def __repr__(self) -> str:
        return f"<{in_dialect('kernel', self.pyfunc)} {self.name}>"

    def _repr_html_(self) -> str:
        return kernel_html.kernel_html(self)

    def __dir__(self) -> Iterable[str]:
        return sorted(_PUBLIC | {name for name in super().__dir__() if name.startswith("__")})

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return pickling.reduced(self, self.pyfunc, self._by_source)

    def _by_source(self) -> tuple[Any, ...]:
        text = pickling.FunctionText.of(self.pyfunc)
        made_of = text, self._types, self._flush_denormals, self.key, self.options
        return _from_text, made_of, pickling.captured(self.pyfunc)

    def __setstate__(self, state: dict[str, Any]) -> None:
        pickling.restore(self.pyfunc, state)

    def _variant(self, types: tuple[SourceType, ...] | None) -> Kernel:
        """The same kernel, unread, for parameters of ``types``."""
        flush = self._flush_denormals
        return Kernel(self.pyfunc, types, flush, key=self.key, options=self.options)

    @property
    def module(self) -> Any:
        """The Python module that defines it, for ``set_module_options``; Warp's of its dialect."""
        dialect = dialect_of(self.pyfunc)
        return (sys.modules.get if dialect is None else dialect.module)(self.__module__)

    @cached_property
    def loc(self) -> SrcLoc | None:
        """Where its name is defined; None where its file has it no more."""
        return source.name_loc(self.pyfunc)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters as they are declared.

        Raises:
            KernelError: An annotation is not in the kernel language.
        """
        return infer_types.parameters(self.pyfunc, self._types)

    @cached_property
    def is_generic(self) -> bool:
        """Whether a parameter may have several types."""
        return any(p.type is None for p in self.parameters)

    @cached_property
    def is_plain(self) -> bool:
        """Whether every parameter is one parameter of the IR, given as it is."""
        return all(infer_types.is_leaf(p.type) for p in self.parameters)

    def overload(self, types: Sequence[object] | Mapping[str, object]) -> Kernel:
        """The kernel for parameters of given types.

        Args:
            types: A type per parameter, in order or by name; parameters that have one type can be
                left out of a mapping.

        Raises:
            KernelTypeError: A type does not match the declaration.
        """
        chosen = infer_types.overload_types(self.name, self.parameters, types)
        if chosen not in self.overloads:
            # Threads that ask at once get the same one.
            self.overloads.setdefault(chosen, self._variant(chosen))
        return self.overloads[chosen]

    # Warp's names.
    add_overload = get_overload = overload

    def current(self) -> Kernel:
        """The version for the names around the kernel and for the settings.

        It is the kernel itself unless these have changed. What has no version yet is read and
        compiled when it is needed.
        """
        if self._names.hold():
            return self
        for known in list(self.versions):
            if known._names.hold():
                break
        else:
            known = self._variant(self._types)
            known.versions = self.versions
        self.versions[:] = [known, *(v for v in self.versions if v is not known)][:_MOST_VERSIONS]
        return known

    @property
    def names(self) -> BoundNames:
        """The names around this version, as far as it was read."""
        return self._names

    def for_arguments(self, args: Sequence[object]) -> Kernel:
        """The current kernel for the types of ``args``.

        Raises:
            KernelTypeError: The types do not match the declaration.
        """
        if not self.is_generic:
            return self.current()
        types = infer_types.argument_types(self.name, self.parameters, args)
        return self.overload(types).current()

    def for_inputs(self, given: Mapping[str, object]) -> Kernel:
        """The current kernel for arguments by name, without those that are results.

        Raises:
            KernelTypeError: The types do not match, or do not tell those of results.
        """
        if not self.is_generic:
            return self.current()
        types = infer_types.input_types(self.name, self.parameters, given)
        return self.overload(types).current()

    @cached_property
    def func(self) -> Func:
        """The kernel as normalized IR.

        Raises:
            KernelError: The source is not in the kernel language; says where.
        """
        return kernel_facts.normal_form(self)

    @property
    def flush_denormals(self) -> bool:
        """Whether arithmetic takes subnormal numbers for zeros, and makes zeros of them."""
        chosen = self._flush_denormals
        return config.flush_denormals if chosen is None else chosen

    @property
    def parameter_types(self) -> list[SourceType]:
        """The types of the parameters that have one."""
        return [p.type for p in self.parameters if p.type is not None]

    @cached_property
    def entry(self) -> KernelEntry | None:
        """Where the disk cache keeps the kernel as it is when it is first needed."""
        return self.find_entry()

    def find_entry(self) -> KernelEntry | None:
        """Where the disk cache keeps the kernel as it is now."""
        if self.is_generic:
            return None
        with self._names.reading():
            types, flush = self.parameter_types, self.flush_denormals
            return kernel_cache.kernel_entry(self.pyfunc, types, flush_denormals=flush)

    @cached_property
    def leaves(self) -> tuple[tuple[str, Scalar | ArrayType], ...]:
        """The names and types of the parameters of the IR."""
        named = [(p.name, p.type) for p in self.parameters]
        return tuple(leaf for n, t in named if t is not None for leaf in flatten.named_leaves(n, t))

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """What the kernel does to each parameter of the IR."""
        return kernel_facts.effects(self)

    @cached_property
    def at_addresses(self) -> Effect:
        """What the kernel does to arrays that it makes of addresses, which no parameter shows."""
        return kernel_facts.at_addresses(self)

    @cached_property
    def losses(self) -> frozenset[int]:
        """Parameters of the IR whose arrays no longer hold what a launch loaded from them."""
        return kernel_facts.losses(self)

    @cached_property
    def executable(self) -> Executable:
        """The kernel on arrays that the caller provides."""
        _ = self.entry
        return executable.Executable(
            lambda: pipeline.optimize(self.func),
            lambda: self.entry,
            lambda: labelled(self.name, self.loc),
        )

    @cached_property
    def plain_executable(self) -> Executable | None:
        """``executable`` if arguments are taken as they are, None if they have to be looked at."""
        return None if self.is_generic or not self.is_plain else self.executable

    def note_launch(self, launched: Kernel, args: Sequence[Any], changes: int) -> None:
        """Let launches of arrays like ``args`` take the short way to ``launched``, its version.

        ``changes`` is ``config.changes`` from before the version was chosen.
        """
        if config.mode == "python":
            return
        executable = launched.plain_executable
        if executable is None or not executable.has_arrays:
            return
        if not executable.is_on_cpu:
            launched.gpu_fast_path = executable.cached_gpu_launch(args)
        elif launched._names:
            self.cpu_fast_path = executable.signature, launched, launched._names.checked
        else:
            self.cpu_fast_path = executable.signature
        fast_paths.keep((self, launched), changes)

    def adjoint(
        self, wrt: tuple[int, ...], seeds: tuple[int, ...], single: frozenset[int] = frozenset()
    ) -> Adjoint:
        """The adjoint for cotangents of parameters ``wrt``, given those of arrays ``seeds``.

        The launch has one point on the axes ``single``, which matters to some kernels only.

        Raises:
            KernelGradError: The kernel has no exact derivative.
        """
        return adjoint_kernel.derive(self, (wrt, seeds, single))

    def inspect(self, stage: str, architecture: str | None = None) -> str:
        """One stage of the compiler's work as text.

        Args:
            stage: 'source', 'ir', 'jvp', 'vjp' (with respect to all float parameters; it starts
                with what it records), 'llvm', 'asm', or 'ptx'.
            architecture: Of GPUs, for 'ptx'; 'sm_75', the default, or a newer one.
        """
        return stages.stage_text(self.pyfunc, self.current().func, stage, architecture)

    def export(self, path: str | Path, architecture: str | None = None) -> tuple[Path, Path]:
        """Write the kernel as an object file or PTX for C programs, and a header beside it.

        An object is made for the processor of this machine; the header defines the arguments as a
        struct and declares the function, which runs a part of the grid on the calling thread. PTX
        is an entry for CUDA's driver, which takes the struct by value, as its header says.

        Args:
            path: Of the code, PTX with the suffix .ptx; the header has the suffix .h.
            architecture: The oldest GPUs that PTX is for, as 'sm_90'; 'sm_75' by default.

        Returns:
            The paths of the code and of the header.

        Raises:
            KernelCompileError: A name is none in C, or there is no such architecture.
        """
        return export.export(self.current().func, path, architecture)


def _from_text(text: Any, types: Any, flush: Any, key: str, options: Any) -> Kernel:
    """A kernel that was pickled by its source."""
    return Kernel(text.function(), types, flush, key=key, options=options)
