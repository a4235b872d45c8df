"""Arguments of an operator: bound to its parameters, and flattened to one value per operand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from kernelcore.base.errors import KernelArgumentError, SrcLoc
from kernelcore.language.types import ArrayOf, SourceType, StructType, int64
from kernelcore.launch.infer_types import Parameter
from kernelcore.operators.identifiers import identifiers
from kernelcore.operators.operation import Operation
from kernelcore.runtime.array.indexed_array import IndexedArray


class ArgumentTree(NamedTuple):
    """A parameter of an operator, or a part of one.

    Attributes:
        name: What errors call it, such as 'p.position'.
        key: The field, or 'data' or 'indices' of an indexed array.
        position: Its position in a tuple of all fields.
        leaf: The operand that it is; -1 if it has parts.
        parts: The parts that are operands, or contain some.
        fields: The keys of all parts.
    """

    name: str
    key: str
    position: int
    leaf: int
    parts: tuple[ArgumentTree, ...] = ()
    fields: tuple[str, ...] = ()

    @staticmethod
    def of_all(
        parameters: Iterable[tuple[str, SourceType]], leaves: Sequence[str]
    ) -> tuple[ArgumentTree, ...]:
        """The trees of the parameters that have some of ``leaves``."""
        index = {leaf: k for k, leaf in enumerate(leaves)}
        trees = (_tree(name, name, 0, type_, index) for name, type_ in parameters)
        return tuple(tree for tree in trees if tree is not None)

    @property
    def leaves(self) -> tuple[int, ...]:
        """The operands below it."""
        if not self.parts:
            return (self.leaf,)
        return tuple(leaf for part in self.parts for leaf in part.leaves)

    def unflatten(self, leaves: Sequence[Any] | Mapping[int, Any]) -> Any:
        """The value with these ``leaves``; a struct is a dictionary of fields."""
        if not self.parts:
            return leaves[self.leaf]
        return {part.key: part.unflatten(leaves) for part in self.parts}


def _tree(
    name: str, key: str, position: int, type_: SourceType, leaves: Mapping[str, int]
) -> ArgumentTree | None:
    """The tree of parameter ``name``, None without operands; ``leaves`` gives their indices."""
    element = type_.element if isinstance(type_, ArrayOf) else type_
    if isinstance(type_, ArrayOf) and type_.is_indexed and isinstance(element, SourceType):
        tables = [f"{name}.indices[{k}]" for k in range(type_.ndim)]
        indices = tuple(
            ArgumentTree(table, str(k), k, leaves[table])
            for k, table in enumerate(tables)
            if table in leaves
        )
        fields = ("data", "indices")
        parts = (
            _tree(name, "data", 0, element, leaves),
            ArgumentTree(f"{name}.indices", "indices", 1, -1, indices) if indices else None,
        )
    elif isinstance(element, StructType):
        fields = tuple(field for field, _ in element.fields)
        parts = tuple(
            _tree(f"{name}.{field}", field, k, member, leaves)
            for k, (field, member) in enumerate(element.fields)
        )
    else:
        return ArgumentTree(name, key, position, leaves[name]) if name in leaves else None
    known = tuple(part for part in parts if part is not None)
    return ArgumentTree(name, key, position, -1, known, fields) if known else None


class StructArray(NamedTuple):
    """The operands that are the fields of one array of structs.

    Attributes:
        ndim: The dimensions of the array, which all of them have first.
        leaves: The operands.
    """

    ndim: int
    leaves: tuple[int, ...]

    @staticmethod
    def of_all(
        parameters: Iterable[tuple[str, SourceType]], trees: Iterable[ArgumentTree]
    ) -> tuple[StructArray, ...]:
        """Those of ``parameters``, whose arguments have ``trees``."""
        ndim = {
            name: type_.ndim
            for name, type_ in parameters
            if isinstance(type_, ArrayOf) and isinstance(type_.element, StructType)
        }
        data = {t.name: t.parts[0] if t.fields == ("data", "indices") else t for t in trees}
        return tuple(StructArray(n, data[name].leaves) for name, n in ndim.items() if name in data)


def flatten(tree: ArgumentTree, value: Any) -> list[Any]:
    """The operands that ``value`` stands for, in Python that torch.compile follows.

    Raises:
        AttributeError, IndexError, KeyError, TypeError: ``value`` lacks a part of ``tree``.
    """
    if not tree.parts:
        return [value]
    if len(tree.fields) == 1 and not _is_struct(tree.fields[0], value):
        return flatten(tree.parts[0], value)
    values = _parts_of(tree, value)
    return [leaf for k, part in enumerate(tree.parts) for leaf in flatten(part, values[k])]


def _is_struct(field: str, value: Any) -> bool:
    """Whether ``value`` is a struct with the one ``field``, not the value of that field."""
    if isinstance(value, (tuple, list)):
        return len(cast("Sequence[Any]", value)) == 1
    if isinstance(value, (np.ndarray, np.void)):
        return cast("np.ndarray[Any, Any]", value).dtype.names is not None
    return isinstance(value, (dict, Mapping)) or hasattr(value, field)


def _unknown(tree: ArgumentTree, value: Any) -> list[Any]:
    """The keys of the mapping ``value`` that are not fields."""
    return [key for key in value if tree.fields and key not in tree.fields]


def _parts_of(tree: ArgumentTree, value: Any) -> list[Any]:
    """The part of ``value`` for each of the parts of ``tree``."""
    if isinstance(value, IndexedArray):
        value = (value.data, value.tables(len(tree.parts[-1].parts)))
    if isinstance(value, (tuple, list)):
        return [value[part.position] for part in tree.parts]
    if isinstance(value, (dict, Mapping)):
        if _unknown(tree, value):
            raise KeyError("unknown field")
        return [value[part.key] for part in tree.parts]
    if isinstance(value, (np.ndarray, np.void)):
        fields = cast("np.ndarray[Any, Any]", value).dtype.names or ()
        if not all(part.key in fields for part in tree.parts):
            raise KeyError("missing field")
        return [value[part.key] for part in tree.parts]
    return [getattr(value, part.key) for part in tree.parts]


class Arguments:
    """The parameters of an operator as its calls give them.

    A call gives one value per parameter, or one per operand in place of all parameters. A struct
    is a mapping, a structured array, a tuple of the fields in order, or an object with these as
    attributes; a struct of one field may be the value of that field.

    Attributes:
        trees: One per parameter.
        names: The names of the parameters.
        operands: The names of the operands.
        leaves: The same as identifiers.
        is_flat: Whether every parameter is one operand.
        defaults: The values of parameters that calls may leave out.
        updated: The operands that are results as well.
        struct_arrays: The operands that are fields of arrays of structs.
    """

    def __init__(
        self,
        function: str,
        loc: SrcLoc | None,
        trees: Sequence[ArgumentTree],
        leaves: Sequence[str],
        defaults: Mapping[str, Any] | None = None,
        updated: Iterable[str] = (),
        struct_arrays: Sequence[StructArray] = (),
    ) -> None:
        self.function = function
        self.loc = loc
        self.trees = tuple(trees)
        self.names = tuple(tree.name for tree in trees)
        self.operands = tuple(leaves)
        self.leaves = identifiers(leaves)
        self.is_flat = all(not tree.parts for tree in trees)
        self.defaults = dict(defaults or {})
        self.updated = frozenset(updated)
        self.struct_arrays = tuple(struct_arrays)
        for name in self.defaults:
            if name not in self.names:
                raise self._error(f"defaults: unknown argument '{name}'")
        self._flattened = self.flattened()

    @staticmethod
    def of_types(
        function: str,
        loc: SrcLoc | None,
        parameters: Iterable[tuple[str, SourceType]],
        leaves: Sequence[str],
        defaults: Mapping[str, Any] | None = None,
    ) -> Arguments:
        """Those of typed ``parameters``, for an operator with the operands ``leaves``."""
        typed = list(parameters)
        trees = ArgumentTree.of_all(typed, leaves)
        arrays = StructArray.of_all(typed, trees)
        return Arguments(function, loc, trees, leaves, defaults, (), arrays)

    @staticmethod
    def of_operation(
        operation: Operation,
        parameters: Iterable[Parameter],
        defaults: Mapping[str, Any] | None = None,
        sizes: Sequence[str] = (),
    ) -> Arguments:
        """Those of the typed ``parameters`` of the kernel that ``operation`` is, then ``sizes``."""
        typed = [(p.name, p.type) for p in parameters if p.type is not None]
        typed += [(name, int64) for name in sizes]
        leaves = [operand.name for operand in operation.operands]
        func = operation.func
        trees = ArgumentTree.of_all(typed, leaves)
        updated = {result.name for result in operation.results} & set(leaves)
        arrays = StructArray.of_all(typed, trees)
        return Arguments(func.name, func.loc, trees, leaves, defaults, updated, arrays)

    @staticmethod
    def of_names(
        function: str,
        loc: SrcLoc | None,
        names: Sequence[str],
        defaults: Mapping[str, Any] | None = None,
    ) -> Arguments:
        """Those that are one operand each."""
        trees = [ArgumentTree(name, name, 0, k) for k, name in enumerate(names)]
        return Arguments(function, loc, trees, names, defaults)

    def flattened(self) -> Callable[[Sequence[Any], Mapping[str, Any]], list[Any] | None]:
        """A function from the arguments of a call to one value per operand.

        torch.compile follows it. It returns None if a name is wrong, and raises as ``flatten``.
        Fields of an array of structs that differ in shape are refused: kernels ask one of them.
        """
        function, loc, struct_arrays = self.function, self.loc, self.struct_arrays
        operands = self.operands
        trees, names, leaves, defaults = self.trees, self.names, self.leaves, dict(self.defaults)

        def flat(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
            count = len(args) + len(kwargs)
            by_leaf = count == len(leaves) and (
                len(leaves) != len(names) or not all(n in names for n in kwargs)
            )
            known = leaves if by_leaf else names
            if len(args) > len(known) or not all(n in known[len(args) :] for n in kwargs):
                return None
            given = list(args)
            for name in known[len(args) :]:
                if name not in kwargs and (by_leaf or name not in defaults):
                    return None
                given.append(kwargs[name] if name in kwargs else defaults[name])
            if not by_leaf:
                given = [leaf for k, arg in enumerate(given) for leaf in flatten(trees[k], arg)]
            for array in struct_arrays:
                first, *others = array.leaves
                wanted = tuple(getattr(given[first], "shape", ()))[: array.ndim]
                for k in others:
                    found = tuple(getattr(given[k], "shape", ()))[: array.ndim]
                    if found != wanted:
                        raise KernelArgumentError(
                            f"{function}(): argument '{operands[k]}': expected the extents of "
                            f"'{operands[first]}', {wanted}, found {found}",
                            loc,
                            "the fields of an array of structs have its shape",
                        )
            return given

        return flat

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call as one value per operand.

        Raises:
            KernelArgumentError: One is missing, unknown, given twice, or lacks a field.
        """
        if self.is_flat and not kwargs and len(args) == len(self.names):
            return list(args)
        try:
            found = self._flattened(args, kwargs)
        except KernelArgumentError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError):
            given = {**self.defaults, **dict(zip(self.names, args, strict=False)), **kwargs}
            for tree in self.trees:
                self._refuse_struct(tree, given[tree.name])
            raise
        if found is None:
            raise self._binding_error(args, kwargs)
        return found

    def _binding_error(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> KernelArgumentError:
        by_leaf = len(args) + len(kwargs) == len(self.leaves) != len(self.names)
        names = self.leaves if by_leaf else self.names
        given = names[: len(args)]
        known = {*given, *kwargs, *(() if by_leaf else self.defaults)}
        wrong = [f"unknown argument '{n}'" for n in kwargs if n not in names]
        wrong += [f"argument '{n}' is given twice" for n in kwargs if n in given]
        missing = [n for n in names if n not in known]
        wrong += [f"argument '{n}' is missing" for n in missing]
        wrong.append(f"expected {len(names)} arguments, found {len(args)}")
        is_update = missing[:1] == [n for n in missing if n in self.updated][:1] != []
        remedy = (
            f"the kernel reads '{missing[0]}' and writes it: give its first values, or name it in "
            f"outputs= if they do not count"
            if is_update and wrong[0].endswith("is missing")
            else None
        )
        return self._error(wrong[0], remedy)

    def _refuse_struct(self, tree: ArgumentTree, value: Any) -> None:
        """Raise the error for the first part of ``tree`` that ``value`` lacks."""
        if not tree.parts:
            return
        fields = ", ".join(tree.fields)
        found = f"an object of type {type(value).__name__}"
        problem = f"expected a struct with the fields {fields}, found {found}"
        if isinstance(value, Mapping):
            missing = [part.key for part in tree.parts if part.key not in value]
            unknown = _unknown(tree, value)
            if missing:
                problem = f"missing field '{missing[0]}'"
            elif unknown:
                problem = f"unknown field '{unknown[0]}'; its fields are {fields}"
        try:
            values = _parts_of(tree, value)
        except (AttributeError, IndexError, KeyError, TypeError):
            raise self._error(
                f"argument '{tree.name}': {problem}",
                "give a struct, a mapping, or a tuple of the fields in order",
            ) from None
        for part, one in zip(tree.parts, values, strict=True):
            self._refuse_struct(part, one)

    def _error(self, text: str, remedy: str | None = None) -> KernelArgumentError:
        usual = f"its arguments are {', '.join(self.names)}"
        return KernelArgumentError(f"{self.function}(): {text}", self.loc, remedy or usual)
