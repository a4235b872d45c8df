"""Forward mode (JVP): a kernel that computes the tangents of a kernel's outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType

from kernelcore.ir.core import Func
from kernelcore.ir.op import ACCESSES, OpKind
from kernelcore.passes.autodiff import rule_calls, snippet_calls
from kernelcore.passes.autodiff.activity import check_races, derivable
from kernelcore.passes.autodiff.derived import Derived
from kernelcore.passes.autodiff.forward import Forward, Handler
from kernelcore.passes.autodiff.rules import with_replays

# The handler that emits the tangents, by kind of Op.
HANDLERS: Mapping[OpKind, Handler] = MappingProxyType(
    {
        OpKind.PURE: Forward.pure,
        OpKind.CAST: Forward.alike,
        OpKind.TID: Forward.keep,
        OpKind.DIM: Forward.keep,
        **dict.fromkeys(ACCESSES, Forward.access),
        OpKind.STACK: Forward.alike,
        OpKind.PUSH: Forward.push,
        OpKind.POP: Forward.alike,
        OpKind.IF: Forward.control,
        OpKind.FOR: Forward.control,
        OpKind.WHILE: Forward.control,
        OpKind.SNIPPET: snippet_calls.forward,
        OpKind.CUSTOM: rule_calls.forward,
    }
)


def jvp(func: Func, active: Sequence[int], single: Set[int] = frozenset()) -> Derived:
    """Tangents of all arrays that ``func`` writes, given those of the ``active`` parameters.

    The derived kernel has a tangent parameter for every active parameter and every array that
    becomes active. It leaves arrays that ``func`` only writes untouched, and updates the others as
    ``func`` does. The launch has one point on the axes ``single``.

    Raises:
        KernelGradError: ``func`` has no exact derivative.
    """
    sources = {func.params[i] for i in active}
    func = derivable(with_replays(func), sources)
    check_races(func, single)
    return Forward(func, sources, HANDLERS).run()
