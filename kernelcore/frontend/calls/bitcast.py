"""Lowering of ``bitcast(x, dtype)``: the bits of a value as another type of the same size."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from kernelcore.base.errors import KernelTypeError
from kernelcore.builtins.bits import FROM_BITS, TO_BITS
from kernelcore.builtins.syntax import BINARY
from kernelcore.frontend.scope import Scope, scalar
from kernelcore.frontend.values.literal_types import UntypedLiteral, const
from kernelcore.frontend.values.value import (
    CompositeValue,
    Static,
    Value,
    build,
    describe_type,
    flatten,
)
from kernelcore.ir.core import Atom, Const
from kernelcore.ir.op import CAST
from kernelcore.language.flatten import scalars_of
from kernelcore.language.reinterpretation import (
    USAGE,
    check_sizes,
    literal_type,
    target_type,
)
from kernelcore.language.types import Element, Scalar, element_type, unsigned

_SHIFT_LEFT, _SHIFT_RIGHT, _OR = (BINARY[o].op for o in (ast.LShift, ast.RShift, ast.BitOr))


def lower_bitcast(scope: Scope, args: Sequence[Value], node: ast.Call) -> Value:
    """The bits of the first argument as a value of the type that the second one is.

    Raises:
        KernelTypeError: The sizes differ, or one of the types has bits without a meaning.
    """
    loc = scope.at(node)
    if len(args) != 2:
        raise KernelTypeError(f"bitcast() takes 2 arguments, found {len(args)}", loc, USAGE)
    value, wanted = args
    found = wanted.obj if isinstance(wanted, Static) else None
    target = target_type(found, describe_type(wanted), loc)
    source: Element
    if isinstance(value, CompositeValue):
        source, (_, leaves) = value.type, flatten(value)
    else:
        one = scalar(value, loc)
        if isinstance(one, UntypedLiteral):
            one = const(literal_type(one.value, target, loc), one.value, loc)
        source, leaves = scope.inference.current_type(one), [one]
    check_sizes(source, target, loc)
    atoms = [
        scope.inference.adapt(scalar(leaf, loc), dtype, loc)
        for leaf, dtype in zip(leaves, scalars_of(source), strict=True)
    ]
    words = [_to_bits(scope, atom) for atom in atoms]
    regrouped = (_word(scope, words, o, t.bits) for o, t in _placed(scalars_of(target)))
    pairs = zip(regrouped, scalars_of(target), strict=True)
    return build(target, iter([_from_bits(scope, word, dtype) for word, dtype in pairs]))


def _placed(scalars: Sequence[Scalar]) -> Iterator[tuple[int, Scalar]]:
    """The scalars of a value, with the bits before each: the first one has the lowest."""
    offset = 0
    for dtype in scalars:
        yield offset, dtype
        offset += dtype.bits


def _word(scope: Scope, words: Sequence[Atom], offset: int, bits: int) -> Atom:
    """The integer of ``bits`` bits that starts ``offset`` bits into ``words``."""
    emit, found, wanted = scope.builder.emit, None, unsigned(bits)
    placed = _placed([element_type(w.type) for w in words])
    for word, (start, dtype) in zip(words, placed, strict=True):
        if start >= offset + bits or start + dtype.bits <= offset:
            continue
        part = word
        if start < offset:
            part = emit(_SHIFT_RIGHT, part, Const(dtype, offset - start))
        if dtype != wanted:
            part = emit(CAST, part, dtype=wanted)
        if start > offset:
            part = emit(_SHIFT_LEFT, part, Const(wanted, start - offset))
        found = part if found is None else emit(_OR, found, part)
    assert found is not None
    return found


def _to_bits(scope: Scope, atom: Atom) -> Atom:
    """The bits of a number as an unsigned integer."""
    dtype = element_type(atom.type)
    if dtype.is_float:
        return scope.builder.emit(TO_BITS[dtype], atom)
    unsigned_ = unsigned(dtype.bits)
    return atom if dtype == unsigned_ else scope.builder.emit(CAST, atom, dtype=unsigned_)


def _from_bits(scope: Scope, word: Atom, dtype: Scalar) -> Atom:
    """The number of type ``dtype`` that has the bits ``word``."""
    if dtype.is_float:
        return scope.builder.emit(FROM_BITS[dtype], word)
    return word if word.type == dtype else scope.builder.emit(CAST, word, dtype=dtype)
