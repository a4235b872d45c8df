"""Where results of Warp differ from those of kernelcore itself: the table of the documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.compat.warp.port.values import Elements, Operand
from kernelcore.language.types import Dense, Scalar

# Whether operands are such that results differ; None if that cannot be told from the source.
Condition = Callable[[Sequence[Operand]], bool | None]


def _each(operands: Sequence[Operand], holds: Callable[[Scalar], bool]) -> list[bool | None]:
    """Per operand whether its scalar is such; None where the type is not known."""
    scalars = [o.scalar for o in operands]
    return [None if s is None else holds(s) for s in scalars]


def _all(found: list[bool | None]) -> bool | None:
    return False if False in found else None if None in found else True


def always(operands: Sequence[Operand]) -> bool:
    return True


def integers(operands: Sequence[Operand]) -> bool | None:
    return _all(_each(operands, lambda s: s.is_integer))


def floats(operands: Sequence[Operand]) -> bool | None:
    found = _each(operands, lambda s: s.is_float)
    return True if True in found else _all(found)


def signed(operands: Sequence[Operand]) -> bool | None:
    """Whether a remainder may have operands of different signs."""
    if all(o.is_positive for o in operands):
        return False
    return None if any(o.type is None for o in operands) else True


def composites(operands: Sequence[Operand]) -> bool | None:
    kinds = [None if o.type is None else isinstance(o.type, Dense) for o in operands]
    return _all(kinds)


def arrays(operands: Sequence[Operand]) -> bool | None:
    return _all([None if o.type is None else isinstance(o.type, Elements) for o in operands])


@dataclass(frozen=True, slots=True)
class Difference:
    """An operation whose results differ.

    Attributes:
        names: The operation: an operator of Python, or names of Warp.
        operands: For what it is written in the table.
        condition: Whether operands are such.
        plain: What ``import kernelcore`` gives.
        warp: What Warp and ``kernelcore.compat.warp`` give.
    """

    names: tuple[str, ...]
    operands: str
    condition: Condition
    plain: str
    warp: str

    @property
    def title(self) -> str:
        """The operations and their operands."""
        return f"{', '.join(f'`{n}`' for n in self.names)} {self.operands}".strip()


DIFFERENCES = (
    Difference(
        ("/", "cw_div"), "of integers", integers, "an error (`//` rounds down)", "-3 for -7 and 2"
    ),
    Difference(
        ("%", "mod"),
        "of operands with different signs",
        signed,
        "the sign of the divisor (1 for -7 and 2)",
        "that of the dividend (-1)",
    ),
    Difference(("sign",), "of 0", always, "0", "1"),
    Difference(
        ("round",), "of halves", floats, "the even one (2 for 2.5)", "that away from zero (3)"
    ),
    Difference(("min", "max", "clamp"), "of NaN", floats, "NaN", "the other operand or a bound"),
    Difference(("acos", "asin"), "outside of [-1, 1]", always, "NaN", "what the closer end has"),
    Difference(
        ("isnan", "isinf", "isfinite"),
        "of vectors and matrices",
        composites,
        "a bool per component",
        "one bool",
    ),
    Difference(
        ("lower_bound",),
        "of a value above all elements",
        always,
        "the number of elements",
        "the last index",
    ),
    Difference(
        ("[]",),
        "of arrays at a negative literal",
        arrays,
        "an error",
        "the element counted from the end",
    ),
    Difference(
        ("array",),
        "of uint16 as bfloat16",
        always,
        "the numbers, converted",
        "the bits of the numbers",
    ),
    Difference(
        ("jax_kernel",),
        "without `num_outputs`, of `jax_experimental`",
        always,
        "one output",
        "every parameter that a call gives no input for",
    ),
)


def difference_of(name: str) -> Difference | None:
    """The entry of the operation ``name``, a name of Warp or an operator."""
    return next((d for d in DIFFERENCES if name in d.names), None)
