"""How many registers PTX needs, and which entries get a limit."""

from __future__ import annotations

import pytest

from kernelcore.codegen.gpu.register_limit import BESIDES, MOST, limited, needed

DECLARATIONS = """
	.reg .pred 	%p<9>;
	.reg .b16 	%rs<9>;
	.reg .b32 	%r<99>;
	.reg .b64 	%rd<99>;
"""


def body(*lines: str) -> str:
    return f"\n{{{DECLARATIONS}" + "\n".join(lines) + "\n}"


def entry(*lines: str) -> str:
    return f".visible .entry k(\n\t.param .u64 k_param_0\n){body(*lines)}\n"


LOADS = [f"ld.global.b32 %r{k}, [%rd1];" for k in range(1, 31)]
STORES = [f"st.global.b32 [%rd1], %r{k};" for k in range(1, 31)]
IN_TURNS = [line for pair in zip(LOADS, STORES, strict=True) for line in pair]


@pytest.mark.parametrize(
    ("count", "lines"),
    [
        # An address of 64 bits and one value; all values.
        (3, IN_TURNS),
        (32, [*LOADS, *STORES]),
        # Parameters can be read again, predicates are elsewhere, 16 bits take a register.
        (0, ["ld.param.b64 %rd1, [k_param_0];", "cvta.to.global.u64 %rd2, %rd1;"]),
        (2, ["setp.eq.s32 %p1, %r1, %r2;", "@%p1 ret;"]),
        (3, ["mov.b16 %rs1, 1;", "st.global.b16 [%rd1], %rs1;"]),
        # Vectors are several results; what is written only sometimes was alive before.
        (2, ["ld.v2.b32 {%r1, %r2}, [%rd1];", "add.s32 %r3, %r1, %r2;"]),
        (4, ["mov.b32 %r1, 1;", "@%p1 mov.b32 %r2, 2;", "st.v2.b32 [%rd1], {%r1, %r2};"]),
        # What a loop reads is alive all around it, and what follows it too.
        (3, ["$L1:", "ld.b32 %r2, [%rd1];", "st.b32 [%rd1], %r2;", "@%p1 bra $L1;"]),
        (3, ["$L1:", "add.s32 %r2, %r1, 1;", "@%p1 bra $L1;", "add.s32 %r3, %r2, %r4;"]),
        # Lines of inline assembly have several instructions.
        (3, ["{ .reg .b32 a; mov.b64 {a, %r1}, %rd1; add.u32 %r2, %r1, a; }", STORES[1]]),
    ],
)
def test_values_are_counted_where_they_are_alive(count: int, lines: list[str]) -> None:
    assert needed(body(*lines)) == count


def test_what_needs_few_registers_is_limited() -> None:
    few, many = [*LOADS[:9], *STORES[:9]], [*LOADS, *STORES]
    assert f")\n.maxnreg {MOST}\n{{" in limited(entry(*few))
    assert limited(entry(*many)) == entry(*many)
    # Some quotients are calls of their own, and what is called otherwise takes what is not seen.
    some = [*LOADS[: MOST - BESIDES - 2], *STORES[: MOST - BESIDES - 2]]
    assert ".maxnreg" in limited(entry(*some))
    for line in ("div.rn.f32 %r1, %r1, %r2;", "call.uni malloc, (param0);"):
        assert limited(entry(*some, line)) == entry(*some, line)
