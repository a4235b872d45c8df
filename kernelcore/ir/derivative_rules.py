"""Rules: user-defined derivatives of functions, and the instantiation of their code.

A CUSTOM Eqn is a call of such a function. Its inputs are, along ``Rules.params``: a scalar; an
array, then as many leading indices as it has more dimensions than the parameter (one instance of a
batch). Its region is the code of the function, on the inputs themselves. The code of a rule is a
Func, which is put in place where a derivative is made:

    adjoint(*params, *cotangents of all results, *cotangents of float arrays) -> of float scalars
    jvp(*params, *tangents of float scalars, *tangents of float arrays) -> of float results
    replay(*params) -> results
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.base.errors import KernelGradError, KernelTypeError
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ACCESSES, OpKind
from kernelcore.ir.walk import clone_region, rewrite
from kernelcore.language.types import ArrayType, Scalar, Type, element_type, int32, int64

# An array or a scalar: its Atom, and of an array the leading indices.
Argument = tuple[Atom, ...]
Signature = tuple[Func, Sequence[Type], Sequence[Type]]


@dataclass(frozen=True, slots=True)
class Rules:
    """The user's derivatives of a function; at least one of the Funcs is given.

    Attributes:
        name: The name of the function.
        params: The types of its parameters.
    """

    name: str
    params: tuple[Type, ...]
    adjoint: Func | None = None
    jvp: Func | None = None
    replay: Func | None = None

    def functions(self) -> Iterator[tuple[str, Func]]:
        """The Funcs by kind."""
        for kind, func in (("adjoint", self.adjoint), ("jvp", self.jvp), ("replay", self.replay)):
            if func is not None:
                yield kind, func

    def map(self, change: Callable[[Func], Func]) -> Rules:
        """The Rules with every Func changed."""
        changed: dict[str, Any] = {kind: change(func) for kind, func in self.functions()}
        return replace(self, **changed)

    def arguments(self, inputs: Sequence[Atom]) -> list[Argument]:
        """``inputs`` by parameter.

        Raises:
            KernelTypeError: They do not fit.
        """
        found: list[Argument] = []
        at = 0
        for param in self.params:
            first = inputs[at].type if at < len(inputs) else None
            count = 1
            fits = first == param
            if isinstance(param, ArrayType) and isinstance(first, ArrayType):
                count += first.ndim - param.ndim
                leading = [a.type for a in inputs[at + 1 : at + count]]
                fits = first.dtype == param.dtype and all(t in (int32, int64) for t in leading)
            if not fits or count < 1:
                raise KernelTypeError(f"{self.name}: expected {param}, found {first}")
            found.append(tuple(inputs[at : at + count]))
            at += count
        if at != len(inputs):
            raise KernelTypeError(f"{self.name}: takes {at} inputs, {len(inputs)} given")
        return found

    def signatures(self, inputs: Sequence[Atom], outputs: Sequence[Var]) -> list[Signature]:
        """Every Func with its parameter and result types, for a CUSTOM Eqn.

        Raises:
            KernelTypeError: The Eqn is no call of the function.
        """
        self.arguments(inputs)
        params, results = list(self.params), [v.type for v in outputs]
        floats = [t for t in params if element_type(t).is_float]
        arrays = [t for t in floats if isinstance(t, ArrayType)]
        scalars = [t for t in floats if isinstance(t, Scalar)]
        found: list[Signature] = []
        if self.adjoint is not None:
            found.append((self.adjoint, [*params, *results, *arrays], scalars))
        if self.jvp is not None:
            tangents = [t for t in results if element_type(t).is_float]
            found.append((self.jvp, [*params, *scalars, *arrays], tangents))
        if self.replay is not None:
            found.append((self.replay, params, results))
        return found


def rules_of(eqn: Eqn) -> Rules:
    """The Rules of a CUSTOM Eqn."""
    rules = eqn.attrs["rules"]
    assert isinstance(rules, Rules)
    return rules


@dataclass(frozen=True, slots=True)
class Absent:
    """An array of zeros whose updates are dropped, of the extents of ``like``."""

    like: Argument


def instantiate(func: Func, given: Sequence[Argument | Absent]) -> Region:
    """The code of ``func``, which has no calls, on arguments; all its Vars are fresh."""
    env: dict[Var, Atom] = {}
    views: dict[Var, Argument | Absent] = {}
    for param, argument in zip(func.params, given, strict=True):
        if isinstance(argument, Absent) or len(argument) != 1:
            views[param] = argument
        else:
            env[param] = argument[0]
    region = clone_region(Region((), func.body.eqns, func.body.yields), env)
    return rewrite(region, _View(views).eqn) if views else region


class _View:
    """Puts arrays with leading indices, and absent ones, in the place of parameters."""

    def __init__(self, views: Mapping[Var, Argument | Absent]) -> None:
        self.views = views

    def eqn(self, eqn: Eqn) -> Eqn | Region:
        inputs = eqn.inputs
        first = inputs[0] if inputs else None
        view = self.views.get(first) if isinstance(first, Var) else None
        match eqn.op.kind:
            case OpKind.SNIPPET | OpKind.CUSTOM:
                parts = [self.passed(eqn, a) for a in inputs]
                return replace(eqn, inputs=tuple(a for part in parts for a in part))
            case OpKind.DIM if view is not None:
                array, *leading = view.like if isinstance(view, Absent) else view
                attrs = {**eqn.attrs, "axis": eqn.attrs["axis"] + len(leading)}
                return replace(eqn, inputs=(array,), attrs=attrs)
            case _ if eqn.op.kind in ACCESSES and isinstance(view, Absent):
                types = [v.type for v in eqn.outputs]
                zeros = tuple(Const(t, 0.0) for t in types if isinstance(t, Scalar))
                return Region((), (), zeros)
            case _ if eqn.op.kind in ACCESSES and view is not None:
                assert not isinstance(view, Absent)
                return replace(eqn, inputs=(*view, *inputs[1:]))
            case _:
                return eqn

    def passed(self, eqn: Eqn, atom: Atom) -> Argument:
        """An argument of a call that stays one."""
        view = self.views.get(atom) if isinstance(atom, Var) else None
        if isinstance(view, Absent):
            raise KernelGradError(
                "the cotangent of an array that has none is passed to a function with its own "
                "derivative",
                eqn.loc,
                "update kc.adjoint[...] in the rule itself",
            )
        return (atom,) if view is None else view
