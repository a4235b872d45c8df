"""``dataclasses.dataclass``, which writes methods when they are first needed.

The standard decorator compiles six functions for every class, whether the process uses them or
not; ``docs/decisions/275-first-launches.md`` has the time that it takes. Here ``__init__`` is
compiled for the first object of a class, the other methods are closures, and the fields that
``dataclasses`` reads are made when it asks for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, cast

__all__ = ["dataclass", "field", "fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass, replace
else:

    def dataclass(cls=None, /, *, eq=True, frozen=False, slots=False, weakref_slot=False):
        """As ``dataclasses.dataclass``, for classes that inherit no fields."""

        def made(cls: type) -> type:
            methods = _methods(cls, eq, frozen)
            return _slotted(cls, methods, weakref_slot) if slots else _extended(cls, methods)

        return made if cls is None else made(cls)

    def replace(instance, /, **changes):
        """As ``dataclasses.replace``."""
        for name in instance.__match_args__:
            if name not in changes:
                changes[name] = getattr(instance, name)
        return type(instance)(**changes)


# Of the fields that have a default or options, by name.
_Options = Mapping[str, Field[Any]]


def _extended(cls: type, methods: Mapping[str, Any]) -> type:
    """``cls`` with the methods that its body does not define."""
    body = dict(cls.__dict__)
    for name in methods["__match_args__"]:
        if isinstance(body.get(name), Field):
            delattr(cls, name)
    for name, method in methods.items():
        if _is_missing(name, body):
            setattr(cls, name, method)
    return cls


def _slotted(cls: type, methods: Mapping[str, Any], weakref_slot: bool) -> type:
    """A class like ``cls`` with slots: a class gets them when it is made."""
    names = methods["__match_args__"]
    body = {k: v for k, v in cls.__dict__.items() if k not in (*names, "__dict__", "__weakref__")}
    space = body | {name: m for name, m in methods.items() if _is_missing(name, body)}
    space["__slots__"] = (*names, "__weakref__") if weakref_slot else names
    space["__qualname__"] = cls.__qualname__
    return type(cls)(cls.__name__, cls.__bases__, space)


def _is_missing(name: str, body: Mapping[str, Any]) -> bool:
    # Python sets the hash to None where a body defines ``__eq__`` alone.
    return name not in body or (name == "__hash__" and body[name] is None and "__eq__" in body)


def _methods(cls: type, eq: bool, frozen: bool) -> dict[str, Any]:
    names = tuple(n for n, text in cls.__annotations__.items() if not text.startswith("ClassVar"))
    given = [(name, cls.__dict__[name]) for name in names if name in cls.__dict__]
    options: dict[str, Field[Any]] = {n: _field(value) for n, value in given}
    methods: dict[str, Any] = {
        "__match_args__": names,
        "__dataclass_fields__": _Fields(names, options, frozen),
        "__init__": _first_init(names, options, frozen),
        "__repr__": _repr([n for n in names if n not in options or options[n].repr]),
    }
    if eq:
        values = _getter([n for n in names if n not in options or options[n].compare])
        methods |= {"__eq__": _eq(values), "__hash__": _hash(values) if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        # Python's own way to restore an object sets attributes.
        methods |= {"__getstate__": _state, "__setstate__": _set_state}
    return methods


def _field(value: Any) -> Field[Any]:
    """What the body of a class gives a field: its default, or what ``field`` has returned."""
    return cast("Field[Any]", value) if isinstance(value, Field) else field(default=value)


class _Fields:
    """``__dataclass_fields__``, made by the standard decorator when they are first read.

    So is ``__dataclass_params__``, which it reads of a base after the fields.
    """

    def __init__(self, names: Collection[str], options: _Options, frozen: bool) -> None:
        self._names = names
        self._options = options
        self._frozen = frozen

    def __get__(self, instance: object, cls: type) -> Mapping[str, Field[Any]]:
        types = cls.__annotations__
        members = [(name, types[name], self._options.get(name, field())) for name in self._names]
        space = {"__doc__": cls.__doc__ or cls.__name__}
        made: Any = dataclasses.make_dataclass(
            cls.__name__,
            members,
            namespace=space,
            init=False,
            repr=False,
            eq=False,
            frozen=self._frozen,
        )
        for name in ("__dataclass_params__", "__dataclass_fields__"):
            setattr(cls, name, getattr(made, name))
        return made.__dataclass_fields__


def _first_init(names: Collection[str], options: _Options, frozen: bool) -> Callable[..., None]:
    """An ``__init__`` that compiles the one of the class and replaces itself by it."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        cls = cast("Any", type(self))
        cls.__init__ = _init(cls, names, options, frozen)
        cls.__init__(self, *args, **kwargs)

    return __init__


def _init(
    cls: type, names: Collection[str], options: _Options, frozen: bool
) -> Callable[..., None]:
    scope: dict[str, Any] = {"MISSING": MISSING, "set_any": object.__setattr__}
    parameters, lines = ["self"], ["pass"]
    for name in names:
        parameter = value = name
        option = options.get(name)
        if option is not None and option.default is not MISSING:
            scope[f"default_{name}"] = option.default
            parameter = f"{name}=default_{name}"
        elif option is not None and option.default_factory is not MISSING:
            scope[f"new_{name}"] = option.default_factory
            parameter = f"{name}=MISSING"
            value = f"new_{name}() if {name} is MISSING else {name}"
        parameters.append(parameter)
        if not frozen:
            lines.append(f"self.{name} = {value}")
        elif name in getattr(cls, "__slots__", ()):
            # The descriptor of a slot takes two thirds of the time of object.__setattr__.
            scope[f"set_{name}"] = getattr(cls, name).__set__
            lines.append(f"set_{name}(self, {value})")
        else:
            lines.append(f"set_any(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines), scope)
    scope["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return scope["__init__"]


def _getter(names: Collection[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns the values of attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _repr(names: Collection[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:
        members = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({members})"

    return __repr__


def _eq(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], bool]:
    def __eq__(self: Any, other: Any) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _state(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in self.__match_args__)


def _set_state(self: Any, state: tuple[Any, ...]) -> None:
    for name, value in zip(self.__match_args__, state, strict=True):
        object.__setattr__(self, name, value)


def _refuse_to_set(self: Any, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
