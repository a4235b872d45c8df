"""Verify: the only definition of well-formed IR."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import (
    FLOAT_PLACE,
    INTEGER_PLACE,
    KernelTypeError,
    SrcLoc,
    VerifyError,
)
from kernelcore.ir.builder import result_types
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.derivative_rules import rules_of
from kernelcore.ir.op import Op, OpKind
from kernelcore.language.types import (
    MAX_GRID_DIMS,
    ArrayType,
    Scalar,
    StackType,
    Type,
    boolean,
    float64,
    int32,
    int64,
    uint64,
)


def verify(func: Func) -> Func:
    """Check ``func`` and return it.

    Every Var is bound once and before use, inside the region that binds it; every Eqn has the types
    that its Op gives; region parameters and yields agree with the Eqn that holds them.

    Raises:
        VerifyError: The first violation, with the location of its Eqn.
    """
    if not 0 <= func.grid_rank <= MAX_GRID_DIMS:
        raise VerifyError(f"{func.name}: grid rank {func.grid_rank}", func.loc)
    checker = _Checker(func)
    checker.region(func.body, set())
    return func


@dataclass(frozen=True, slots=True)
class _Arity:
    """How many inputs (least and most) and regions an Eqn has, and which attributes."""

    inputs: tuple[int, int] = (0, 1 << 30)
    regions: int = 0
    attrs: tuple[str, ...] = ()


_ARITIES = {
    OpKind.CAST: _Arity((1, 1), attrs=("dtype",)),
    OpKind.TID: _Arity((0, 0), attrs=("axis",)),
    OpKind.DIM: _Arity((1, 1), attrs=("axis",)),
    OpKind.ARRAY_AT: _Arity((2, 1 << 30), attrs=("dtype", "components", "spacing")),
    OpKind.LOAD: _Arity((1, 1 << 30)),
    OpKind.STORE: _Arity((2, 1 << 30)),
    OpKind.ATOMIC_ADD: _Arity((2, 1 << 30)),
    OpKind.ATOMIC: _Arity((2, 1 << 30), attrs=("update",)),
    OpKind.ATOMIC_CAS: _Arity((3, 1 << 30)),
    OpKind.PRINT: _Arity(attrs=("pieces",)),
    OpKind.ASSERT: _Arity((1, 1 << 30), attrs=("text",)),
    OpKind.STACK: _Arity((0, 0), attrs=("dtype",)),
    OpKind.PUSH: _Arity((2, 2)),
    OpKind.POP: _Arity((1, 1)),
    OpKind.IF: _Arity((1, 1), regions=2),
    OpKind.FOR: _Arity((3, 1 << 30), regions=1),
    OpKind.WHILE: _Arity(regions=2),
    OpKind.CALL: _Arity(attrs=("callee",)),
    OpKind.SNIPPET: _Arity(attrs=("snippet",)),
    OpKind.CUSTOM: _Arity(regions=1, attrs=("rules",)),
    OpKind.GRAD: _Arity(attrs=("callee",)),
}


# What the places in the text of an ASSERT take.
_OF_PLACES = {INTEGER_PLACE: int64, FLOAT_PLACE: float64}


class _Checker:
    def __init__(self, func: Func) -> None:
        self.func = func
        self.bound: set[Var] = set()

    def fail(self, text: str, loc: SrcLoc | None = None) -> VerifyError:
        return VerifyError(f"{self.func.name}: {text}", loc)

    def bind(self, var: Var, visible: set[Var], loc: SrcLoc | None) -> None:
        if var in self.bound:
            raise self.fail(f"'{var.name}' is bound twice", loc)
        self.bound.add(var)
        visible.add(var)

    def use(self, atom: Atom, visible: set[Var], loc: SrcLoc | None) -> None:
        if isinstance(atom, Var) and atom not in visible:
            raise self.fail(f"'{atom.name}' is used where it is not bound", loc)
        if isinstance(atom, Const) and type(atom.value) is not atom.type.python:
            raise self.fail(f"literal {atom.value!r} is no {atom.type}", loc)

    def region(self, region: Region, outer: set[Var]) -> None:
        visible = set(outer)
        for param in region.params:
            self.bind(param, visible, None)
        for eqn in region.eqns:
            for atom in eqn.inputs:
                self.use(atom, visible, eqn.loc)
            self.arity(eqn)
            for inner in eqn.regions:
                self.region(inner, visible)
            self.types(eqn)
            for out in eqn.outputs:
                self.bind(out, visible, eqn.loc)
        for atom in region.yields:
            self.use(atom, visible, None)

    def types(self, eqn: Eqn) -> None:
        match eqn.op.kind:
            case OpKind.IF | OpKind.FOR | OpKind.WHILE:
                self.control(eqn)
            case OpKind.CUSTOM:
                self.custom(eqn)
            case _:
                self.plain(eqn)

    def expect(self, eqn: Eqn, what: str, found: Sequence[Atom], want: Sequence[Type]) -> None:
        types = tuple(a.type for a in found)
        if types != tuple(want):
            raise self.fail(f"{eqn.op.name}: {what}: {types}, expected {tuple(want)}", eqn.loc)

    def plain(self, eqn: Eqn) -> None:
        self.operands(eqn)
        try:
            types = result_types(eqn.op, eqn.inputs, eqn.attrs)
        except KernelTypeError as error:
            raise self.fail(error.message, eqn.loc) from None
        self.expect(eqn, "outputs", eqn.outputs, types)

    def arity(self, eqn: Eqn) -> None:
        """Counts of inputs and regions, and the names of attributes."""
        arity = _ARITIES.get(eqn.op.kind, _Arity())
        counts = range(arity.inputs[0], arity.inputs[1] + 1)
        if len(eqn.inputs) not in counts or len(eqn.regions) != arity.regions:
            raise self.fail(
                f"{eqn.op.name}: {len(eqn.inputs)} inputs, {len(eqn.regions)} regions", eqn.loc
            )
        if not set(arity.attrs) <= set(eqn.attrs):
            raise self.fail(f"{eqn.op.name}: attributes {sorted(eqn.attrs)}", eqn.loc)

    def operands(self, eqn: Eqn) -> None:
        kinds = [type(a.type) for a in eqn.inputs]
        match eqn.op.kind:
            case OpKind.LOAD | OpKind.STORE | OpKind.ATOMIC_ADD | OpKind.ATOMIC_CAS:
                self.access(eqn)
            case OpKind.ATOMIC:
                self.access(eqn)
                self.update(eqn)
            case OpKind.PRINT:
                if set(kinds) - {Scalar} or len(eqn.attrs["pieces"]) != len(kinds) + 1:
                    raise self.fail(f"print of {kinds} in {eqn.attrs['pieces']}", eqn.loc)
            case OpKind.ASSERT:
                text = eqn.attrs["text"] if "check" in eqn.attrs else ""
                numbers = [_OF_PLACES[c] for c in text if c in _OF_PLACES]
                self.expect(eqn, "condition", eqn.inputs, [boolean, *numbers])
            case OpKind.DIM:
                array = eqn.inputs[0].type
                if not isinstance(array, ArrayType) or not 0 <= eqn.attrs["axis"] < array.ndim:
                    raise self.fail("dim of no such axis", eqn.loc)
            case OpKind.ARRAY_AT:
                self.expect(eqn, "address", eqn.inputs[:1], [uint64])
            case OpKind.TID:
                if not 0 <= eqn.attrs["axis"] < self.func.rank:
                    raise self.fail("tid of no such axis", eqn.loc)
            case OpKind.CAST if kinds != [Scalar]:
                raise self.fail(f"cast of {kinds}", eqn.loc)
            case OpKind.PUSH | OpKind.POP:
                stack = eqn.inputs[0].type
                want = [stack.dtype] if isinstance(stack, StackType) else []
                if not isinstance(stack, StackType):
                    raise self.fail(f"{eqn.op.name} on {stack}", eqn.loc)
                pushed = want if eqn.op.kind is OpKind.PUSH else []
                self.expect(eqn, "operands", eqn.inputs[1:], pushed)
            case OpKind.CALL | OpKind.GRAD:
                callee: Func = eqn.attrs["callee"]
                self.expect(eqn, "arguments", eqn.inputs, [p.type for p in callee.params])
                verify(callee)
            case _:
                pass

    def access(self, eqn: Eqn) -> None:
        array = eqn.inputs[0].type
        if not isinstance(array, ArrayType):
            raise self.fail(f"{eqn.op.name} on {array}", eqn.loc)
        indices = eqn.inputs[1 : 1 + array.ndim]
        values = eqn.inputs[1 + array.ndim :]
        if len(indices) != array.ndim or any(i.type not in (int32, int64) for i in indices):
            raise self.fail(f"{eqn.op.name}: bad indices", eqn.loc)
        count = {OpKind.LOAD: 0, OpKind.ATOMIC_CAS: 2}.get(eqn.op.kind, 1)
        self.expect(eqn, "value", values, [array.dtype] * count)

    def update(self, eqn: Eqn) -> None:
        update: Op | None = eqn.attrs["update"]
        if update is None:
            return
        dtype = eqn.inputs[-1].type
        if update.kind is not OpKind.PURE or len(update.params) != 2:
            raise self.fail(f"atomic update by {update.name}", eqn.loc)
        try:
            found = update.result_type([dtype, dtype])
        except KernelTypeError as error:
            raise self.fail(error.message, eqn.loc) from None
        if found != dtype:
            raise self.fail(f"atomic update by {update.name} gives {found}", eqn.loc)

    def control(self, eqn: Eqn) -> None:
        """Check inputs, parameters and yields of a branch or loop against its outputs."""
        outputs = [v.type for v in eqn.outputs]
        carried: list[Type] = outputs
        leading: list[Type] = []
        params: list[Type] = []
        match eqn.op.kind:
            case OpKind.IF:
                leading, carried = [boolean], []
            case OpKind.FOR:
                index = eqn.inputs[0].type
                if not (isinstance(index, Scalar) and index.is_integer):
                    raise self.fail(f"for over {index}", eqn.loc)
                leading, params = [index, index, index], [index]
            case _:
                pass
        self.expect(eqn, "operands", eqn.inputs, [*leading, *carried])
        for number, region in enumerate(eqn.regions):
            is_condition = eqn.op.kind is OpKind.WHILE and number == 0
            self.expect(eqn, "parameters", region.params, [*params, *carried])
            self.expect(eqn, "yields", region.yields, [boolean] if is_condition else outputs)

    def custom(self, eqn: Eqn) -> None:
        (body,) = eqn.regions
        rules = rules_of(eqn)
        self.expect(eqn, "parameters", body.params, [])
        self.expect(eqn, "yields", body.yields, [v.type for v in eqn.outputs])
        try:
            wanted = rules.signatures(eqn.inputs, eqn.outputs)
        except KernelTypeError as error:
            raise self.fail(error.message, eqn.loc) from None
        for func, params, results in wanted:
            self.expect(eqn, f"parameters of {func.name}", func.params, params)
            self.expect(eqn, f"results of {func.name}", func.body.yields, results)
            verify(func)
