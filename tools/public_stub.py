"""Writes ``kernelcore/__init__.pyi``, the public names for type checkers, where a build wants it.

A running program imports names on first use, as ``kernelcore/_exports.py`` lists them. This script
reads the sources without importing kernelcore, whose native module may not be built yet: built-ins
and functions of the library from the modules that declare them, the rest from that list.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "kernelcore"
HEAD = ROOT / "tools" / "public_types.pyi"
# The modules that declare built-ins and the library, which ``help`` and the table name too.
MODULES = (
    *("arithmetic", "elementary", "logic", "vector", "matrix", "quaternion", "transform"),
    *("spatial", "decomposition", "search", "random", "noise", "curlnoise", "interpolate"),
)
# Suffixes of the classes of composites; those of floats come first.
FLOATS = ("", "d", "h")
INTEGERS = ("b", "ub", "s", "us", "i", "ui", "l", "ul")
ATOMICS = ("add", "sub", "min", "max", "exch", "and", "or", "xor")

# Annotations of library functions, for type checkers. In those with {s} the suffix of a float type
# is put, one overload each.
PARAMETERS = {
    **dict.fromkeys(("V", "W", "V3", "FloatVector", "NumberVector"), "_V"),
    **dict.fromkeys(("vector(length=3, dtype=Number)",), "_V"),
    **dict.fromkeys(("M", "N", "NumberMatrix"), "_M"),
    **dict.fromkeys(("C",), "_C"),
    **dict.fromkeys(("Float", "F", "AnyFloat", "AnyScalar", "Scalar", "float", "float32"), "float"),
    **dict.fromkeys(("Int", "int", "uint32"), "int"),
    **{name: name for name in ("vec2", "vec3", "vec4", "vec3ul")},
    **dict.fromkeys(("T", "Transform"), "transform{s}"),
    **dict.fromkeys(("Q", "Quaternion"), "quat{s}"),
    **dict.fromkeys(("M3", "Matrix3"), "mat33{s}"),
    "Matrix2": "mat22{s}",
    "Matrix4": "mat44{s}",
    "Vector2": "vec2{s}",
    "Vector3": "vec3{s}",
    "Spatial": "spatial_vector{s}",
    "State": "int | vec3ul",
    "Cdf": "array1d[float]",
    "_Array": "array1d[_Any]",
    "Any": "_Any",
}
# In these modules letters stand for other types.
LETTERS = {
    ("vector", "S"): "_Line[_S]",
    ("vector", "L"): "_Line[_S]",
    ("spatial", "S"): "spatial_vector{s}",
}
# What library functions return, by name, or by name and first parameter. "_S" is the type of a
# component of their parameters.
RESULTS = {
    "_S": "dot length_sq length norm_l1 norm_l2 norm_huber norm_pseudo_huber min max trace ddot",
    "_V": "cross normalize smooth_normalize cw_mul cw_div",
    "_M": "cw_mul:M cw_div:N",
    "_C": "lerp:C",
    "int": "argmin argmax lower_bound rand_init randi randu sample_cdf poisson",
    "float": "determinant quat_twist_angle quat_twist_angle_signed spatial_dot randf randn noise "
    "pnoise lerp smoothstep step nonzero erfinv erfcinv",
    "vec2": "sample_triangle sample_unit_ring sample_unit_disk sample_unit_square curlnoise:vec2",
    "vec3": "sample_unit_sphere_surface sample_unit_sphere sample_unit_hemisphere_surface "
    "sample_unit_hemisphere sample_unit_cube curlnoise",
    "vec3ul": "philox_init",
    "vec4ui": "philox",
    "vec3{s}": "quat_rotate quat_rotate_inv quat_to_rpy quat_to_euler transform_get_translation "
    "transform_point transform_vector spatial_top spatial_bottom velocity_at_point",
    "quat{s}": "normalize:Quaternion quat_inverse quat_from_axis_angle quat_from_matrix "
    "quat_from_euler quat_slerp quat_twist transform_get_rotation",
    "transform{s}": "transform_set_translation_copy transform_set_rotation_copy transform_multiply "
    "transform_set_translation transform_set_rotation transform_inverse transform_from_matrix",
    "mat22{s}": "inverse:Matrix2",
    "mat33{s}": "quat_to_matrix inverse:Matrix3",
    "mat44{s}": "transform_compose transform_to_matrix inverse:Matrix4",
    "spatial_vector{s}": "spatial_cross spatial_cross_dual transform_twist transform_wrench",
    "spatial_matrix{s}": "spatial_adjoint",
    "tuple[vec3{s}, float]": "quat_to_axis_angle",
    "tuple[vec3{s}, quat{s}, vec3{s}]": "transform_decompose",
    "tuple[mat33{s}, mat33{s}]": "qr3",
    "tuple[mat33{s}, vec3{s}]": "eig3",
    "tuple[mat33{s}, vec3{s}, mat33{s}]": "svd3",
    "tuple[mat22{s}, vec2{s}, mat22{s}]": "svd2",
}
_RESULTS = {name: result for result, names in RESULTS.items() for name in names.split()}


def listed(name: str) -> dict[str, str]:
    """Names by module, as the table ``name`` of ``_exports.py`` has them."""
    for node in ast.parse((PACKAGE / "_exports.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            assert isinstance(node.value, ast.Call)
            return ast.literal_eval(node.value.args[0])
    raise KeyError(name)


def stub() -> str:
    """The text of the stub."""
    head = HEAD.read_text()
    known = _declared(ast.parse(head))
    lines = [head, *_composites(), *_atomics()]
    for name, signatures in _operations().items():
        found = list(dict.fromkeys(signatures))
        for signature in found:
            lines += ["@_overload"] if len(found) > 1 else []
            lines.append(f"def {name}{signature}: ...")
    for node in ast.parse((PACKAGE / "__init__.py").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            public = [a.name for a in node.names if a.asname == a.name and a.name not in known]
            lines += [f"from {node.module} import {name} as {name}" for name in public]
    # A module, to which ``kernelcore`` adds functions when it is imported.
    lines.append("class types:")
    for name in ("vector", "matrix", "quaternion", "transformation"):
        lines.append(f"    from kernelcore.language.composite_types import {name} as {name}")
    for name in sorted(_declared(ast.parse((PACKAGE / "language" / "types.py").read_text()))):
        if name.isidentifier() and not name.startswith("_"):
            lines.append(f"    from kernelcore.language.types import {name} as {name}")
    for module, names in {**listed("HOMES"), **listed("ADAPTERS")}.items():
        declared = {*known, *(f"atomic_{name}" for name in (*ATOMICS, "cas"))}
        lines += [f"from {module} import {n} as {n}" for n in names.split() if n not in declared]
    return "\n".join([*lines, ""])


def _declared(tree: ast.Module) -> set[str]:
    """The names that a stub defines or imports."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {ast.unparse(target) for target in node.targets}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def _operations() -> dict[str, list[str]]:
    """The signatures of every built-in and library function, by name."""
    found: dict[str, list[str]] = {}
    for module in MODULES:
        tree = ast.parse((PACKAGE / "builtins" / f"{module}.py").read_text())
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                same = node.value.id
                found |= {ast.unparse(t): found[same] for t in node.targets if same in found}
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            kinds = {ast.unparse(d).partition("(")[0] for d in node.decorator_list}
            if "builtin" in kinds:
                found.setdefault(node.name, []).extend(_builtin(node))
            elif "library" in kinds:
                found.setdefault(node.name, []).extend(_library(module, node))
    return found


def _builtin(node: ast.FunctionDef) -> Iterator[str]:
    """Overloads of an operation: of numbers, of composites among them, of NumPy's arrays."""
    names = [a.arg for a in node.args.args]
    classes = [ast.unparse(a.annotation) for a in node.args.args if a.annotation]
    result = ast.unparse(node.returns) if node.returns else "Any"
    if "Any" in classes:
        # Of one type, whichever that is.
        wanted = ["_T" if c == "Any" else _scalar(c, "float") for c in classes]
        yield _signature(names, wanted, "_T" if result == "Any" else _scalar(result, "float"))
        yield _signature(names, ["_Any"] * len(names), "_Any")
        return
    for number in ("int", "float") if "Number" in classes else ("float",):
        yield _signature(names, [_scalar(c, number) for c in classes], _scalar(result, number))
    whole = "_Any" if result == "Bool" else "_C"
    if node.name != "mul":
        yield _signature(names, [f"_C | {_scalar(c, 'float')}" for c in classes], whole)
    arrays = [f"_NDArray[_Any] | {_scalar(c, 'float')}" for c in classes]
    yield _signature(names, arrays, "_NDArray[_Any]")


def _scalar(type_class: str, number: str) -> str:
    known = {"Float": "float", "Int": "int", "Bool": "_builtins.bool", "Number": number}
    return known.get(type_class, "_Any")


def _library(module: str, node: ast.FunctionDef) -> Iterator[str]:
    """Overloads of a function of the library: one, or one per float type."""
    args = node.args.args
    names = [a.arg for a in args]
    letters = [ast.unparse(a.annotation) if a.annotation else "Any" for a in args]
    wanted = [LETTERS.get((module, n)) or PARAMETERS[n] for n in letters]
    result = _RESULTS.get(f"{node.name}:{(*letters, '')[0]}") or _RESULTS.get(node.name, "_Any")
    if node.name == "curlnoise" and letters[1] == "vec2":
        result = "vec2"
    if ast.unparse(node.body[-1]).startswith("return ((),"):
        result = "None"
    if result == "_V" and "_V" not in wanted:
        result = wanted[0]
    if result == "_S":
        parts = {"_V": "_Vector[_S]", "_M": "_Matrix[_S]"}
        wanted = [parts.get(text, text) for text in wanted]
        result = "_S" if any("_S" in text for text in wanted) else "float"
    first = len(names) - len(node.args.defaults)
    names = [f"{name}{'?' * (k >= first)}" for k, name in enumerate(names)]
    text = _signature(names, wanted, result)
    yield from [text.replace("{s}", s) for s in FLOATS] if "{s}" in text else [text]


def _signature(names: Sequence[str], wanted: Sequence[str], result: str) -> str:
    """The text of a signature; parameters whose names end in '?' have defaults."""
    pairs = zip(names, wanted, strict=True)
    texts = [f"{n.rstrip('?')}: {w}{' = ...' * n.endswith('?')}" for n, w in pairs]
    return f"({', '.join(texts)}) -> {result}"


def _atomics() -> Iterator[str]:
    """Atomic operations on arrays of one to four dimensions."""
    for name in (*ATOMICS, "cas"):
        values = ("expected", "new") if name == "cas" else ("value",)
        for rank in range(1, 5):
            places = [f"{letter}: int" for letter in "ijkl"[:rank]]
            parameters = [f"array: array{rank}d[_T]", *places, *(f"{v}: _T" for v in values)]
            yield "@_overload"
            yield f"def atomic_{name}({', '.join(parameters)}) -> _T: ..."


def _composites() -> Iterator[str]:
    """The classes of vectors, matrices, quaternions and transforms by name."""
    for suffix in (*FLOATS, *INTEGERS):
        number = "float" if suffix in FLOATS else "int"
        for size in (2, 3, 4):
            yield from _vector(f"vec{size}{suffix}", size, suffix, number)
    for suffix in FLOATS:
        yield from _vector(f"spatial_vector{suffix}", 6, suffix, "float")
        yield from (line for size in (2, 3, 4, 6) for line in _matrix(size, suffix))
        yield from _quaternion(suffix)
        yield from _transform(suffix)
    for name in (*(f"vec{n}" for n in (2, 3, 4)), *(f"mat{n}{n}" for n in (2, 3, 4))):
        yield f"{name}f = {name}"
    for name in ("quat", "transform", "spatial_vector", "spatial_matrix"):
        yield f"{name}f = {name}"


def _constructors(*parameters: str) -> Iterator[str]:
    for text in ("", *parameters, "value: _Any, /"):
        yield "    @_overload"
        yield f"    def __init__(self{', ' * bool(text)}{text}) -> None: ..."


def _letters(size: int, suffix: str, number: str) -> Iterator[str]:
    """Components, and several of them at equal distances."""
    letters = "xyzw"[:size]
    yield from (f"    {letter}: {number}" for letter in letters)
    for count in range(2, size + 1):
        for chosen in permutations(range(size), count):
            steps = {b - a for a, b in pairwise(chosen)}
            if len(steps) == 1:
                yield f"    {''.join(letters[k] for k in chosen)}: vec{count}{suffix}"


def _vector(name: str, size: int, suffix: str, number: str) -> Iterator[str]:
    yield f"class {name}(_Vector[{number}]):"
    names = "xyzw"[:size] if size < 5 else "abcdef"
    all_of_them = ", ".join(f"{n}: {number}" for n in names)
    yield from _constructors(f"{all_of_them}, /", f"fill: {number}, /")
    if size < 5:
        yield from _letters(size, suffix, number)


def _matrix(size: int, suffix: str) -> Iterator[str]:
    name = f"mat{size}{size}{suffix}" if size < 5 else f"spatial_matrix{suffix}"
    row = f"vec{size}{suffix}" if size < 5 else f"spatial_vector{suffix}"
    yield f"class {name}(_Matrix[float]):"
    yield "    def __init__(self, *values: _Any) -> None: ..."
    for index, found in (("tuple[int, int]", "float"), ("int", row), ("_Any", "_Any")):
        yield "    @_overload"
        yield f"    def __getitem__(self, index: {index}) -> {found}: ..."
    for index, value in (("tuple[int, int]", "float"), ("int", row), ("_Any", "_Any")):
        yield "    @_overload"
        yield f"    def __setitem__(self, index: {index}, value: {value}) -> None: ..."
    yield f"    def __iter__(self) -> _Iterator[{row}]: ..."
    yield from _products(("float", "_Self"), ("_Self", "_Self"), (row, row))


def _products(*rows: tuple[str, str]) -> Iterator[str]:
    """``*`` by the type of the other factor, and ``@`` of composites."""
    for sign in ("mul", "matmul"):
        for other, result in (*rows, ("_Composite", "_Any")):
            if other != "float" or sign == "mul":
                yield "    @_overload"
                yield f"    def __{sign}__(self, other: {other}) -> {result}: ..."


def _quaternion(suffix: str) -> Iterator[str]:
    yield f"class quat{suffix}(_Quaternion):"
    components = ", ".join(f"{n}: float" for n in "xyzw")
    yield from _constructors(f"{components}, /", f"vector: vec3{suffix}, scalar: float, /")
    yield from _letters(4, suffix, "float")
    yield from _products(("float", "_Self"), ("_Self", "_Self"))


def _transform(suffix: str) -> Iterator[str]:
    yield f"class transform{suffix}(_Transform):"
    position, rotation = f"p: vec3{suffix} | None = None", f"q: quat{suffix} | None = None"
    yield from _constructors(f"{position}, {rotation}", "*components: float")
    yield f"    p: vec3{suffix}"
    yield f"    q: quat{suffix}"
    yield from _products(("float", "_Self"), ("_Self", "_Self"))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(stub())
