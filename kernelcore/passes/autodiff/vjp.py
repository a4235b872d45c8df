"""Reverse mode (VJP): a kernel that pulls the cotangents of a kernel's arrays back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType

from kernelcore.ir.core import Func
from kernelcore.ir.op import OpKind
from kernelcore.language.types import Scalar
from kernelcore.passes.autodiff import reverse_control, rule_calls, snippet_calls
from kernelcore.passes.autodiff.activity import check_conditions, check_races, derivable
from kernelcore.passes.autodiff.derived import Derived
from kernelcore.passes.autodiff.invariant_loads import load_before_loops
from kernelcore.passes.autodiff.reverse import Handler, Reverse
from kernelcore.passes.autodiff.rules import with_replays

# The reverse sweep over each kind of Op.
HANDLERS: Mapping[OpKind, Handler] = MappingProxyType(
    {
        OpKind.PURE: Reverse.pure,
        OpKind.CAST: Reverse.cast,
        OpKind.LOAD: Reverse.load,
        OpKind.STORE: Reverse.write,
        OpKind.ATOMIC_ADD: Reverse.write,
        OpKind.PUSH: Reverse.stack,
        OpKind.POP: Reverse.stack,
        OpKind.IF: reverse_control.branch,
        OpKind.FOR: reverse_control.loop,
        OpKind.WHILE: reverse_control.loop,
        OpKind.SNIPPET: snippet_calls.reverse,
        OpKind.CUSTOM: rule_calls.reverse,
        **dict.fromkeys(
            (OpKind.TID, OpKind.DIM, OpKind.STACK, OpKind.ATOMIC, OpKind.ATOMIC_CAS),
            Reverse.nothing,
        ),
    }
)


def vjp(
    func: Func,
    wrt: Sequence[int],
    seeds: Sequence[int],
    single: Set[int] = frozenset(),
    saved: Sequence[int] = (),
) -> Derived:
    """Cotangents of the parameters ``wrt``, given those of the arrays ``seeds``.

    The derived kernel has cotangent parameters, which are arrays (of no dimension for a value):
    of ``wrt``, of those ``seeds`` that depend on them, and of arrays that ``func`` both writes and
    loads. On entry they hold the cotangents after ``func``, zero where none is known; on exit those
    before it. Arrays that ``func`` both writes and loads must hold, on entry, what they held before
    ``func``, and are written as by ``func``; those that it only writes are left untouched. The
    launch has one point on the axes ``single``. The parameters ``saved``, which ``func`` got from
    ``saved_results.py``, hold what it stored.

    Raises:
        KernelGradError: ``func`` has no exact derivative.
    """
    return _reverse(func, wrt, seeds, single, saved).run()


def pullback(func: Func) -> Func:
    """Of the parameters of ``func``: the cotangents of its floats, given 1 for every float result.

    Raises:
        KernelGradError: ``func`` has no exact derivative.
    """
    wrt = [i for i, p in enumerate(func.params) if isinstance(p.type, Scalar) and p.type.is_float]
    return _reverse(func, wrt, ()).pull()


def _reverse(
    func: Func,
    wrt: Sequence[int],
    seeds: Sequence[int],
    single: Set[int] = frozenset(),
    saved: Sequence[int] = (),
) -> Reverse:
    func = derivable(load_before_loops(with_replays(func)), [func.params[i] for i in wrt])
    check_races(func, single)
    check_conditions(func)
    return Reverse(func, wrt, seeds, HANDLERS, saved)
