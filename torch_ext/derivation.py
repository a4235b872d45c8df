"""Ways to derive an operation, and operator names that tell them.

A compiled graph that torch keeps on disk knows operators by name only, so the name of a derived
operator must be enough to make it again: ``<root>_<derivation>...``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import NamedTuple

from kernelcore.operators import (
    DerivedOperation,
    Fuse,
    Operation,
    derive,
    extremum_operations,
    operand_lists,
    package_version,
    saving,
    sized_local_operation,
    vjp_of_saved,
)

# Of operators whose names tell their content.
NAMESPACE = "kernelcore"
ROOT_DIGITS = 12

Indices = tuple[int, ...]


class Kind(StrEnum):
    """The kinds of derivation."""

    VJP = "vjp"
    SAVING = "saving"
    SAVED_VJP = "savedvjp"
    JVP = "jvp"
    BATCH = "vmap"
    WEIGHTED = "weighted"
    COUNT = "count"
    PART = "part"


class Derivation(NamedTuple):
    """One derivation of an operation from another.

    Attributes:
        kind: What is derived.
        sets: Ascending indices. Of a VJP: the operands to differentiate, the results whose
            cotangents are given, the operands to omit; of what saves for one: the operands to
            differentiate; of a JVP: the operands whose tangents are given; of a batch: the operands
            that are batched; of the members of an ExtremumOperations: the operands that it is
            differentiated with respect to; of a part: the axes of the launch that are cut.
    """

    kind: Kind
    sets: tuple[Indices, ...]

    def __str__(self) -> str:
        return self.kind + "_".join(f"{sum(1 << i for i in indices):x}" for indices in self.sets)

    def apply(self, operation: Operation) -> DerivedOperation:
        """The operation derived from ``operation``."""
        match self.kind:
            case Kind.VJP | Kind.SAVED_VJP:
                wrt, cotangents, omit = self.sets
                make = derive.vjp if self.kind is Kind.VJP else vjp_of_saved
                derived = make(operation, wrt, cotangents)
                left = operand_lists.without(derived.operation, omit)
                return DerivedOperation(left, derived.produced)
            case Kind.SAVING:
                made = saving(operation, *self.sets)
                assert made is not None
                return DerivedOperation(made, tuple(range(made.visible)))
            case Kind.JVP:
                return derive.jvp(operation, *self.sets)
            case Kind.BATCH:
                (batched,) = self.sets
                marks = [i in batched for i in range(len(operation.operands))]
                made = derive.batch(operation, marks)
                return DerivedOperation(made, tuple(range(made.visible)))
            case Kind.PART:
                made = sized_local_operation(operation, *self.sets).operation
                return DerivedOperation(made, tuple(range(made.visible)))
            case Kind.WEIGHTED | Kind.COUNT:
                chosen = extremum_operations(operation, *self.sets)
                assert chosen is not None
                made = chosen.weighted if self.kind is Kind.WEIGHTED else chosen.count
                return DerivedOperation(made, tuple(range(made.visible)))


class Name(NamedTuple):
    """The parts of an operator's name."""

    root: str
    derivations: tuple[Derivation, ...]
    tensor_values: bool


def vjp(wrt: Indices, cotangents: Indices, omit: Indices) -> Derivation:
    return Derivation(Kind.VJP, (wrt, cotangents, omit))


def saving_for(wrt: Indices) -> Derivation:
    return Derivation(Kind.SAVING, (wrt,))


def saved_vjp(wrt: Indices, cotangents: Indices, omit: Indices) -> Derivation:
    return Derivation(Kind.SAVED_VJP, (wrt, cotangents, omit))


def jvp(active: Indices) -> Derivation:
    return Derivation(Kind.JVP, (active,))


def batch(batched: Indices) -> Derivation:
    return Derivation(Kind.BATCH, (batched,))


def weighted(active: Indices) -> Derivation:
    return Derivation(Kind.WEIGHTED, (active,))


def count(active: Indices) -> Derivation:
    return Derivation(Kind.COUNT, (active,))


def part(axes: Indices) -> Derivation:
    return Derivation(Kind.PART, (axes,))


def ascii_name(name: str) -> str:
    """``name`` in the characters that torch has in names: 'λ' becomes 'u3bb'."""
    return "".join(c if c.isascii() else f"u{ord(c):x}" for c in name)


def root_name(operation: Operation, fuse: Fuse = False) -> str:
    """The name of an operation that was not derived; it tells the content, and what graphs fuse."""
    how = f"{fuse}" if fuse else ""
    digest = hashlib.sha256(f"{operation.key}{_version()}{how}".encode()).hexdigest()
    return f"{ascii_name(operation.func.name)}_{digest[:ROOT_DIGITS]}"


def derived_name(root: str, derivations: Iterable[Derivation]) -> str:
    """The name of what ``derivations`` make of the operation called ``root``."""
    return "_".join((root, *map(str, derivations)))


_DERIVATION = (
    "_(vjp|savedvjp)([0-9a-f]+)_([0-9a-f]+)_([0-9a-f]+)"
    "|_(saving|jvp|vmap|weighted|count|part)([0-9a-f]+)"
)
_DERIVATIONS = re.compile(_DERIVATION)
_NAME = re.compile(
    rf"(?P<root>\w+_[0-9a-f]{{{ROOT_DIGITS}}})"
    rf"(?P<derivations>(?:{_DERIVATION.replace('(', '(?:')})*)"
    r"(?P<tensors>_t)?(?:_k)?"
)


def parse_name(name: str) -> Name | None:
    """The parts of ``name``, or None if it is not made of the content of an operation."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    derivations = tuple(_parse_derivations(match["derivations"]))
    return Name(match["root"], derivations, match["tensors"] is not None)


@cache
def _version() -> str:
    """A digest of everything that decides what a derivation, or a decomposition, makes.

    Where kernelcore was replaced while this process ran, no other process has the same.
    """
    digest = hashlib.sha256((package_version() or os.urandom(16).hex()).encode())
    sources = (f for f in resources.files("torch_ext").iterdir() if f.name.endswith(".py"))
    for file in sorted(sources, key=lambda f: f.name):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _parse_derivations(text: str) -> Iterator[Derivation]:
    for found in _DERIVATIONS.finditer(text):
        kind, *masks = (group for group in found.groups() if group is not None)
        yield Derivation(Kind(kind), tuple(_indices(int(mask, 16)) for mask in masks))


def _indices(mask: int) -> Indices:
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)
