"""Elementary functions as LLVM text: each is an internal function of the module that calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from kernelcore.builtins import composed
from kernelcore.builtins.lowering import (
    LLVM_TYPES,
    PURE_ATTRIBUTES,
    Emit,
    Lower,
    call_intrinsic,
    intrinsic,
    literal,
    select,
)
from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.language.types import Scalar, boolean, float32, float64, int32, int64

INTEGERS = {32: int32, 64: int64}
_UNARY: dict[str, Lower] = {
    "neg": composed.neg,
    "not": composed.invert,
    "abs": composed.abs,
    "sqrt": intrinsic("sqrt"),
}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARISONS = {"lt": "olt", "le": "ole", "eq": "oeq", "ne": "une"}
_INTEGER_COMPARISONS = {"lt": "slt", "le": "sle", "eq": "eq", "ne": "ne"}


class Emission:
    """Writes the body of one function; the raw of a Value is its text.

    ``branches`` says that rare cases are branches in place, for targets where calls cost registers,
    and that divisions of the target have such a case.
    """

    def __init__(
        self, lanes: int, fused: bool, branches: bool = False, scales: bool = False
    ) -> None:
        self.lanes = lanes
        self.fused = fused
        self.scales = scales
        self.branches = branches
        self.block = "entry"
        self.lines: list[str] = []
        # Declarations and definitions that the function refers to.
        self.needed: dict[str, None] = {}

    @property
    def gang(self) -> int:
        """See ``Emit``."""
        return self.lanes

    def op(self, text: str) -> str:
        """Append an instruction that yields a value; returns the value's name."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def declare(self, text: str) -> None:
        """Note a declaration or definition that the function refers to."""
        self.needed[text] = None

    def type(self, scalar: Scalar) -> str:
        """The LLVM type of ``scalar`` at the lane count."""
        return _wide(LLVM_TYPES[scalar.name], self.lanes)

    def const(self, scalar: Scalar, value: float) -> str:
        """``value``, rounded to ``scalar``."""
        text = literal(scalar, value)
        return text if self.lanes == 1 else f"splat ({LLVM_TYPES[scalar.name]} {text})"

    def unary(self, name: str, scalar: Scalar, x: str) -> str:
        """See ``Arithmetic``."""
        if name == "reciprocal":
            return self._reciprocal(scalar, x)
        return _UNARY[name](self, scalar, x)

    def binary(self, name: str, scalar: Scalar, x: str, y: str) -> str:
        """See ``Arithmetic``."""
        if name in _COMPARISONS:
            test = _COMPARISONS if scalar.is_float else _INTEGER_COMPARISONS
            name = f"{'fcmp' if scalar.is_float else 'icmp'} {test[name]}"
        elif scalar.is_float:
            name = _FLOAT[name]
        return self.op(f"{name} {self.type(scalar)} {x}, {y}")

    def fused_multiply_add(self, scalar: Scalar, x: str, y: str, z: str) -> str:
        """``x * y + z``, rounded once."""
        return call_intrinsic(self, "fma", scalar, (x, y, z))

    def scaled(self, scalar: Scalar, x: str, exponent: str) -> str:
        """See ``Arithmetic``."""
        integer = INTEGERS[scalar.bits]
        count = exponent if integer == int32 else self.convert(integer, int32, exponent)
        ty, whole = self.type(scalar), self.type(int32)
        lanes = "" if self.lanes == 1 else f"v{self.lanes}"
        name = f"@llvm.ldexp.{lanes}f{scalar.bits}.{lanes}i32"
        self.declare(f"declare {ty} {name}({ty}, {whole})")
        return self.op(f"call {ty} {name}({ty} {x}, {whole} {count})")

    def select(self, scalar: Scalar, condition: str, x: str, y: str) -> str:
        """``x`` where ``condition`` holds, else ``y``."""
        return select(self, scalar, condition, x, y)

    def reinterpret(self, source: Scalar, target: Scalar, x: str) -> str:
        """The bits of ``x`` as another type of the same width."""
        return self.op(f"bitcast {self.type(source)} {x} to {self.type(target)}")

    def convert(self, source: Scalar, target: Scalar, x: str) -> str:
        """``x`` as another type: floats round to nearest, integers wrap and keep their sign."""
        wider = target.bits > source.bits
        if source.is_float:
            name = "fpext" if wider else "fptrunc"
        elif target.is_float:
            name = "sitofp"
        else:
            name = "sext" if wider else "trunc"
        return self.op(f"{name} {self.type(source)} {x} to {self.type(target)}")

    def lookup(self, table: Sequence[int], index: str) -> str:
        """The int64 at ``index``, of functions of one lane."""
        assert self.lanes == 1
        entries = ", ".join(f"i64 {n}" for n in table)
        array = f"[{len(table)} x i64]"
        self.declare(f"@kc.table = private unnamed_addr constant {array} [{entries}]")
        return self.op(f"load i64, ptr {self.op(f'getelementptr i64, ptr @kc.table, i64 {index}')}")

    def beyond(
        self, limit: float, function: Callable[[Value], Value], x: Value, usual: Value
    ) -> str:
        """``usual`` where ``abs(x) <= limit``, else ``function(x)``."""
        if self.branches:
            return self._branch(abs(x) <= limit, usual, lambda: function(x))
        symbol, texts = _rare_function(function, limit, x.type, self.lanes, self.fused)
        self.needed.update(dict.fromkeys(texts))
        ty = self.type(x.type)
        return self.op(f"call {ty} @{symbol}.v{self.lanes}({ty} {x.raw}, {ty} {usual.raw})")

    def shortened(self, is_usual: Value, usual: Value, whole: Callable[[], Value]) -> str:
        """``whole()``, which equals ``usual`` where ``is_usual`` holds."""
        return self._branch(is_usual, usual, whole) if self.branches else whole().raw

    def _branch(self, is_usual: Value, usual: Value, rare: Callable[[], Value]) -> str:
        """``usual`` or else ``rare()``, as a branch of a single thread."""
        before = self.block
        other, done = (f"{hint}{len(self.lines)}" for hint in ("rare", "done"))
        self.lines += [f"  br i1 {is_usual.raw}, label %{done}, label %{other}", f"{other}:"]
        self.block = other
        result = rare().raw
        edges = f"[ {usual.raw}, %{before} ], [ {result}, %{self.block} ]"
        self.lines += [f"  br label %{done}", f"{done}:"]
        self.block = done
        return self.op(f"phi {self.type(usual.type)} {edges}")

    @property
    def estimates(self) -> bool:
        """See ``Arithmetic``."""
        return self.branches

    def _reciprocal(self, scalar: Scalar, x: str) -> str:
        ty = self.type(scalar)
        symbol = f"llvm.nvvm.rcp.approx.ftz.{ty[0]}"
        self.declare(f"declare {ty} @{symbol}({ty})")
        estimate = self.op(f"call {ty} @{symbol}({ty} {x})")
        if scalar == float32:
            return estimate
        # The lower half is 0. With the lowest bit these are the steps of ``ptxas`` to the bit.
        odd = self.op(f"or i64 {self.reinterpret(float64, int64, estimate)}, 1")
        return self.reinterpret(int64, float64, odd)


def lowered(function: Callable[..., Value]) -> Lower:
    """``function`` as a lowering (``builtins/lowering.py``): a call that LLVM inlines."""

    def lower(e: Emit, t: Scalar, *operands: str) -> str:
        target = e.fused, e.branches, e.scales
        made = _inlined_function(function, len(operands), t, e.lanes, *target)
        return call_inlined(e, t, made, operands)

    return lower


# The symbol of a function, and the texts that it takes.
Inlined = tuple[str, tuple[str, ...]]


def call_inlined(e: Emit, t: Scalar, function: Inlined, operands: Sequence[str]) -> str:
    """A call of ``function``, whose operands and result are of type ``t``; LLVM inlines it."""
    symbol, texts = function
    for text in texts:
        e.declare(text)
    ty = e.type(t)
    return e.op(f"call {ty} @{symbol}({', '.join(f'{ty} {x}' for x in operands)})")


def inlined(symbol: str, on: Emission, t: Scalar, count: int, result: str) -> Inlined:
    """The function of ``%x0`` and so on, ``count`` of type ``t``, whose body is in ``on``."""
    ty = on.type(t)
    lines = [
        f"define internal {ty} @{symbol}({', '.join(f'{ty} %x{k}' for k in range(count))}) "
        f"alwaysinline {PURE_ATTRIBUTES} {{",
        "entry:",
        *on.lines,
        f"  ret {ty} {result}",
        "}",
    ]
    return symbol, (*on.needed, "\n".join(lines))


@cache
def _inlined_function(
    function: Callable[..., Value],
    count: int,
    t: Scalar,
    lanes: int,
    fused: bool,
    branches: bool,
    scales: bool,
) -> Inlined:
    """``function`` for ``count`` operands of type ``t``."""
    on = Emission(lanes, fused, branches, scales)
    result = function(*(Value(on, t, f"%x{k}") for k in range(count)))
    return inlined(f"{_symbol(function, t)}.v{lanes}", on, t, count, result.raw)


@cache
def _rare_function(
    function: Callable[[Value], Value], limit: float, t: Scalar, lanes: int, fused: bool
) -> tuple[str, tuple[str, ...]]:
    """The symbol, less its lane count, and the texts of what ``Emission.beyond`` calls.

    It tests all lanes at once; those beyond the limit are replaced in memory, one by one.
    """
    symbol, texts = _replacing_function(function, limit, t, fused)
    on = Emission(lanes, fused)
    on.needed.update(dict.fromkeys(texts))
    ty = on.type(t)
    mask = (abs(Value(on, t, "%x")) <= limit).raw
    if lanes > 1:
        reduce = f"i1 @llvm.vector.reduce.and.v{lanes}i1({on.type(boolean)}"
        on.declare(f"declare {reduce})")
        mask = on.op(f"call {reduce} {mask})")
    lines = [
        f"define internal {ty} @{symbol}.v{lanes}({ty} %x, {ty} %usual) noinline "
        f"{PURE_ATTRIBUTES} {{",
        *on.lines,
        f"  br i1 {mask}, label %done, label %rare",
        "done:",
        f"  ret {ty} %usual",
        "rare:",
        f"  %xs = alloca {ty}",
        f"  %ys = alloca {ty}",
        f"  store {ty} %x, ptr %xs",
        f"  store {ty} %usual, ptr %ys",
        f"  call void @{symbol}(ptr %xs, ptr %ys, i64 {lanes})",
        f"  %y = load {ty}, ptr %ys",
        f"  ret {ty} %y",
        "}",
    ]
    return symbol, (*on.needed, "\n".join(lines))


@cache
def _replacing_function(
    function: Callable[[Value], Value], limit: float, t: Scalar, fused: bool
) -> tuple[str, tuple[str, ...]]:
    """The symbol and texts of a loop that stores ``function`` of the elements beyond the limit."""
    on, symbol = Emission(1, fused), _symbol(function, t)
    ty = on.type(t)
    x = Value(on, t, "%x")
    usual = (abs(x) <= limit).raw
    test, on.lines = on.lines, [""] * len(on.lines)
    result = function(x).raw
    lines = [
        # Optimising this rare path costs compile time.
        f"define internal void @{symbol}(ptr %xs, ptr %ys, i64 %count) "
        "noinline optnone nounwind {",
        "entry:",
        "  br label %element",
        "element:",
        "  %k = phi i64 [ 0, %entry ], [ %next, %continue ]",
        f"  %at = getelementptr {ty}, ptr %xs, i64 %k",
        f"  %x = load {ty}, ptr %at",
        *test,
        f"  br i1 {usual}, label %continue, label %replace",
        "replace:",
        *on.lines[len(test) :],
        f"  %to = getelementptr {ty}, ptr %ys, i64 %k",
        f"  store {ty} {result}, ptr %to",
        "  br label %continue",
        "continue:",
        "  %next = add i64 %k, 1",
        "  %is_last = icmp eq i64 %next, %count",
        "  br i1 %is_last, label %done, label %element",
        "done:",
        "  ret void",
        "}",
    ]
    return symbol, (*on.needed, "\n".join(lines))


def _symbol(function: Callable[..., Value], t: Scalar) -> str:
    return f"kc.{function.__name__}.{LLVM_TYPES[t.name]}"


def _wide(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"
