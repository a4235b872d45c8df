"""One compilation reports every mistake of a kernel, each with its line and its place in it."""

# Its code is wrong on purpose.
# pyright: basic, reportInvalidTypeForm=false, reportRedeclaration=false

from __future__ import annotations

import textwrap

import pytest

import kernelcore as kc

A1 = kc.array(dtype=kc.float64)
A2 = kc.array(dtype=kc.float64, ndim=2)


@kc.struct
class Body:
    mass: kc.float64
    velocity: kc.vec3d
    samples: kc.array(dtype=kc.float64)


@kc.func
def scaled(x: kc.float64, by: kc.float64) -> kc.float64:
    return x * by


@kc.func
def bump(x: kc.ref[kc.float64], by: kc.float64):
    x += by


@kc.func
def picked(x: float) -> float:
    return x


@kc.func
def picked(x: kc.vec3) -> float:  # noqa: F811
    return x[0]


def host(x: float) -> float:
    return x


# A comment says what the caret of the mistake in its line is under.
KERNELS = {
    "names": """
        def kernel(x: A1):
            i = kc.tid()
            a = x[i] + lost  # lost
            b = a * gone  # gone
            x[i] = b + kc.sine(a)  # kc.sine
            x[i] += scale(a, 2.0)  # scale
        """,
    "types_of_operands": """
        def kernel(x: A1, n: int, y: float):
            i = kc.tid()
            x[i] = x[i] * n  # x[i] * n
            x[i] += y  # y
            n = n / 2  # n / 2
            k = n + 0.5  # n + 0.5
            x[k] = 1.0
        """,
    "arguments_of_built_ins": """
        def kernel(x: A1, n: int):
            i = kc.tid()
            x[i] = kc.sin(n)  # kc.sin(n)
            x[i] = kc.atan2(x[i])  # kc.atan2(x[i])
            x[i] = kc.sin(angle=x[i])  # angle=x[i]
            x[i] = kc.clamp(x[i], 0.0)  # kc.clamp(x[i], 0.0)
        """,
    "arguments_of_functions": """
        def kernel(x: A1, n: int):
            i = kc.tid()
            x[i] = scaled(x[i])  # scaled(x[i])
            x[i] = scaled(x[i], n)  # scaled(x[i], n)
            x[i] = scaled(x[i], to=2.0)  # scaled(x[i], to=2.0)
            x[i] = host(x[i])  # host(x[i])
        """,
    "overloads": """
        def kernel(x: kc.array(dtype=float), n: int):
            i = kc.tid()
            x[i] = picked(kc.vec2(1.0))  # picked(kc.vec2(1.0))
            x[i] = picked(n)  # picked(n)
            x[i] = picked(x)  # picked(x)
        """,
    "indices": """
        def kernel(x: A1, m: A2, n: int):
            i, j = kc.tid()
            m[i, j] = x[i, j]  # x[i, j]
            x[0.5] = 1.0  # 0.5
            x[m[i, j]] = 2.0  # m[i, j]
            n[0] = 3  # n
            x[-1] = 4.0  # -1
        """,
    "composites": """
        def kernel(v: kc.array(dtype=kc.vec3d), w: kc.vec2d):
            i = kc.tid()
            v[i] = v[i] + w  # v[i] + w
            a = v[i].w  # v[i].w
            b = v[i][3]  # 3
            v[i] = v[i] * v[i]  # v[i] * v[i]
            v[i] = kc.vec3d(1.0, 2.0)  # kc.vec3d(1.0, 2.0)
        """,
    "matrices": """
        def kernel(m: kc.array(dtype=kc.mat33d), v: kc.vec2d):
            i = kc.tid()
            w = m[i] @ v  # m[i] @ v
            m[i] = m[i] + 1.0  # m[i] + 1.0
            m[i] = kc.transpose(v)  # kc.transpose(v)
            d = kc.determinant(v)  # kc.determinant(v)
        """,
    "structs": """
        def kernel(b: Body, x: A1):
            i = kc.tid()
            x[i] = b.weight  # b.weight
            b.mass = kc.vec3d(1.0)  # kc.vec3d(1.0)
            c = Body(mas=1.0)  # Body(mas=1.0)
            x[i] = b + 1.0  # b + 1.0
            x[i] = b.samples  # b.samples
        """,
    "statements": """
        def kernel(x: A1, n: int):
            i = kc.tid()
            y = [1.0, 2.0]  # [1.0, 2.0]
            f = lambda v: v  # lambda v: v
            z = {1: 2}  # {1: 2}
            s = 'text'  # 'text'
            x[i] = 1.0
        """,
    "loops": """
        def kernel(x: A1, n: int):
            i = kc.tid()
            for k in range(0.5):  # 0.5
                x[k] = 1.0
            for v in x:  # x
                n += 1
            for k in range(n):
                x[k] = lost  # lost
            while n > missing:  # missing
                n -= 1
        """,
    "branches": """
        def kernel(x: A1, n: int):
            i = kc.tid()
            if x[i] > lost:  # lost
                x[i] = 1.0
            elif n > 1:
                x[i] = gone  # gone
            else:
                x[i] = n  # n
            x[i] = 1.0 if nowhere else 2.0  # nowhere
        """,
    "inside_of_a_branch_in_a_loop": """
        def kernel(x: A1, n: int):
            i = kc.tid()
            for k in range(n):
                if k > 2:
                    x[k] = kc.sin(k)  # kc.sin(k)
                    x[k] = x[k] + n  # x[k] + n
                else:
                    x[k] = lost  # lost
            x[i, 0] = 1.0  # x[i, 0]
        """,
    "atomics": """
        def kernel(x: A1, m: A2, n: int):
            i = kc.tid()
            kc.atomic_add(m, i, 1.0)  # kc.atomic_add(m, i, 1.0)
            kc.atomic_add(n, 0, 1)  # kc.atomic_add(n, 0, 1)
            kc.atomic_add(x, i, n)  # n
            kc.atomic_and(x, i, 1.0)  # kc.atomic_and(x, i, 1.0)
        """,
    "unpacking": """
        def kernel(x: A1, n: int):
            i = kc.tid()
            a, b = 1.0, 2.0, 3.0  # a, b
            c, d = n  # c, d
            x[i] = lost  # lost
        """,
    "references": """
        def kernel(x: A1, n: int):
            i = kc.tid()
            bump(x[i] + 1.0, 2.0)  # x[i] + 1.0
            bump(n, 2.0)  # bump(n, 2.0)
            p = kc.address_of(x[i])  # kc.address_of(x[i])
            bump(x[i], lost)  # lost
        """,
    "compile_time": """
        def kernel(x: A1, n: int):
            i = kc.tid()
            x[i] = kc.static(n + 1)  # kc.static(n + 1)
            x[i] = kc.static(lost)  # kc.static(lost)
            v = kc.zeros(n)  # kc.zeros(n)
            w = kc.array(ptr=n)  # kc.array(ptr=n)
        """,
    "nested_functions": """
        def kernel(x: A1, n: int):
            i = kc.tid()
            def inner(a: kc.float64):
                b = a + lost  # lost
                return b * n
            x[i] = inner(x[i])
            x[i] += inner(n)  # inner(n)
        """,
    "conversions": """
        def kernel(x: A1, v: kc.vec3d, n: int):
            i = kc.tid()
            x[i] = float(v)  # float(v)
            k = int(x)  # int(x)
            x[i] = kc.float64(1.0, 2.0)  # kc.float64(1.0, 2.0)
            b = v and n  # v
            x[i] = kc.float64(lost)  # lost
        """,
    "values_of_types": """
        def kernel(x: A1, n: int):
            i = kc.tid()
            k = 3000000000 + n  # 3000000000
            x[i] = 10**400  # 10**400
            j = 7 // 0  # 7 // 0
            s = 1 << 64
            t = s + kc.int64(n)  # s
            x[i] = lost  # lost
        """,
}


def mistakes(text: str) -> tuple[list[tuple[int, str]], kc.KernelError]:
    """The lines of mistakes of the kernel in ``text`` and the places under their carets."""
    kernel = kc.kernel(source=text, globals=globals())
    with pytest.raises(kc.KernelError) as caught:
        _ = kernel.func
    lines = text.splitlines()
    found: list[tuple[int, str]] = []
    for one in (caught.value, *caught.value.others):
        assert one.loc is not None
        line, loc = lines[one.loc.line - 1], one.loc
        found.append((loc.line, line[loc.col : loc.end_col]))
    return sorted(found), caught.value


@pytest.mark.parametrize("name", KERNELS)
def test_every_mistake_is_reported_with_its_place(name: str) -> None:
    text = textwrap.dedent(KERNELS[name]).lstrip()
    marked = [(n, line.split("  # ")) for n, line in enumerate(text.splitlines(), 1)]
    expected = [(n, parts[1]) for n, parts in marked if len(parts) > 1]
    found, error = mistakes(text)
    assert found == expected
    assert str(error).endswith(f"\n{len(expected)} errors")
    assert str(error).count("\n  File ") == len(expected)


def test_what_follows_from_a_mistake_is_none() -> None:
    text = """
        def kernel(x: A1, n: int):
            i = kc.tid()
            a = lost + unknown
            b = a + 1.0
            if b > 0.0 and n > gone:
                c = b * a
                x[i] = c
            else:
                x[i] = absent
            for k in range(a):
                x[k] = b + nowhere * k
            x[i] = b + c
        """
    found, _ = mistakes(textwrap.dedent(text).lstrip())
    names = [(3, "lost"), (3, "unknown"), (5, "gone"), (9, "absent"), (11, "nowhere")]
    assert found == names
