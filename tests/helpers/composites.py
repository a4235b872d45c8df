"""Kernels on elements with components and on every scalar type; most are IR without source."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import kernelcore as kc
from kernelcore import Kernel
from kernelcore.builtins.arithmetic import add, mul, sub
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Const, Func, Region, Var
from kernelcore.ir.op import ATOMIC_ADD, LOAD, STORE, TID
from kernelcore.language.types import (
    ArrayOf,
    ArrayType,
    Dense,
    Scalar,
    SourceType,
    StructType,
    float64,
    int32,
)
from kernelcore.launch.infer_types import Parameter
from kernelcore.passes.pipeline import normalize

VEC3 = ArrayType(float64, 1, (3,))
VEC3_ARRAY = ArrayType(float64, 2, (3,))
MAT23_ARRAY = ArrayType(float64, 3, (2, 3))


def index(k: int) -> Const:
    """A constant index."""
    return Const(int32, k)


def make(name: str, params: list[Var], body: Callable[[Builder, Var], None]) -> Kernel:
    """The kernel whose thread ``i`` does what ``body(builder, i)`` emits."""
    builder = Builder()
    body(builder, builder.emit(TID, axis=0))
    func = Func(name, Region(tuple(params), tuple(builder.eqns)), 1)

    def pyfunc() -> None:
        """A kernel without source."""

    pyfunc.__name__ = name
    kernel = Kernel(pyfunc)
    vars(kernel)["func"] = normalize(func)
    vars(kernel)["parameters"] = _declared(params)
    return kernel


def _declared(params: list[Var]) -> tuple[Parameter, ...]:
    """What ``params`` are leaves of; 'p.axis' is the field of a struct."""
    types: dict[str, SourceType] = {}
    for param in params:
        name, _, member = param.name.partition(".")
        assert isinstance(param.type, Scalar | ArrayType)
        type_ = _source_type(param.type)
        types[name] = StructType(name, ((member, type_),)) if member else type_
    return tuple(Parameter(name, type_, None) for name, type_ in types.items())


def _source_type(type_: Scalar | ArrayType) -> Scalar | Dense | ArrayOf:
    if isinstance(type_, Scalar):
        return type_
    kind = "matrix" if len(type_.components) == 2 else "vector"
    element = Dense(kind, type_.dtype, type_.components) if type_.components else type_.dtype
    return ArrayOf(element, type_.outer_ndim) if type_.outer_ndim else element


@cache
def cross() -> Kernel:
    """``out[i] = s * (p.axis x x[i])`` of 3-vectors; ``axis`` is one, by reference."""
    names = {"s": float64, "p.axis": VEC3, "x": VEC3_ARRAY, "out": VEC3_ARRAY}
    s, axis, x, out = (Var(t, n) for n, t in names.items())

    def body(b: Builder, i: Var) -> None:
        for k in range(3):
            u, v = index((k + 1) % 3), index((k + 2) % 3)
            left = b.emit(mul.op, b.emit(LOAD, axis, u), b.emit(LOAD, x, i, v))
            right = b.emit(mul.op, b.emit(LOAD, axis, v), b.emit(LOAD, x, i, u))
            b.emit_effect(STORE, out, i, index(k), b.emit(mul.op, s, b.emit(sub.op, left, right)))

    return make("cross", [s, axis, x, out], body)


@cache
def apply() -> Kernel:
    """``y[i] = m[i] x[i]`` for matrices of 2 rows and 3 columns."""
    m, x = Var(MAT23_ARRAY, "m"), Var(VEC3_ARRAY, "x")
    y = Var(ArrayType(float64, 2, (2,)), "y")

    def body(b: Builder, i: Var) -> None:
        for r in range(2):
            terms = [
                b.emit(mul.op, b.emit(LOAD, m, i, index(r), index(c)), b.emit(LOAD, x, i, index(c)))
                for c in range(3)
            ]
            total = b.emit(add.op, b.emit(add.op, terms[0], terms[1]), terms[2])
            b.emit_effect(STORE, y, i, index(r), total)

    return make("apply", [m, x, y], body)


@cache
def gather_sum() -> Kernel:
    """``total[0] += x[i]`` of 3-vectors, and ``n2[i] = x[i] . x[i]``."""
    x, total, n2 = (
        Var(VEC3_ARRAY, "x"),
        Var(VEC3_ARRAY, "total"),
        Var(ArrayType(float64, 1), "n2"),
    )

    def body(b: Builder, i: Var) -> None:
        parts = [b.emit(LOAD, x, i, index(k)) for k in range(3)]
        for k, part in enumerate(parts):
            b.emit(ATOMIC_ADD, total, index(0), index(k), part)
        squares = [b.emit(mul.op, part, part) for part in parts]
        dot = b.emit(add.op, b.emit(add.op, squares[0], squares[1]), squares[2])
        b.emit_effect(STORE, n2, i, dot)

    return make("gather_sum", [x, total, n2], body)


@cache
def first_only() -> Kernel:
    """``out[i].x = x[i].x``; the other components are left alone."""
    x, out = Var(VEC3_ARRAY, "x"), Var(VEC3_ARRAY, "out")

    def body(b: Builder, i: Var) -> None:
        b.emit_effect(STORE, out, i, index(0), b.emit(LOAD, x, i, index(0)))

    return make("first_only", [x, out], body)


@cache
def copies(dtype: Scalar) -> Kernel:
    """``out[i] = x[i]`` and ``same[i] = value``, for any type of scalar."""
    array = ArrayType(dtype, 1)
    x, value, out, same = (
        Var(t, n) for n, t in {"x": array, "value": dtype, "out": array, "same": array}.items()
    )

    def body(b: Builder, i: Var) -> None:
        b.emit_effect(STORE, out, i, b.emit(LOAD, x, i))
        b.emit_effect(STORE, same, i, value)

    return make(f"copies_{dtype}", [x, value, out, same], body)


@kc.kernel
def rigid(
    m: kc.mat33d,
    t: kc.vec3d,
    x: kc.array(dtype=kc.vec3d),
    y: kc.array(dtype=kc.vec3d),
    energy: kc.array(dtype=kc.float64),
):
    """``y = m x + t`` per point, and half the squared length of that in ``energy[0]``."""
    i = kc.tid()
    moved = m * x[i] + t
    y[i] = moved
    half = kc.float64(0.5)
    energy[0] += half * kc.dot(moved, moved)


@kc.struct
class Particle:
    """A struct of a composite and a scalar."""

    position: kc.vec3d
    mass: kc.float64


@kc.kernel
def pull(
    p: Particle,
    others: kc.array(dtype=Particle),
    p_mass: kc.float64,
    force: kc.array(dtype=kc.vec3d),
):
    """``force = p_mass * p.mass * mass * (position - p.position)`` of the others."""
    i = kc.tid()
    towards = others[i].position - p.position
    force[i] = towards * (p_mass * p.mass * others[i].mass)
