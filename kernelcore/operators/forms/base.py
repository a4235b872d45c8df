"""Form: an operator for the arrays of one framework, and the shapes that its calls give."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

from kernelcore.base.errors import KernelArgumentError
from kernelcore.launch.infer_types import Parameter
from kernelcore.operators.arguments import Arguments
from kernelcore.operators.forms.frameworks import mixed_frameworks
from kernelcore.operators.spec import (
    Declaration,
    DimsKey,
    Spec,
    has_callables,
    resolve_dims,
    static_key,
)

# A function of the arguments of a call, then of the numbers in its shapes.
Run = Callable[..., Any]


class Form:
    """An operator for the arrays of one framework.

    Attributes:
        name: Its name.
        spec: Its contract, which names its results.
        names: The parameters that calls give.
        arguments: The same, one value each.
        outputs: The parameters that are results only.
        in_out: The parameters that are results and arguments.
        results: The names of the results.
        functions: What runs, by the shapes of a call.
        bound: The form that users ask for.
        entry: What takes the arguments of a call that gives no shapes.
        quick: The same outside of graphs that torch captures.
        remake: Finds it again, in the process that a pickle of it is read in.
    """

    remake: Callable[[], Form] | None = None

    def __init__(
        self,
        framework: str,
        declared: Declaration,
        spec: Spec,
        parameters: Sequence[Parameter],
    ) -> None:
        self.framework = framework
        self.name = declared.name
        self.spec = spec
        self.outputs, self.in_out = spec.outputs or (), spec.in_out
        self.names = tuple(p.name for p in parameters if p.name not in self.outputs)
        self.arguments = Arguments.of_names(declared.name, declared.loc, self.names, spec.defaults)
        self.ndim = {p.name: getattr(p.wanted, "ndim", None) for p in parameters}
        returned = [p.name for p in parameters if p.name in (*self.outputs, *self.in_out)]
        self.results = tuple(n for n in returned if n not in spec.mutates)
        self.functions: dict[DimsKey, Run] = {}
        self.is_static = not has_callables(spec)
        self.bound: Run = self._run_positional
        self.entry: Run = self._run_positional
        self.quick: Run | None = None
        self._token = str(id(self))
        _forms[self._token] = self
        if self.is_static:
            self.entry = self.function(static_key(spec, self.outputs))
        if self.quick is None:
            self.quick = self.entry

    def make(self, key: DimsKey) -> tuple[Run, Run]:
        """What runs for shapes of the form ``key``, as users ask for it, and as calls run it."""
        raise NotImplementedError

    def function(self, key: DimsKey) -> Run:
        """What runs for shapes of the form ``key``."""
        found = self.functions.get(key)
        if found is None:
            made, found = self.make(key)
            self.functions[key] = found
            if self.is_own(key):
                self.bound = made
        return found

    def is_own(self, key: DimsKey) -> bool:
        """Whether ``key`` is that of a call that gives no shapes."""
        return self.is_static and key == static_key(self.spec, self.outputs)

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Any call."""
        given = dict(kwargs)
        launch_dims = output_dims = None
        if "launch_dims" in given and "launch_dims" not in self.names:
            launch_dims = given.pop("launch_dims")
        if "output_dims" in given and "output_dims" not in self.names:
            output_dims = given.pop("output_dims")
        if self.is_static and launch_dims is None and output_dims is None:
            return self.entry(*args, **given)
        named = {**self.spec.defaults, **dict(zip(self.names, args, strict=False)), **given}

        def shape_of(name: str) -> Any:
            value = named[name]
            if isinstance(value, (int, float)):  # Perhaps a symbol, which has no attributes.
                return value
            shape = getattr(value, "shape", None)
            if shape is None or len(shape) == 0:
                return value
            return tuple(shape)[: self.ndim[name]]

        key, numbers = resolve_dims(self.spec, self.outputs, launch_dims, output_dims, shape_of)
        _prepare(self._token, key)
        function = self.functions[key]
        if given or len(args) < len(self.names):
            return function(*args, **given, **dict(zip(key[2], numbers, strict=True)))
        return function(*args, *numbers)

    def _run_positional(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(args, kwargs)

    def packed(self, found: Sequence[Any]) -> Any:
        """The result of a call: one array, or a named tuple of several."""
        if len(self.results) == 1:
            return found[0]
        return results_type(self.name, self.results)(*found) if self.results else None

    def refuse_mutation(self, arrays: str) -> None:
        """Refuse a contract that updates ``arrays`` in place.

        Raises:
            KernelArgumentError: It does.
        """
        if self.spec.mutates:
            name = self.spec.mutates[0]
            raise KernelArgumentError(
                f"{self.name}: mutates: {arrays} are not updated in place, found '{name}'",
                remedy=f'name it in in_out: in_out="{name}", and take the result',
            )

    def refuse_mixed(self, named: Mapping[str, Any]) -> None:
        """Refuse arguments that are arrays of two frameworks.

        Raises:
            KernelArgumentError: Naming two of them.
        """
        text = mixed_frameworks(named)
        if text is not None:
            raise KernelArgumentError(
                f"{self.name}(): {text}", self.arguments.loc, "convert one of them"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        assert self.remake is not None
        return self.remake, ()


_forms: WeakValueDictionary[str, Form] = WeakValueDictionary()


def _prepare(token: str, key: DimsKey) -> bool:
    """Make what runs for shapes of the form ``key``, if it is not there."""
    _forms[token].function(key)
    return True


# torch.compile calls it while it captures, and does not look inside.
_prepare._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


@cache
def results_type(name: str, names: tuple[str, ...]) -> type[Any]:
    """The type of the results ``names`` of operator ``name``."""
    made: Any = namedtuple(name, names, rename=True)  # pyright: ignore[reportUntypedNamedTuple]

    def reduce(self: tuple[Any, ...]) -> tuple[Any, ...]:
        return _results, (name, names, tuple(self))

    made.__reduce__ = reduce
    made.__module__ = __name__
    return made


def _results(name: str, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return results_type(name, names)(*values)
