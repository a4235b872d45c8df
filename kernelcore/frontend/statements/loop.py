"""Loop Eqns: they carry the names that the body assigns and that are set before the loop."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelSyntaxError, KernelTypeError, SrcLoc
from kernelcore.frontend.scope import TRUE, Scope, Unset, is_value
from kernelcore.frontend.statements.branch import (
    RETURN,
    Env,
    carried_scalar,
    hint,
    is_retyped,
    names_of_other_arrays,
    retyped,
    same,
    set_in,
    value_in,
)
from kernelcore.frontend.values.array_choice import joined
from kernelcore.frontend.values.literal_types import (
    InferenceVariable,
    InferredType,
    Promotion,
    UntypedLiteral,
)
from kernelcore.frontend.values.value import Value, flatten, is_scalar
from kernelcore.ir.core import Atom, Const, Eqn, Region, Var


@dataclass(frozen=True, slots=True)
class Carried:
    """A carried value: its value before the loop, and its type throughout."""

    name: str
    before: Value
    init: Atom
    inferred: InferredType
    variable: InferenceVariable


class Loop:
    """Lowers one loop.

    Attributes:
        hidden: The values that hidden names have around the loop.

    Args:
        scope: The state at the loop.
        node: The loop statement.
        assigned: The names that its body assigns, flags included, to the first place that does.
    """

    def __init__(self, scope: Scope, node: ast.AST, assigned: Mapping[str, SrcLoc | None]) -> None:
        self.scope = scope
        self.node = node
        self.roots = dict(assigned)
        self.assigned = {
            part: loc for name, loc in assigned.items() for part in scope.parts(name) or [name]
        }
        self.outer = dict(scope.env)
        self.hidden: Env = {}
        self.params: tuple[Var, ...] = ()
        self.carried = [c for n in self.assigned if (c := self._carry(n)) is not None]

    def lower_for(
        self,
        bounds: tuple[Atom, Atom, Atom],
        index: Var,
        body: Callable[[], None],
    ) -> None:
        """A ``for`` over ``range(*bounds)`` that always runs to its end."""
        region, is_untyped = self._body(body, index)
        while region is None:
            region, is_untyped = self._body(body, index)
        emit_for = self.scope.builder.emit_for
        self._finish(emit_for(*bounds, self._inits, region, self._hints), is_untyped)

    def lower_while(self, cond: Callable[[], Atom], body: Callable[[], None]) -> None:
        """A loop that runs while ``cond``, which is evaluated before every iteration."""
        test, region, is_untyped = self._test(cond), *self._body(body)
        while region is None:
            test, region, is_untyped = self._test(cond), *self._body(body)
        emit_while = self.scope.builder.emit_while
        self._finish(emit_while(self._inits, test, region, self._hints), is_untyped)

    def _test(self, cond: Callable[[], Atom]) -> Region:
        """The condition of a ``while``."""
        params = self._enter()
        with self.scope.builder.region() as eqns:
            proceed = cond()
        return Region(params, tuple(eqns), (proceed,))

    def _body(self, body: Callable[[], None], *index: Var) -> tuple[Region | None, list[bool]]:
        """The body, and which of the carried values are untyped at its end.

        None: names stand for other arrays after it than before, and it is lowered again, with a
        choice between them.
        """
        params = self._enter()
        with self.scope.builder.region() as eqns:
            body()
            if self._joins_arrays(eqns):
                return None, []
            ends, is_untyped = self._leave()
        self.scope.at(self.node)
        return Region((*index, *params), tuple(eqns), ends), is_untyped

    @property
    def _inits(self) -> list[Atom]:
        return [c.init for c in self.carried]

    @property
    def _hints(self) -> list[str]:
        return [hint(c.name) for c in self.carried]

    def _carry(self, name: str) -> Carried | None:
        inference, loc = self.scope.inference, self.scope.loc(self.node)
        value = self.outer.get(name)
        if not isinstance(value, UntypedLiteral | Const | Var) or not is_scalar(value):
            return None
        variable = InferenceVariable(self.node, name, Promotion.JOIN)
        dtype = inference.current_type(value)
        inferred = InferredType(dtype, fixed=True)
        if inference.is_untyped(value):
            inferred = inference.infer(variable, dtype)
        init = inference.adapt(value, inferred.type, loc, join=True, fixed=inferred.fixed)
        return Carried(name, value, init, inferred, variable)

    def _enter(self) -> tuple[Var, ...]:
        """Bind the carried names to fresh region parameters."""
        env = dict(self.outer)
        params: list[Var] = []
        for item in self.carried:
            param = Var(item.inferred.type, hint(item.name))
            self.scope.inference.mark(param, item.variable, item.inferred, (item.before,))
            env[item.name] = param
            params.append(param)
        self.scope.env = env
        self.params = tuple(params)
        return self.params

    def _leave(self) -> tuple[tuple[Atom, ...], list[bool]]:
        """The carried values at the end of the body, and which of them are untyped."""
        self._check_fixed()
        ends: list[Atom] = []
        is_untyped: list[bool] = []
        has_returned = self.scope.flag(RETURN) == TRUE
        for item, param in zip(self.carried, self.params, strict=True):
            loc = self.assigned[item.name] or self.scope.loc(self.node)
            value = self.scope.env.get(item.name, Unset(loc))
            if has_returned and not item.name.startswith("$"):
                value = param  # never read
            assert not isinstance(value, Unset)
            if not is_scalar(value) and is_retyped(item.before, value):
                raise retyped(item.name, "loop", item.before, value, loc)
            one = carried_scalar(item.name, value, loc)
            is_untyped.append(self.scope.inference.is_untyped(one))
            ends.append(self._end(item, one, loc))
        return tuple(ends), is_untyped

    def _joins_arrays(self, eqns: list[Eqn]) -> bool:
        """Let names that the body gives other arrays have a choice before the loop, too.

        False: there are none; ends of the body have the choices of the start.
        """
        scope, is_changed = self.scope, False
        if scope.flag(RETURN) == TRUE:
            return False
        for name in names_of_other_arrays(self.outer, scope.env):
            before, after = value_in(scope, self.outer, name), scope.get(name)
            if name not in self.roots or not is_value(before) or not is_value(after):
                continue
            start, end = joined(scope, before, after, eqns)
            scope.set(name, end)
            if flatten(start)[0] == flatten(before)[0]:
                continue
            is_changed = True
            set_in(scope, self.outer, name, start)
            parts = [part for part in self.outer if part.startswith(f"{name}.")]
            self.assigned |= dict.fromkeys(parts, self.roots[name])
        if is_changed:
            self.carried = [c for n in self.assigned if (c := self._carry(n)) is not None]
        return is_changed

    def _check_fixed(self) -> None:
        """Refuse loops that change the skeleton of a composite, or which array a name stands for.

        Raises:
            KernelTypeError: A variable stands for something else than before the loop.
            KernelSyntaxError: A variable was changed by a call that does not show it.
        """
        carried = {c.name for c in self.carried}
        for name, before in self.outer.items():
            after = self.scope.env.get(name)
            if name in self.assigned or name.startswith("$") or isinstance(before, Unset):
                continue
            if not is_value(after) or not same(before, after):
                raise KernelSyntaxError(
                    f"a call in the loop updates '{name.split('.')[0]}' through another name of "
                    "the function",
                    self.scope.loc(self.node),
                    "call the function by its own name",
                )
        for name, loc in self.assigned.items():
            before, after = self.outer.get(name), self.scope.env.get(name)
            if name in carried or not is_value(before):
                continue
            if not is_value(after) or not same(before, after):
                if is_value(after) and is_retyped(before, after):
                    raise retyped(name.split(".")[0], "loop", before, after, loc)
                raise KernelTypeError(
                    f"'{name.split('.')[0]}' stands for another array, or another function, after "
                    "the loop than before",
                    loc,
                    "use another name in the loop",
                )

    def _end(self, item: Carried, value: Atom | UntypedLiteral, loc: SrcLoc | None) -> Atom:
        """``value`` in the carried type; requests a wider type if that one is open."""
        inference, want = self.scope.inference, item.inferred.type
        if inference.outgrows(value, item.inferred, item.variable):
            return Var(want, item.name)  # never emitted: this attempt is void
        try:
            return inference.adapt(value, want, loc, join=True, fixed=item.inferred.fixed)
        except KernelTypeError:
            raise retyped(item.name, "loop", item.before, value, loc) from None

    def _finish(self, outs: Sequence[Var], is_untyped: Sequence[bool]) -> None:
        """Bind the names after the loop; those that only the body assigns are unset."""
        env: dict[str, Value | Unset] = dict(self.outer)
        for name, loc in self.assigned.items():
            if name not in env and not name.startswith("$"):
                for part in self.scope.parts(name) or [name]:
                    last = self.scope.env.get(part)
                    is_unset = isinstance(last, Unset)
                    failed = is_unset and last.has_failed
                    env[part] = Unset(loc, last.like if is_unset else last, failed)
        for item, out, stays_untyped in zip(self.carried, outs, is_untyped, strict=True):
            env[item.name] = out
            if stays_untyped:
                self.scope.inference.mark(out, item.variable, item.inferred, (item.before,))
        self.scope.env = env
