"""Parameters as users give them: structs are taken apart into leaves, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from kernelcore import IndexedArray


@dataclass(frozen=True, slots=True)
class Member:
    """A parameter, or a field of one.

    Attributes:
        name: How errors call it, such as 'p.position'.
        leaf: Its place among the leaves; None if it has fields.
        fields: Its fields, by what a mapping calls them.
    """

    name: str
    leaf: int | None = None
    fields: tuple[tuple[str, Member], ...] = ()

    @property
    def leaves(self) -> tuple[int, ...]:
        """The places of all its leaves."""
        if self.leaf is not None:
            return (self.leaf,)
        return tuple(leaf for _, field in self.fields for leaf in field.leaves)


Refuse = Callable[[str, Member], Exception]


def root_of(name: str) -> str:
    """The parameter that the leaf ``name`` belongs to."""
    return name.partition(".")[0]


def members(names: Sequence[str]) -> tuple[Member, ...]:
    """The parameters whose leaves are ``names``; those of one parameter are adjacent.

    An indexed array has the fields 'data' and 'indices'.
    """
    indexed = {n.partition(".indices[")[0] for n in names if ".indices[" in n}
    paths = [(_path(name, indexed), leaf) for leaf, name in enumerate(names)]
    return tuple(member for _, member in _grouped(paths, ""))


def _path(name: str, indexed: set[str]) -> list[str]:
    start, bracket, index = name.partition(".indices[")
    if bracket:
        return [*start.split("."), "indices", index.removesuffix("]")]
    path = name.split(".")
    for depth in range(len(path), 0, -1):
        if ".".join(path[:depth]) in indexed:
            path.insert(depth, "data")
    return path


def _grouped(paths: Sequence[tuple[list[str], int]], prefix: str) -> list[tuple[str, Member]]:
    found: list[tuple[str, Member]] = []
    for key, group in groupby(paths, lambda row: row[0][0]):
        rows = [(path[1:], leaf) for path, leaf in group]
        name = f"{prefix}.{key}" if prefix else key
        if rows[0][0]:
            found.append((key, Member(name, None, tuple(_grouped(rows, name)))))
        else:
            found.append((key, Member(name, rows[0][1])))
    return found


def take_apart(member: Member, value: Any, leaves: list[Any], refuse: Refuse) -> None:
    """Put the leaves of ``value`` where ``member`` says; None where it has none of a name.

    Args:
        member: The parameter.
        value: What a caller gives: of a struct, one of its values or a mapping from its fields;
            of an array of structs a structured array or a mapping from fields to arrays.
        leaves: One place per leaf.
        refuse: Makes the error for a value that has not the fields.
    """
    if member.leaf is not None:
        leaves[member.leaf] = value
        return
    parts = _parts(member, value)
    if parts is None:
        names = ", ".join(repr(key) for key, _ in member.fields)
        raise refuse(f"expected a struct, or a mapping from {names}", member)
    unknown = [key for key in parts if key not in dict(member.fields)]
    if unknown:
        names = ", ".join(key for key, _ in member.fields)
        raise refuse(f"unknown field '{unknown[0]}'; its fields are {names}", member)
    for key, field in member.fields:
        if key not in parts:
            raise refuse(f"missing field '{key}'", member)
        take_apart(field, parts[key], leaves, refuse)


def _parts(member: Member, value: Any) -> Mapping[str, Any] | None:
    """The fields of ``value`` by name, or None if it has no fields."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, IndexedArray):
        count = next(len(field.fields) for key, field in member.fields if key == "indices")
        return {"data": value.data, "indices": value.tables(count)}
    if isinstance(value, list | tuple) and member.fields[0][0] == "0":
        return {str(k): one for k, one in enumerate(value)}
    names = getattr(getattr(value, "dtype", None), "names", None)
    if names is not None and isinstance(value, np.ndarray | np.void):
        return {name: value[name] for name in names}
    declared = getattr(type(value), "kernel_type", None)
    if declared is not None and hasattr(declared, "fields"):
        return {name: getattr(value, name) for name, _ in declared.fields}
    return None


def put_together(member: Member, leaves: Sequence[Any] | Mapping[int, Any]) -> Any:
    """The value of ``member``: an array, or a dictionary of fields."""
    if member.leaf is not None:
        return leaves[member.leaf]
    return {key: put_together(field, leaves) for key, field in member.fields}
