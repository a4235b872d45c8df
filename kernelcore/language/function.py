"""Function: a function written in the kernel language, with all its overloads."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import KernelTypeError
from kernelcore.base.lazy import Deferred
from kernelcore.language import source_check
from kernelcore.language.bound_names import note
from kernelcore.language.by_reference import updated_parameters
from kernelcore.language.conversion import describe
from kernelcore.language.overload_resolution import choose

if TYPE_CHECKING:
    from kernelcore.language import composite_types, pickling, text_function
else:
    composite_types = Deferred("kernelcore.language.composite_types")
    pickling = Deferred("kernelcore.language.pickling")
    text_function = Deferred("kernelcore.language.text_function")


@dataclass(eq=False, slots=True, weakref_slot=True)
class Overload:
    """One definition of a function.

    Attributes:
        pyfunc: The Python function.
        updates: Parameters that a call assigns: the definition returns their new values after its
            result.
        is_library: Whether it is part of kernelcore.
        captures: Parameters, the last ones, that a call passes from the variables of ``home``.
        home: The scope that defines a function inside another one, else None.
        read: What the frontend has read of it, once; it lives as long as the overload.
        rules: The Python functions of its own derivatives, by what they give; another mapping
            when there is another one.
    """

    pyfunc: Callable[..., Any]
    updates: tuple[str, ...] = ()
    is_library: bool = False
    captures: tuple[str, ...] = ()
    home: object = None
    read: list[Any] = field(default_factory=list[Any], repr=False)
    rules: Mapping[str, Callable[..., Any]] = field(
        default_factory=dict[str, Callable[..., Any]], repr=False
    )

    def read_rules(self) -> Mapping[str, Callable[..., Any]]:
        """The rules, which the code that is made depends on."""
        return self.rules if self.is_library else note(self, "rules", self.rules)


class _Doc:
    """The texts of all overloads for help(); of the class itself, its own."""

    def __init__(self, doc: str | None) -> None:
        self._doc = doc

    def __get__(self, function: Function | None, owner: type[Function]) -> str | None:
        if function is None:
            return self._doc
        texts: list[str] = []
        for overload in function.overloads:
            code = overload.pyfunc.__code__
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            doc = inspect.getdoc(overload.pyfunc) or ""
            texts.append(f"{function.name}({', '.join(names)})\n\n{doc}".rstrip())
        return "\n\n".join(texts)


# What users need of a function; completion offers these, and the rest is for kernelcore.
_PUBLIC = frozenset({"name", "overloads"})


@dataclass(frozen=True, eq=False)
class Function:
    """A function that kernels call; it is specialised for the types of each call.

    Calling it on the host runs the Python code of the overload whose annotations fit best. Updated
    parameters are composites that are changed in place; if one is a number, the call returns the
    result and the new values.

    Attributes:
        name: The name it was defined with.
        overloads: Its definitions, the first one first; more may be added.
        is_library: Whether it is part of kernelcore.
    """

    __doc__ = _Doc(__doc__)  # pyright: ignore[reportAssignmentType]

    name: str
    overloads: list[Overload] = field(default_factory=list[Overload])
    is_library: bool = False

    def __getattr__(self, name: str) -> Any:
        # For help() and the module inspect; the first definition stands for all.
        if name == "__name__":
            return self.name
        if name == "__wrapped__" and self.overloads:
            return self.overloads[0].pyfunc
        if name == "__qualname__" and self.overloads:
            return self.overloads[0].pyfunc.__qualname__
        if name == "__signature__" and len(self.overloads) > 1:
            return _common_signature(self.overloads)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        more = f", {len(self.overloads)} overloads" * (len(self.overloads) > 1)
        return f"<function {self.name}{more}>"

    def __dir__(self) -> Iterable[str]:
        return sorted(_PUBLIC | {name for name in super().__dir__() if name.startswith("__")})

    def __copy__(self) -> Function:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return pickling.reduced(self, self.overloads[0].pyfunc, self._by_source)

    def _by_source(self) -> tuple[Any, ...]:
        texts = [(pickling.FunctionText.of(o.pyfunc), o.updates) for o in self.overloads]
        states = [pickling.captured(o.pyfunc) for o in self.overloads]
        return _from_texts, (self.name, texts), states, None, None, _restore

    def add(self, overload: Overload) -> None:
        """Add a definition, in place of one with the same annotations."""
        object.__setattr__(self, "__module__", overload.pyfunc.__module__)
        signature = annotation_texts(overload.pyfunc)
        for place, known in enumerate(self.overloads):
            if annotation_texts(known.pyfunc) == signature:
                self.overloads[place] = overload
                return
        self.overloads.append(overload)

    def takes(self, *args: Any, **kwargs: Any) -> bool:
        """Whether a definition takes these arguments on the host."""
        return choose([o.pyfunc for o in self.overloads], args, kwargs) is not None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        overload = self.overloads[0]
        if len(self.overloads) > 1:
            found = choose([o.pyfunc for o in self.overloads], args, kwargs)
            if found is None:
                given = ", ".join(type(a).__name__ for a in (*args, *kwargs.values())) or "nothing"
                raise KernelTypeError(
                    f"no overload of {self.name}() takes {given}",
                    remedy=f"help({self.name}) shows the overloads",
                )
            overload = self.overloads[found]
        if overload.updates and not self.is_library:
            raise KernelTypeError(
                f"{self.name}() assigns its parameter '{overload.updates[0]}', which a call in "
                "Python cannot",
                remedy=f"call it in a kernel, under kc.python_mode() too, or call {self.name}"
                ".overloads[0].pyfunc and return the values",
            )
        # Integers wrap around in kernels, and floats overflow to infinity.
        with np.errstate(all="ignore") if self.is_library else nullcontext():
            result = overload.pyfunc(*args, **kwargs)
        if self.is_library and all(type(a) in _NUMBERS for a in (*args, *kwargs.values())):
            result = composite_types.single(result)
        return _updated(overload, args, kwargs, result) if overload.updates else result


# A composite that a library function makes of Python's numbers is one of float32, as vec3(0.5) is.
_NUMBERS = (bool, int, float)


def _common_signature(overloads: Sequence[Overload]) -> inspect.Signature:
    """The parameters of all definitions; any, where they differ."""
    found = [inspect.signature(o.pyfunc) for o in overloads]
    if all(list(s.parameters) == list(found[0].parameters) for s in found):
        return inspect.Signature(
            [p.replace(annotation=inspect.Parameter.empty) for p in found[0].parameters.values()]
        )
    return inspect.signature(lambda *args, **kwargs: None)


def _from_texts(name: str, texts: list[tuple[Any, tuple[str, ...]]]) -> Function:
    """A function that was pickled by its source."""
    return Function(name, [Overload(text.function(), updates) for text, updates in texts])


def _restore(function: Function, states: list[dict[str, Any]]) -> None:
    for overload, state in zip(function.overloads, states, strict=True):
        pickling.restore(overload.pyfunc, state)


def require_function(found: object, decorator: str) -> None:
    """Check that ``found``, which ``decorator`` is applied to, is a plain Python function.

    Raises:
        KernelTypeError: It is something else.
    """
    if not inspect.isfunction(found):
        raise KernelTypeError(
            f"@{decorator} takes a function that is defined with def, found {describe(found)}",
            remedy=f"put @{decorator} directly above def, once and alone; the function of a kernel "
            "is its 'pyfunc'",
        )


def _updated(
    overload: Overload, args: tuple[Any, ...], kwargs: dict[str, Any], result: tuple[Any, ...]
) -> Any:
    """The result of a call, once the composites among its updated arguments are changed."""
    bound = inspect.signature(overload.pyfunc).bind(*args, **kwargs).arguments
    old = [bound[name] for name in overload.updates]
    if not all(hasattr(value, "__setitem__") for value in old):
        return result
    for value, new in zip(old, result[1:], strict=True):
        value[:] = new
    return result[0]


def annotation_texts(pyfunc: Callable[..., Any]) -> list[tuple[str, str]]:
    """The parameters and their annotations as text."""
    found = getattr(pyfunc, "__annotations__", {})
    code = pyfunc.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [(name, repr(found.get(name))) for name in names]


@typing.overload
def func(pyfunc: Callable[..., Any]) -> Function: ...
@typing.overload
def func() -> Callable[[Callable[..., Any]], Function]: ...
@typing.overload
def func(*, source: str, globals: dict[str, Any] | None = None) -> Function: ...
def func(
    pyfunc: Callable[..., Any] | None = None,
    *,
    source: str | None = None,
    globals: dict[str, Any] | None = None,
) -> Function | Callable[[Callable[..., Any]], Function]:
    """Make a function of the kernel language, to be called from kernels and other functions.

    A second function of the same name in the same place is an overload of the first; with the same
    annotations it takes its place. Where code runs again, as a cell of a notebook does, or defines
    a name that another file defined, it replaces all that the name stood for.

    ``func(source=text, globals=names)`` makes one of a text, as ``kernel`` does: never an overload.

    Raises:
        KernelTypeError: ``pyfunc`` is no plain Python function.
        KernelSyntaxError: ``source`` is not one definition.
    """
    if source is not None:
        pyfunc = text_function.function_of_text(source, globals, "func")
        source_check.note_text(pyfunc)
        function = Function(pyfunc.__name__)
        function.add(Overload(pyfunc, updated_parameters(pyfunc)))
        return function
    return _defined if pyfunc is None else _defined(pyfunc)


def _defined(pyfunc: Callable[..., Any]) -> Function:
    """A function with ``pyfunc`` as its last overload."""
    require_function(pyfunc, "func")
    source_check.note_text(pyfunc)
    earlier = _earlier(pyfunc)
    known = [] if earlier is None else earlier.overloads
    # Another object: what the name stood for before stays as it is.
    function = Function(pyfunc.__name__, [*known])
    function.add(Overload(pyfunc, updated_parameters(pyfunc)))
    return function


def _earlier(pyfunc: Callable[..., Any]) -> Function | None:
    """What the name of ``pyfunc`` stands for in the module, class or function that defines it."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    outer = frame
    # A decorator of another file may stand between, as that of a dialect does.
    while outer is not None and outer.f_code.co_filename != pyfunc.__code__.co_filename:
        outer = outer.f_back
    frame = outer or frame
    found = None if frame is None else frame.f_locals.get(pyfunc.__name__)
    if not isinstance(found, Function) or found.is_library:
        return None
    return found if all(_is_beside(o.pyfunc, pyfunc) for o in found.overloads) else None


def _is_beside(earlier: Callable[..., Any], later: Callable[..., Any]) -> bool:
    """Whether one run of one piece of code defines both: in order, or by a loop."""
    first, second = earlier.__code__, later.__code__
    is_below = second.co_firstlineno > first.co_firstlineno
    return first is second or (first.co_filename == second.co_filename and is_below)
