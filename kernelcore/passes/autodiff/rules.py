"""Calls of functions with their own derivatives: as plain code, as replays, and what they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kernelcore.base.errors import KernelGradError
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.derivative_rules import Argument, Rules, instantiate, rules_of
from kernelcore.ir.op import WRITES, OpKind
from kernelcore.ir.snippet import array_uses, snippet_of
from kernelcore.ir.walk import replace_body, rewrite, walk_eqns
from kernelcore.language.types import element_type
from kernelcore.passes.access.effects import AccessMap, effects


def without_rules(func: Func) -> Func:
    """``func`` without rules: calls that have some are plain code."""
    return _changed(func, lambda eqn: eqn.regions[0])


def with_replays(func: Func) -> Func:
    """``func`` as its derivatives run it: functions with a replay are replaced by it."""
    return _changed(func, _replay)


def _replay(eqn: Eqn) -> Eqn | Region:
    rules = rules_of(eqn)
    if rules.replay is None:
        return eqn
    body = instantiate(rules.replay, rules.arguments(eqn.inputs))
    if rules.adjoint is None and rules.jvp is None:
        return body
    kept = Rules(rules.name, rules.params, rules.adjoint, rules.jvp)
    return Eqn(eqn.op, eqn.inputs, eqn.outputs, {"rules": kept}, (body,), eqn.loc)


def _changed(func: Func, change: Callable[[Eqn], Eqn | Region]) -> Func:
    if not any(e.op.kind is OpKind.CUSTOM for e in walk_eqns(func.body)):
        return func

    env: dict[Var, Atom] = {}

    def visit(eqn: Eqn) -> Eqn | Region:
        found = change(eqn) if eqn.op.kind is OpKind.CUSTOM else eqn
        return rewrite(found, visit, env) if isinstance(found, Region) else found

    return replace_body(func, rewrite(func.body, visit, env))


def replayed_values(func: Func) -> list[Var]:
    """The results of calls that derivatives replay, and the arrays that these calls write."""
    found: list[Var] = []
    for eqn in walk_eqns(func.body):
        if eqn.op.kind is OpKind.CUSTOM and rules_of(eqn).replay is not None:
            found += (*eqn.outputs, *written(eqn))
        elif eqn.op.kind is OpKind.SNIPPET and snippet_of(eqn).replay is not None:
            found += (*eqn.outputs, *(use.array for use in array_uses(eqn) if use.writes))
    return found


def reads_after_launch(func: Func) -> Iterator[tuple[Var, Eqn]]:
    """Arrays that derivatives load and that only calls with a replay write, with these calls."""
    replay = with_replays(func)
    if replay is func:
        return
    by_rules = {
        array
        for eqn in walk_eqns(replay.body)
        if eqn.op.kind is OpKind.CUSTOM
        for _, rule in rules_of(eqn).functions()
        for array in loaded(rule, rules_of(eqn).arguments(eqn.inputs))
    }
    rows = zip(func.params, effects(func), effects(replay), strict=True)
    arrays = {
        param
        for param, own, again in rows
        if own.writes and not again.writes and (again.loads or param in by_rules)
    }
    for eqn in walk_eqns(func.body):
        if eqn.op.kind is OpKind.CUSTOM and rules_of(eqn).replay is not None:
            yield from ((array, eqn) for array in written(eqn) if array in arrays)


def own_code(func: Func) -> set[Eqn]:
    """The Eqns of functions with rules, for which their author answers."""
    calls = (e for e in walk_eqns(func.body) if e.op.kind is OpKind.CUSTOM)
    return {eqn for call in calls for eqn in walk_eqns(call.regions[0])}


def written(eqn: Eqn) -> list[Var]:
    """The arrays that the code of a CUSTOM Eqn writes."""
    found: dict[Var, None] = {}
    for inner in walk_eqns(eqn.regions[0]):
        if inner.op.kind in WRITES and isinstance(inner.inputs[0], Var):
            found[inner.inputs[0]] = None
        elif inner.op.kind is OpKind.SNIPPET:
            found.update((use.array, None) for use in array_uses(inner) if use.writes)
    return list(found)


def refuse_reads_after_launch(func: Func) -> None:
    """Refuse replays that read the results of the launch, where these are not available.

    Raises:
        KernelGradError: Naming the call.
    """
    for array, eqn in reads_after_launch(func):
        raise KernelGradError(
            f"{rules_of(eqn).name}() has a replay, and its derivative reads '{array.name}' as the "
            "launch left it",
            eqn.loc,
            "differentiate it with kernelcore.launch(..., adjoint=True), which is given the arrays "
            "after the launch",
        )


def loaded(rule: Func, arguments: Sequence[Argument]) -> list[Var]:
    """The arrays among ``arguments`` whose elements ``rule`` loads."""
    pairs = zip(effects(rule), arguments, strict=False)
    return [a[0] for effect, a in pairs if effect.loads and isinstance(a[0], Var)]


def check_loads(rule: Func, eqn: Eqn, accesses: AccessMap, *, is_reverse: bool) -> None:
    """Refuse a rule that loads elements whose values at the call are gone.

    Raises:
        KernelGradError: Naming the call.
    """
    rules = rules_of(eqn)
    for array in loaded(rule, rules.arguments(eqn.inputs)):
        if not accesses.has(array, *WRITES):
            continue
        if is_reverse or not accesses.has(array, OpKind.LOAD):
            raise KernelGradError(
                f"the derivative of {rules.name}() reads '{array.name}', which the kernel writes: "
                "the values that it needs are gone",
                eqn.loc,
                "pass the values as arguments, or write to another array",
            )


def float_arguments(rules: Rules, inputs: Sequence[Atom]) -> list[Argument]:
    """The arguments that have derivatives: floats and arrays of floats."""
    arguments = rules.arguments(inputs)
    pairs = zip(rules.params, arguments, strict=True)
    return [a for t, a in pairs if element_type(t).is_float]
