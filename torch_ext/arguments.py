"""Arguments of a call: one per parameter, taken apart into one per operand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kernelcore import IndexedArray
from kernelcore.base.errors import KernelArgumentError, SrcLoc
from kernelcore.operators import ArrayOf, SourceType, StructType


class Branch(NamedTuple):
    """A part of a struct that operands are taken from.

    Attributes:
        name: The field.
        place: Its place among all fields.
        parts: The parts of the field that are operands; empty if the field is one itself.
    """

    name: str
    place: int
    parts: tuple[Branch, ...]


class Parameter(NamedTuple):
    """A parameter of an operator.

    Attributes:
        name: Its name.
        parts: Of a struct, an array of structs or an indexed array, what operands are taken from.
        count: How many operands it has.
    """

    name: str
    parts: tuple[Branch, ...]
    count: int


def taken_apart(name: str, type_: SourceType, operands: Sequence[str]) -> Parameter | None:
    """The parameter ``name`` of ``type_``, of whose leaves ``operands`` are given; None if none."""
    count = sum(o == name or o.startswith((f"{name}.", f"{name}.indices[")) for o in operands)
    return Parameter(name, _branches(name, type_, operands), count) if count else None


def _branches(name: str, type_: SourceType, operands: Sequence[str]) -> tuple[Branch, ...]:
    element = type_.element if isinstance(type_, ArrayOf) else type_
    found: list[Branch] = []
    if isinstance(type_, ArrayOf) and type_.is_indexed:
        if isinstance(element, StructType):
            found.append(Branch("data", 0, _fields(name, element, operands)))
        else:
            found.append(Branch("data", 0, ()))
        return (*found, *(Branch("indices", k + 1, ()) for k in range(type_.ndim)))
    return _fields(name, element, operands) if isinstance(element, StructType) else ()


def _fields(name: str, type_: StructType, operands: Sequence[str]) -> tuple[Branch, ...]:
    return tuple(
        Branch(field, place, _branches(f"{name}.{field}", member, operands))
        for place, (field, member) in enumerate(type_.fields)
        if any(o == f"{name}.{field}" or o.startswith(f"{name}.{field}.") for o in operands)
    )


def operands_of(parts: tuple[Branch, ...], arg: Any) -> list[Any]:
    """What ``arg`` gives for the operands below ``parts``, in Python that torch.compile follows.

    A struct is a mapping, a tuple of its fields in order, or an object with attributes of their
    names.
    """
    if not parts:
        return [arg]
    if isinstance(arg, IndexedArray):
        arg = (arg.data, *arg.tables(len(parts) - 1))
    found: list[Any] = []
    for name, place, inner in parts:
        if isinstance(arg, dict | Mapping):
            one = arg[name]
        elif isinstance(arg, tuple | list):
            one = arg[place]
        else:
            one = getattr(arg, name)
        found.extend(operands_of(inner, one))
    return found


class Arguments:
    """The parameters of an operator, as calls bind them.

    Attributes:
        names: Of the parameters.
        leaves: The names of the operands.
        is_flat: Whether every parameter is one operand.
        defaults: What is taken for a parameter that a call leaves out.
    """

    def __init__(
        self,
        title: tuple[str, SrcLoc | None],
        parameters: Sequence[Parameter],
        leaves: Sequence[str],
        defaults: Mapping[str, Any],
    ) -> None:
        self.title = title
        self.parameters = tuple(parameters)
        self.names = tuple(p.name for p in parameters)
        self.leaves = tuple(leaves)
        self.is_flat = all(not p.parts for p in parameters)
        self.defaults = dict(defaults)
        for name in defaults:
            if name not in self.names:
                raise self._error(f"defaults: unknown argument '{name}'")

    def flattened(self) -> Callable[..., list[Any] | None]:
        """What binds arguments in Python that torch.compile follows: None if a name is wrong."""
        parts = tuple(p.parts for p in self.parameters)
        names, leaves, defaults = self.names, self.leaves, dict(self.defaults)

        def flat(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
            count = len(args) + len(kwargs)
            by_leaf = count == len(leaves) and len(leaves) != len(names)
            known = leaves if by_leaf else names
            if len(args) > len(known) or not all(n in known[len(args) :] for n in kwargs):
                return None
            given = list(args)
            for name in known[len(args) :]:
                if name not in kwargs and (by_leaf or name not in defaults):
                    return None
                given.append(kwargs[name] if name in kwargs else defaults[name])
            if by_leaf:
                return given
            return [leaf for k, arg in enumerate(given) for leaf in operands_of(parts[k], arg)]

        return flat

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """``args`` and ``kwargs``, one per operand.

        They are one per parameter, or one per leaf of the parameters.

        Raises:
            KernelArgumentError: One is missing, unknown or given twice, or no such struct.
        """
        if self.is_flat and not kwargs and len(args) == len(self.names):
            return list(args)
        count = len(args) + len(kwargs)
        if count == len(self.leaves) != len(self.names):
            return self._matched(self.leaves, args, kwargs)
        given = self._matched(self.names, args, kwargs)
        if self.is_flat:
            return given
        found: list[Any] = []
        for parameter, arg in zip(self.parameters, given, strict=True):
            try:
                leaves = operands_of(parameter.parts, arg)
            except (AttributeError, IndexError, KeyError) as error:
                fields = ", ".join(b.name for b in parameter.parts)
                raise self._error(
                    f"argument '{parameter.name}': expected a struct with the fields {fields}, "
                    f"found an object of type {type(arg).__name__}: {error}",
                    "give a struct, a mapping, or a tuple of the fields in order",
                ) from None
            found.extend(leaves)
        return found

    def _matched(
        self, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[Any]:
        given = dict(zip(names, args, strict=False))
        wrong = [f"unknown argument '{n}'" for n in kwargs if n not in names]
        wrong += [f"argument '{n}' is given twice" for n in kwargs if n in given]
        known = {**self.defaults, **given, **kwargs}
        wrong += [f"argument '{n}' is missing" for n in names if n not in known]
        if len(args) > len(names):
            wrong.append(f"expected {len(names)} arguments, found {len(args)}")
        if wrong:
            raise self._error(wrong[0])
        return [known[n] for n in names]

    def _error(self, text: str, remedy: str | None = None) -> KernelArgumentError:
        name, loc = self.title
        usual = f"its arguments are {', '.join(self.names)}"
        return KernelArgumentError(f"{name}(): {text}", loc, remedy or usual)
