"""What ``inspect`` says of a kernel besides its code."""

from __future__ import annotations

import inspect

import kernelcore as kc

F64 = kc.array(dtype=kc.float64)


@kc.kernel
def nested(x: F64, n: int, y: F64):
    i = kc.tid()
    v = x[i]
    for _ in range(n):
        k = 0
        while v < 2.0:
            v = v * v + 0.5
            k += 1
        v = kc.sin(v)
    y[i] = v


@kc.kernel
def straight(x: F64, y: F64):
    i = kc.tid()
    y[i] = kc.sin(x[i]) * x[i]


def line_of(text: str) -> int:
    lines, first = inspect.getsourcelines(nested.pyfunc)
    return first + next(k for k, line in enumerate(lines) if text in line)


def test_the_adjoint_prints_its_records_and_their_places() -> None:
    text = nested.inspect("vjp")
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert head[0] == "# records, per thread:"
    outer, inner = f"(line {line_of('for _')})", f"while (line {line_of('while')})"
    assert any("float64, 8 bytes per value" in h and h.endswith(inner) for h in head)
    assert any("int64, 8 bytes per value" in h and h.endswith(outer) for h in head)
    for line in head[1:]:
        name = line.split(":")[0].removeprefix("#").strip()
        assert f"{name}: stack" in text
        assert f"push({name}, " in text


def test_an_adjoint_that_records_nothing_says_so() -> None:
    assert straight.inspect("vjp").startswith("# records nothing\nstraight_vjp(")
