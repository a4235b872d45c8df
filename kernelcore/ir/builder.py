"""Builder: appends Eqns to the region under construction, typing each as its Op says."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.ir import op as ops
from kernelcore.ir.core import NO_ATTRS, Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.derivative_rules import Rules
from kernelcore.ir.op import Op, OpKind
from kernelcore.ir.snippet import Snippet
from kernelcore.language.types import ArrayType, Scalar, StackType, Type, boolean, int32


def result_types(op: Op, inputs: Sequence[Atom], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    """Output types of ``op`` on ``inputs``; IF, FOR and WHILE have those of their regions."""
    match op.kind:
        case OpKind.PURE:
            return (op.result_type([a.type for a in inputs]),)
        case OpKind.CAST | OpKind.STACK:
            dtype = attrs["dtype"]
            return (StackType(dtype) if op.kind is OpKind.STACK else dtype,)
        case OpKind.TID | OpKind.DIM:
            return (int32,)
        case OpKind.ARRAY_AT:
            components: tuple[int, ...] = attrs["components"]
            ndim = len(inputs) - 1 + len(components)
            return (ArrayType(attrs["dtype"], ndim, components),)
        case OpKind.LOAD | OpKind.ATOMIC_ADD | OpKind.ATOMIC | OpKind.ATOMIC_CAS | OpKind.POP:
            source = inputs[0].type
            assert isinstance(source, ArrayType | StackType)
            return (source.dtype,)
        case OpKind.STORE | OpKind.PUSH | OpKind.PRINT | OpKind.ASSERT:
            return ()
        case OpKind.CALL:
            callee: Func = attrs["callee"]
            return tuple(a.type for a in callee.body.yields)
        case OpKind.SNIPPET:
            snippet: Snippet = attrs["snippet"]
            snippet.arguments(inputs)
            return snippet.output_types
        case OpKind.GRAD:
            return tuple(a.type for a in inputs if isinstance(a.type, Scalar) and a.type.is_float)
        case OpKind.IF | OpKind.FOR | OpKind.WHILE | OpKind.CUSTOM:
            raise ValueError(f"{op.name}: outputs follow from its regions")


class Builder:
    """Builds regions: emitted Eqns go to the innermost open region, with the location ``loc``."""

    def __init__(self) -> None:
        self.loc: SrcLoc | None = None
        self._open: list[list[Eqn]] = [[]]

    @property
    def eqns(self) -> list[Eqn]:
        """The Eqns of the innermost open region."""
        return self._open[-1]

    def append(self, eqn: Eqn) -> None:
        """Append a finished Eqn."""
        self._open[-1].append(eqn)

    def emit(self, op: Op, *inputs: Atom, name: str = "", **attrs: Any) -> Var:
        """Append ``op`` and return its only output.

        Raises:
            KernelTypeError: The signature does not take these types; carries ``loc``.
        """
        (out,) = self._emit(op, inputs, attrs, name)
        return out

    def emit_effect(self, op: Op, *inputs: Atom, **attrs: Any) -> None:
        """Append an ``op`` without outputs."""
        outs = self._emit(op, inputs, attrs, "")
        assert not outs

    def emit_all(self, op: Op, inputs: Sequence[Atom], **attrs: Any) -> tuple[Var, ...]:
        """Append ``op`` and return all its outputs."""
        return self._emit(op, tuple(inputs), attrs, "")

    def _emit(
        self, op: Op, inputs: tuple[Atom, ...], attrs: Mapping[str, Any], name: str
    ) -> tuple[Var, ...]:
        try:
            types = result_types(op, inputs, attrs)
        except KernelTypeError as error:
            raise KernelTypeError(error.message, self.loc, error.remedy) from None
        outs = tuple(Var(t, name) for t in types)
        self.append(Eqn(op, inputs, outs, attrs or NO_ATTRS, (), self.loc))
        return outs

    @contextmanager
    def into(self, eqns: list[Eqn]) -> Generator[list[Eqn]]:
        """Append Eqns emitted inside to ``eqns`` instead of the open region."""
        self._open.append(eqns)
        try:
            yield eqns
        finally:
            self._open.pop()

    def region(self) -> AbstractContextManager[list[Eqn]]:
        """Collect Eqns emitted inside in a fresh list."""
        return self.into([])

    def emit_if(
        self, cond: Atom, then: Region, orelse: Region, names: Sequence[str] = ()
    ) -> tuple[Var, ...]:
        """Append an ``if``; both regions yield the same types, which are those of the outputs."""
        return self._control(ops.IF, (cond,), (then, orelse), names, NO_ATTRS)

    def emit_for(
        self,
        start: Atom,
        stop: Atom,
        step: Atom,
        init: Sequence[Atom],
        body: Region,
        names: Sequence[str] = (),
        **attrs: Any,
    ) -> tuple[Var, ...]:
        """Append a ``for`` over ``range(start, stop, step)``; ``body`` takes (index, *carried)."""
        return self._control(ops.FOR, (start, stop, step, *init), (body,), names, attrs)

    def emit_while(
        self, init: Sequence[Atom], cond: Region, body: Region, names: Sequence[str] = ()
    ) -> tuple[Var, ...]:
        """Append a ``while``; both regions take the carried values, ``cond`` yields one bool."""
        return self._control(ops.WHILE, init, (cond, body), names, NO_ATTRS)

    def emit_custom(self, inputs: Sequence[Atom], body: Region, rules: Rules) -> tuple[Var, ...]:
        """Append a call of a function with rules; ``body`` is its code on ``inputs``."""
        return self._control(ops.CUSTOM, inputs, (body,), (), {"rules": rules})

    def _control(
        self,
        op: Op,
        inputs: Sequence[Atom],
        regions: tuple[Region, ...],
        names: Sequence[str],
        attrs: Mapping[str, Any],
    ) -> tuple[Var, ...]:
        """Append an Eqn with regions; its outputs are like the yields of the last one."""
        yields = regions[-1].yields
        hints = names or [a.name if isinstance(a, Var) else "" for a in yields]
        outs = tuple(Var(a.type, hint) for a, hint in zip(yields, hints, strict=True))
        self.append(Eqn(op, tuple(inputs), outs, attrs or NO_ATTRS, regions, self.loc))
        return outs


def zero(dtype: Scalar) -> Const:
    """The literal zero (or false) of ``dtype``."""
    if dtype == boolean:
        return Const(dtype, False)
    return Const(dtype, 0.0 if dtype.is_float else 0)
