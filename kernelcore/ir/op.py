"""Op: everything the compiler knows about one operation, and the sealed table of all of them.

Compilers dispatch on ``Op.kind``. A PURE op is a row of the built-in table: its own fields say how
it is typed, evaluated, lowered and differentiated. The other kinds are the grammar of the IR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import KernelTypeError
from kernelcore.language.types import TYPE_CLASSES, Scalar, Type


class OpKind(Enum):
    """The kind of an Op, on which compilers dispatch."""

    # Membership tests are frequent, and Enum's own hash is slow: it hashes the name.
    __hash__ = object.__hash__

    PURE = auto()  # scalars in, one scalar out, no effect
    CAST = auto()  # attrs: dtype
    TID = auto()  # attrs: axis; one launch index, int32
    DIM = auto()  # (array), attrs: axis; one extent, int32
    ARRAY_AT = auto()  # (address, *extents) -> array; attrs: dtype, components, spacing in bytes
    LOAD = auto()  # (array, *indices) -> element
    STORE = auto()  # (array, *indices, value)
    ATOMIC_ADD = auto()  # (array, *indices, value) -> old element; attrs: form, an AddForm
    ATOMIC = auto()  # (array, *indices, value) -> old element; attrs: update, an Op or None
    ATOMIC_CAS = auto()  # (array, *indices, expected, desired) -> old element
    PRINT = auto()  # (*values); attrs: pieces, the texts around them; formats, if any
    ASSERT = auto()  # (condition, *numbers of the text); attrs: text; check, the kind of a check
    STACK = auto()  # () -> stack; attrs: dtype
    PUSH = auto()  # (stack, value)
    POP = auto()  # (stack) -> value
    IF = auto()
    FOR = auto()
    WHILE = auto()
    CALL = auto()  # attrs: callee
    SNIPPET = auto()  # (*values and arrays) -> scalars; attrs: snippet (``snippet.py``)
    CUSTOM = auto()  # (*arguments) -> results; attrs: rules (``derivative_rules.py``)
    GRAD = auto()  # (*scalars) -> their cotangents; attrs: callee; removed by ``gradient.py``


class AddForm(Enum):
    """How code adds to an element that other threads may add to."""

    ATOMIC = "atomic"  # by the processor's atomic instructions, in any order
    OWNED = "owned"  # plainly: no other thread touches the element
    SHARED = "shared"  # plainly or atomically, as the launch decides
    PARTIAL = "partial"  # to partial sums, which are added as SHARED when a chunk ends

    def __str__(self) -> str:
        return self.value


# Kinds that read, and kinds that write, an element of their first input.
ATOMICS = frozenset({OpKind.ATOMIC, OpKind.ATOMIC_CAS})
READS = ATOMICS | {OpKind.LOAD}
WRITES = ATOMICS | {OpKind.STORE, OpKind.ATOMIC_ADD}
ACCESSES = READS | WRITES
LOOPS = frozenset({OpKind.FOR, OpKind.WHILE})
# Kinds without effect that give a thread the same value at any time.
REPEATABLE = frozenset({OpKind.PURE, OpKind.CAST, OpKind.TID, OpKind.DIM})
# Kinds with an effect outside of arrays.
MESSAGES = frozenset({OpKind.PRINT, OpKind.ASSERT})


class Division(Enum):
    """Which part of a division rounded down an operation on integers is."""

    QUOTIENT = auto()
    REMAINDER = auto()


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """One operation.

    Attributes:
        params: Argument names to type classes (``TYPE_CLASSES``); PURE ops only.
        result: Type class of the result: one of the classes in ``params``, or a class of one type.
        lower: Emits code for it (see ``builtins/lowering.py``).
        ref: Its meaning on NumPy scalars.
        grad: Per argument, the cotangent as a kernel-language formula over the arguments, ``out``
            and ``ct``, linear in ``ct``; an argument left out has derivative zero.
        no_grad: Why there is no derivative. Exactly one of ``grad`` and ``no_grad`` is given.
        injective: Whether an integer result is an injective function of each argument while the
            others are fixed.
        stride: By how much an integer result grows from thread to thread, given by how much the
            arguments do, and their values where they are literals; None if by no fixed number.
        rmw: By kind of scalar, LLVM's ``atomicrmw`` that updates an element with it.
        division: Which part of the division of its first argument by its second it is, if any.
        neutral: By type, the value that changes no other one; given for operations that are
            associative and commutative, but for rounding.
        array: How a framework computes it on whole arrays (``builtins/spelling.py``), if it does.
    """

    name: str
    kind: OpKind
    params: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    result: str = ""
    doc: str = ""
    lower: Callable[..., str] | None = None
    ref: Callable[..., Any] | None = None
    grad: Mapping[str, str] | None = None
    no_grad: str | None = None
    injective: bool = False
    stride: Callable[[Sequence[int], Sequence[int | None]], int | None] | None = None
    rmw: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    division: Division | None = None
    neutral: Callable[[Scalar], float] | None = None
    array: Any = None

    @property
    def signature(self) -> str:
        """The signature of a PURE op as users read it."""
        params = ", ".join(f"{name}: {cls}" for name, cls in self.params.items())
        return f"{self.name}({params}) -> {self.result}"

    def result_type(self, types: Sequence[Type]) -> Scalar:
        """The result type of a PURE op on ``types``.

        Raises:
            KernelTypeError: An argument count or type that the signature does not take.
        """
        if len(types) != len(self.params):
            raise KernelTypeError(
                f"{self.name}() takes {len(self.params)} arguments, {len(types)} given"
            )
        bound: dict[str, Scalar] = {}
        for (arg, cls), found in zip(self.params.items(), types, strict=True):
            allowed = TYPE_CLASSES[cls]
            if not isinstance(found, Scalar) or found not in allowed:
                names = " or ".join(t.name for t in allowed)
                raise KernelTypeError(
                    f"{self.name}(): argument '{arg}': expected {names}, found {found}"
                )
            if bound.setdefault(cls, found) != found:
                raise KernelTypeError(
                    f"{self.name}(): argument '{arg}': expected {bound[cls]}, found {found}",
                    remedy=f"cast one side, for example {bound[cls]}(...)",
                )
        return bound[self.result] if self.result in bound else TYPE_CLASSES[self.result][0]


CAST = Op("cast", OpKind.CAST)
TID = Op("tid", OpKind.TID)
DIM = Op("dim", OpKind.DIM)
# Its memory may be that of any other array.
ARRAY_AT = Op("array_at", OpKind.ARRAY_AT)
LOAD = Op("load", OpKind.LOAD)
STORE = Op("store", OpKind.STORE)
ATOMIC_ADD = Op("atomic_add", OpKind.ATOMIC_ADD)
# The new element is ``update(old, value)``, or ``value`` where ``update`` is None.
ATOMIC = Op("atomic", OpKind.ATOMIC)
# The new element is ``desired`` if the bits of the old one are those of ``expected``.
ATOMIC_CAS = Op("atomic_cas", OpKind.ATOMIC_CAS)
PRINT = Op("print", OpKind.PRINT)
ASSERT = Op("assert", OpKind.ASSERT)
STACK = Op("stack", OpKind.STACK)
PUSH = Op("push", OpKind.PUSH)
POP = Op("pop", OpKind.POP)
IF = Op("if", OpKind.IF)
FOR = Op("for", OpKind.FOR)
# Attribute of a FOR that runs another loop backwards: the lanes of a gang have their last
# iterations together instead of their first ones, so that each undoes one of the other loop.
ENDS_TOGETHER = "ends_together"
# Attribute of a FOR that runs another loop for its derivative, where nothing but the rounding of
# sums depends on the order of iterations: the order is the compiler's.
ANY_ORDER = "any_order"
# Attribute of a FOR that mostly has one iteration or none: what it costs decides nothing.
FEW_TRIPS = "few_trips"
WHILE = Op("while", OpKind.WHILE)
CALL = Op("call", OpKind.CALL)
SNIPPET = Op("snippet", OpKind.SNIPPET)
CUSTOM = Op("custom", OpKind.CUSTOM)
GRAD = Op("grad", OpKind.GRAD)
