"""Valid kernels, and what becomes of them when parts of their text or IR are exchanged."""

from __future__ import annotations

import ast
import copy
import random
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from kernelcore.base.errors import KernelTypeError
from kernelcore.builtins import OPS
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import WRITES, Op, OpKind
from kernelcore.ir.walk import replace_body, slot, walk_eqns
from kernelcore.language.types import Scalar, Type
from tests.helpers.refused_composites import SIGNATURE

# Bodies of kernels with SIGNATURE that compile.
VALID = (
    """
    i = kc.tid()
    v = vs[i]
    s = 0.0
    for j in range(3):
        s += v[j] * w[j]
    y[i] = s + kc.dot(v, v)
    """,
    """
    i, j = kc.tid()
    u = m @ vs[i] + p.position * p.mass
    u.x = a
    u[1] += g[i, j]
    vs[j] = u
    p.inner.at = u
    ps[i].position = p.inner.at
    ps[i].inner.at.x += 1.0
    """,
    """
    i = kc.tid()
    r = g[i]
    total = 0.0
    for j in range(r.shape[0]):
        if r[j] > a:
            continue
        if r[j] < 0.0:
            break
        total += r[j]
    z = g[0:n, 1]
    y[i] = total + z[2] + rows[i]
    """,
    """
    def f(e: float, scale: float = 2.0):
        return e * scale + a
    u = f(a)
    a = u if n > 0 else half(u)
    y[0] = apply(half, a)
    vs[0] = kc.quat_rotate(q * q, kc.transform_point(t * t, v))
    """,
    """
    count = 0
    while count < n and y[count] > 0.0:
        count += 1
        if b[count]:
            break
    c[0] = count
    kc.atomic_add(c, 0, 1)
    kc.atomic_max(y, n, a)
    old = kc.atomic_cas(c, 1, 2, 3)
    kc.atomic_add(vs, 0, v)
    print("x", n, v, f"{a} {n}")
    assert n > 0, "text"
    """,
    """
    pair = (v, n)
    first, second = pair
    turn = kc.vector(1.0, 2.0, length=2, dtype=float)
    square = kc.matrix(1.0, 2.0, 3.0, 4.0, shape=(2, 2), dtype=float)
    y[0] = (square * turn).x + first.z
    p2 = Particle(v, 1.0)
    p2.mass = kc.static(2 + 1.0)
    for e in kc.static((1, 2, 3)):
        y[e] = p2.mass * float(e)
    ps[1] = p2
    mesh.points[0] = kc.normalize(v)
    c[mesh.count + len(v) + y.shape[0] + int(d)] = overloaded(second)
    """,
    """
    k2 = k + kc.vec3i(1, 2, 3)
    if k2.x > 3:
        u = together(v, v)
    elif k2 == k:
        u = -v
    else:
        u = 2.0 * v / a
    w2 = kc.max(w, w)
    vs[n] = kc.cross(w2.xyz + u, type(v)(1.0))
    x[0] = kc.float64(weighted(a)) + d
    y[n] = only_named(a, scale=v.dtype(2.0))
    m[1, 2] = 3.0
    m[0] = v
    vs[0] = m[n] + m * v
    """,
)
TREES = tuple(
    ast.parse(SIGNATURE + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n")
    for body in VALID
)
# One expression per word.
_TEXTS = """
    x y n a d v w k m q t p mesh vs ps g b c rows kc half overloaded apply together SIZES Particle
    Inner Mesh V float int bool str object missing range print len min type Ellipsis None True
    kc.tid kc.vec3 kc.quat kc.mat33 kc.float64 kc.uint64 kc.float16 kc.dot kc.atomic_add kc.static
    kc.matrix kc.vector kc.array kc.types kc.randf kc.kernel kc.launch kc.struct kc.select
    mesh.points p.inner vs[0] g[0] g[0:n] v.dtype type(v) y.shape x.ndim half(a) ()
    1 0.5 -1 2**31 -2**63 10**30 1e300 1j b'' 's' [1] {1:2} (a,n) f'{n}' n>0 v[::0] y[::n]
"""
EXPRESSIONS = tuple(ast.parse(text, mode="eval").body for text in _TEXTS.split())
OPERATORS = (
    ast.Add(),
    ast.Sub(),
    ast.Mult(),
    ast.Div(),
    ast.FloorDiv(),
    ast.Mod(),
    ast.Pow(),
    ast.LShift(),
    ast.BitOr(),
    ast.MatMult(),
)
ATTRIBUTES = ("x", "xy", "w", "p", "shape", "dtype", "mass", "points", "__class__")


def mutated(seed: int) -> str:
    """The text of a valid kernel with one to five changes; not always Python."""
    rng = random.Random(seed)
    tree = copy.deepcopy(rng.choice(TREES))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    for _ in range(rng.randint(1, 5)):
        _mutate(function, rng)
    return ast.unparse(ast.fix_missing_locations(tree))


def _mutate(function: ast.FunctionDef, rng: random.Random) -> None:
    parents = [function, *(n for stmt in function.body for n in ast.walk(stmt))]
    places = [
        (parent, name, position)
        for parent in parents
        for name, value in ast.iter_fields(parent)
        if parent is not function or name == "body"
        if not isinstance(parent, ast.JoinedStr)  # holds what is no text of its own
        for position, node in enumerate(value if isinstance(value, list) else [value])
        if isinstance(node, ast.expr | ast.stmt | ast.operator)
    ]
    parent, name, position = rng.choice(places)
    held = getattr(parent, name)
    node = held[position] if isinstance(held, list) else held
    if isinstance(node, ast.stmt):
        _mutate_block(held, position, function, rng)
        return
    new = rng.choice(OPERATORS) if isinstance(node, ast.operator) else _other(node, function, rng)
    if isinstance(held, list):
        held[position] = new
    else:
        setattr(parent, name, new)


def _mutate_block(
    block: list[ast.stmt], position: int, function: ast.FunctionDef, rng: random.Random
) -> None:
    """Leave a statement out, or put another one beside it or in its place."""
    stmts = [n for stmt in function.body for n in ast.walk(stmt) if isinstance(n, ast.stmt)]
    other = copy.deepcopy(rng.choice(stmts))
    choice = rng.randrange(3)
    if choice == 0 and len(block) > 1:
        del block[position]
    elif choice == 1:
        block.insert(position, other)
    else:
        block[position] = other


def _other(node: ast.expr, function: ast.FunctionDef, rng: random.Random) -> ast.expr:
    """An expression in place of ``node``."""
    known = [n for stmt in function.body for n in ast.walk(stmt) if isinstance(n, ast.expr)]
    new, inside = copy.deepcopy(rng.choice(EXPRESSIONS)), copy.deepcopy(rng.choice(known))
    options: list[ast.expr] = [
        new,
        new,
        new,
        inside,
        ast.Subscript(node, new, ast.Load()),
        ast.Subscript(node, ast.Slice(new, inside), ast.Load()),
        ast.Call(node, [new], []),
        ast.BinOp(node, rng.choice(OPERATORS), new),
        ast.Attribute(node, rng.choice(ATTRIBUTES), ast.Load()),
        ast.UnaryOp(rng.choice([ast.Not(), ast.USub(), ast.Invert()]), node),
        ast.Compare(node, [rng.choice([ast.Lt(), ast.Eq(), ast.In(), ast.Is()])], [new]),
    ]
    return rng.choice(options)


# Operations that take the place of each other: those that the interpreter computes at once.
_EXCHANGED = (
    *("add", "sub", "mul", "div", "floordiv", "mod", "neg", "abs", "sign", "min", "max", "clamp"),
    *("fma", "fmod", "copysign", "floor", "ceil", "round", "trunc", "frac", "sqrt", "where"),
    *("bitand", "bitor", "bitxor", "invert", "shl", "shr", "rotl", "rotr", "bit_count", "clz"),
    *("ctz", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "isnan"),
    *("isinf", "isfinite", "logical_and", "logical_or", "logical_not"),
)
_EDGES = {
    "float": (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, float("inf"), float("-inf"), float("nan"), 1e-40),
    "bool": (True, False),
}


# What can be exchanged, each with the scalars that it may use.
Places = Sequence[tuple[Eqn, list[Var]]]


def exchanged(func: Func, found: Places, rng: random.Random) -> Func:
    """``func`` with other operations or operands in some of ``places(func)``."""
    chosen = rng.sample(found, min(3, len(found)))
    changes = {eqn: _changed(eqn, scope, rng) for eqn, scope in chosen}
    return replace_body(func, _rebuilt(func.body, changes))


def places(func: Func) -> Places:
    """The arithmetic that no index and no number of iterations depends on."""
    held, every = _held(func), _scopes(func.body, [])
    return [(e, scope) for e, scope in every if e.op.kind is OpKind.PURE and e.out not in held]


def _held(func: Func) -> set[Atom]:
    """What decides of indices and of how often loops run; a remainder is in range of anything."""
    sources: dict[Atom, tuple[Atom, ...]] = {}
    found: set[Atom] = set()
    start: list[Atom] = []
    for eqn in walk_eqns(func.body):
        kind, inputs = eqn.op.kind, eqn.inputs
        if kind in WRITES or kind is OpKind.LOAD:
            values = {OpKind.LOAD: 0, OpKind.ATOMIC_CAS: 2}.get(kind, 1)
            start += inputs[1 : len(inputs) - values]
        if not eqn.regions:
            last = inputs[-1] if inputs else None
            is_in_range = eqn.op is OPS["mod"] and isinstance(last, Const) and last.value > 0
            sources |= dict.fromkeys(eqn.outputs, () if is_in_range else inputs)
            continue
        decides: tuple[Atom, ...] = inputs[:1]
        if kind is OpKind.FOR:
            decides = inputs[:3]
            sources[eqn.regions[0].params[0]] = decides
        elif kind is OpKind.WHILE:
            decides = eqn.regions[0].yields
        start += decides if kind is not OpKind.IF else ()
        for at in range(len(eqn.outputs)):
            variables, values = slot(eqn, at)
            sources |= dict.fromkeys(variables, (*values, *decides))
    while start:
        atom = start.pop()
        if atom not in found and isinstance(atom, Var):
            found.add(atom)
            start += sources.get(atom, ())
    return found


def _scopes(region: Region, known: Sequence[Var]) -> Iterator[tuple[Eqn, list[Var]]]:
    """Every Eqn with the scalars that it may use."""
    scope = [*known, *region.params]
    for eqn in region.eqns:
        yield eqn, [v for v in scope if isinstance(v.type, Scalar)]
        for inner in eqn.regions:
            yield from _scopes(inner, scope)
        scope += eqn.outputs


def _changed(eqn: Eqn, scope: Sequence[Var], rng: random.Random) -> Eqn:
    """``eqn`` with another operation or another operand of the same types."""
    types = tuple(a.type for a in eqn.inputs)
    if rng.random() < 0.5:
        return replace(eqn, op=rng.choice((eqn.op, *_alike(types, eqn.out.type))))
    at = rng.randrange(len(eqn.inputs))
    type_ = types[at]
    assert isinstance(type_, Scalar)
    fitting: list[Atom] = [v for v in scope if v.type == type_]
    if not fitting or rng.random() < 0.4:
        fitting = [Const(type_, value) for value in _edges(type_)]
    return replace(eqn, inputs=(*eqn.inputs[:at], rng.choice(fitting), *eqn.inputs[at + 1 :]))


@cache
def _alike(types: tuple[Type, ...], result: Type) -> list[Op]:
    """The operations on ``types`` that give a ``result``."""
    found: list[Op] = []
    for op in (OPS[name] for name in _EXCHANGED):
        try:
            if op.result_type(types) == result:
                found.append(op)
        except KernelTypeError:
            continue
    return found


def _edges(type_: Scalar) -> Sequence[bool | int | float]:
    if type_.kind in _EDGES:
        return _EDGES[type_.kind]
    low, high = type_.limits
    return (0, 1, 2, 3, low, high, high - 1, type_.bits - 1, type_.bits)


def _rebuilt(region: Region, changes: Mapping[Eqn, Eqn]) -> Region:
    eqns: list[Eqn] = []
    for eqn in region.eqns:
        inner = tuple(_rebuilt(r, changes) for r in eqn.regions)
        eqns.append(replace(changes.get(eqn, eqn), regions=inner))
    return replace(region, eqns=tuple(eqns))
