"""``@struct``: makes a class of values of its annotated fields."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import numpy as np

from kernelcore.base.errors import KernelError, KernelTypeError, SrcLoc
from kernelcore.language.composite import value_class
from kernelcore.language.conversion import take_scalar
from kernelcore.language.types import (
    ArrayOf,
    Dense,
    Member,
    Scalar,
    StructType,
    descriptor,
    is_pattern,
    type_of,
)
from kernelcore.runtime.call_site import whole_line
from kernelcore.runtime.structs import StructValue, known_classes

_EXPECTED = (
    "annotate it with float, int, bool, kc.float64, kc.vec3, kc.array(dtype=...) or a struct"
)


def struct(cls: type) -> type[Any]:
    """Make a struct of a class whose annotations are fields.

    A field is a scalar, a vector, matrix, quaternion or transform, another struct, or an array.

    Raises:
        KernelTypeError: ``cls`` is no class, an annotation is no type of a field, or the class is
            more than fields.
    """
    if not isinstance(cls, type):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise KernelTypeError(
            f"@struct takes a class, found {cls!r}", remedy="put @struct directly above class"
        )
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    loc = whole_line(SrcLoc(frame.f_code.co_filename, frame.f_lineno, 0, 0))
    known = {**frame.f_globals, **frame.f_locals}
    try:
        return _define(cls, known)
    except KernelError as error:
        message = f"struct {cls.__name__}{error.message}"
        raise KernelTypeError(message, loc, error.remedy) from None


# Names of the base class, which no field may have.
_TAKEN = frozenset(dir(StructValue)) | {"kernel_type"}
_OWN = ("__init__", "__new__", "__getattr__", "__setattr__", "__slots__", "__reduce__")


class _Itself:
    """Stands for a struct in its own definition."""

    def __repr__(self) -> str:
        return "the struct itself"


def _define(cls: type, known: Mapping[str, object]) -> type[Any]:
    if cls.__bases__ != (object,):
        raise KernelTypeError(": a struct has no base classes", remedy="repeat or nest the fields")
    texts = inspect.get_annotations(cls)
    if not texts and any(not k.startswith("__") for k in vars(cls)):
        raise KernelTypeError(": no field is annotated", remedy="write a field as 'mass: float'")
    for name in _OWN:
        if name in cls.__dict__:
            raise KernelTypeError(
                f": structs have a {name} of their own", remedy="write a function that makes one"
            )
    itself = _Itself()
    scope = {**known, cls.__name__: itself}
    fields: list[tuple[str, Member]] = []
    classes: dict[str, type[StructValue]] = {}
    for name, text in texts.items():
        if name.startswith("_") or name in _TAKEN:
            raise KernelTypeError(f", field '{name}': the name is taken", remedy="rename it")
        annotation = _evaluated(name, text, scope)
        if annotation is itself:
            raise KernelTypeError(
                f", field '{name}': a struct cannot hold itself",
                remedy="keep an integer index into an array of them",
            )
        fields.append((name, _member(name, annotation)))
        if isinstance(annotation, type) and issubclass(annotation, StructValue):
            classes[name] = annotation
        elif isinstance(fields[-1][1], ArrayOf):
            classes[name] = _descriptor_class(descriptor(fields[-1][1]))
    hidden = ("__dict__", "__weakref__", "__annotations__")
    body: dict[str, Any] = {k: v for k, v in cls.__dict__.items() if k not in (*hidden, *texts)}
    body["__slots__"] = ()
    body["__qualname__"] = cls.__qualname__
    given = [(n, m, vars(cls)[n]) for n, m in fields if vars(cls).get(n) is not None]
    defaults = tuple((n, _default(n, m, value)) for n, m, value in given)
    body["kernel_type"] = StructType(cls.__name__, tuple(fields), defaults)
    body["_classes"] = classes
    made = type(cls.__name__, (StructValue,), body)
    known_classes[made.kernel_type] = made
    return made


def _evaluated(name: str, annotation: object, scope: dict[str, object]) -> object:
    """The object of an annotation; a string is evaluated in the scope of the definition."""
    try:
        while isinstance(annotation, str):
            annotation = eval(annotation, scope)
        return annotation
    except KernelError as error:
        raise KernelTypeError(f", field '{name}': {error.message}", remedy=error.remedy) from None
    except (NameError, AttributeError, TypeError, ValueError, SyntaxError) as error:
        raise KernelTypeError(
            f", field '{name}': {error}",
            remedy="annotations kept as text see the names around the class",
        ) from None


def _default(name: str, member: Member, value: Any) -> Any:
    """The default of a field as a number of Python, or a tuple of the components.

    Raises:
        KernelTypeError: The field holds an array or a struct, or the value has another type.
    """
    try:
        match member:
            case Scalar():
                return take_scalar(member, value).item()
            case Dense():
                return tuple(np.asarray(value_class(member)(value)).ravel().tolist())
            case _:
                raise KernelTypeError(
                    f"{member} has no default value", remedy="assign it after construction"
                )
    except KernelTypeError as error:
        raise KernelTypeError(f", field '{name}': {error.message}", remedy=error.remedy) from None


def _member(name: str, annotation: object) -> Member:
    found = type_of(annotation)
    is_bare = isinstance(annotation, StructType)
    if found is None or is_bare or is_pattern(found):
        raise KernelTypeError(
            f", field '{name}': unsupported annotation {annotation!r}", remedy=_EXPECTED
        )
    return cast("Member", found)


@cache
def _descriptor_class(type_: StructType) -> type[StructValue]:
    """The class of values of ``type_``, a descriptor of arrays."""
    return type(type_.name, (StructValue,), {"kernel_type": type_, "_classes": {}, "__slots__": ()})
