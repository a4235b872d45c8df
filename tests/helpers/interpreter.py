"""The reference interpreter: the meaning of the IR, and the oracle of every test."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from kernelcore.base.errors import CHECKS, KernelAssertionError, KernelError, SrcLoc, filled
from kernelcore.builtins.reference import as_scalar, convert, is_narrow, trip_count
from kernelcore.codegen.analysis.independent_loops import IndependentLoop
from kernelcore.codegen.simd.contraction import contract_sums
from kernelcore.codegen.simd.strategy import loops_in_parts
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import Op, OpKind
from kernelcore.ir.snippet import Variant, no_tangent, snippet_of
from kernelcore.language.types import ArrayType, Scalar
from tests.helpers.carried_values import kept_by
from tests.helpers.printed_text import formatted, shown
from tests.helpers.snippet_host_call import passed, snippet_function

Env = dict[Var, Any]
Step = Callable[[Env], None]
Read = Callable[[Env], Any]
Compute = Callable[..., Any]
Run = Callable[[Env], tuple[Any, ...]]
Point = list[int]
Dims = Sequence[int] | int
Points = Iterable[Sequence[int]] | None


def run(func: Func, args: Sequence[Any], grid_dims: Dims, points: Points = None) -> None:
    """Run kernel ``func`` at every point of the grid, one after the other in row-major order.

    Args:
        func: A kernel.
        args: NumPy arrays (any strides; written in place) and scalars, along ``func.params``.
        grid_dims: Extents; as many as ``func.grid_rank``, or one for a kernel without an index.
        points: These points alone; by default all.

    Raises:
        KernelError: An index out of bounds.
        KernelAssertionError: An assertion that does not hold.
    """
    dims = (grid_dims,) if isinstance(grid_dims, int) else tuple(grid_dims)
    point: Point = [0] * len(dims)
    func, rows = contract_sums(func), dims[-2] if len(dims) > 1 else 1
    body, env = _Compiler(point, loops_in_parts(func), rows).region(func.body), _bind(func, args)
    with np.errstate(all="ignore"):
        for index in np.ndindex(dims) if points is None else points:
            point[:] = index
            body(env)


def run_function(func: Func, args: Sequence[Any]) -> tuple[Any, ...]:
    """The results of ``func``, a function that yields some, as NumPy scalars.

    Raises:
        KernelError: An index out of bounds.
    """
    with np.errstate(all="ignore"):
        return _Compiler([0], {}, 1).region(func.body)(_bind(func, args))


# What replaces the references of operations, by their names.
replaced: dict[str, Callable[..., Any]] = {}


def _bind(func: Func, args: Sequence[Any]) -> Env:
    return {
        param: as_scalar(arg, param.type) if isinstance(param.type, Scalar) else arg
        for param, arg in zip(func.params, args, strict=True)
    }


def _computing(ref: Callable[..., Any], inputs: Sequence[Atom], result: Scalar) -> Compute:
    """``ref`` as it is computed: float32 takes the place of floats of 16 bits, and is rounded."""
    narrow = [isinstance(a.type, Scalar) and is_narrow(a.type) for a in inputs]
    kind: Compute = np.float32 if is_narrow(result) else result.numpy.type

    def compute(*values: Any) -> Any:
        wide = [np.float32(v) if n else v for v, n in zip(values, narrow, strict=True)]
        return convert(kind(ref(*wide)), result)

    def compute_at_once(*values: Any) -> Any:
        return kind(ref(*values))

    return compute if any(narrow) or is_narrow(result) else compute_at_once


def _element(array: Any, index: tuple[Any, ...], loc: SrcLoc | None) -> tuple[Any, ...]:
    for axis, (i, extent) in enumerate(zip(index, array.shape, strict=True)):
        if not 0 <= i < extent:
            raise KernelError(f"index {i} is out of bounds for axis {axis} of extent {extent}", loc)
    return index


class _Compiler:
    """Turns regions into closures over an environment; ``point`` is the current grid point."""

    def __init__(self, point: Point, in_parts: Mapping[Eqn, IndependentLoop], rows: int) -> None:
        self._point, self._in_parts, self._rows = point, in_parts, rows
        self._makers: Mapping[OpKind, Callable[[Eqn], Step]] = {
            OpKind.PURE: self._pure,
            OpKind.CAST: self._cast,
            OpKind.TID: self._tid,
            OpKind.DIM: self._dim,
            OpKind.ARRAY_AT: self._array_at,
            OpKind.LOAD: self._load,
            OpKind.STORE: self._store,
            OpKind.ATOMIC_ADD: self._atomic_add,
            OpKind.ATOMIC: self._atomic,
            OpKind.ATOMIC_CAS: self._atomic_cas,
            OpKind.PRINT: self._print,
            OpKind.ASSERT: self._assert,
            OpKind.STACK: self._stack,
            OpKind.PUSH: self._push,
            OpKind.POP: self._pop,
            OpKind.IF: self._if,
            OpKind.FOR: self._for,
            OpKind.WHILE: self._while,
            OpKind.CALL: self._call,
            OpKind.SNIPPET: self._native,
            OpKind.CUSTOM: self._custom,
        }

    def region(self, region: Region) -> Run:
        steps = [self._makers[eqn.op.kind](eqn) for eqn in region.eqns]
        yields = [_read(atom) for atom in region.yields]

        def run(env: Env) -> tuple[Any, ...]:
            for step in steps:
                step(env)
            return tuple([get(env) for get in yields])

        return run

    def _pure(self, eqn: Eqn) -> Step:
        out, inputs, result = eqn.out, _reads(eqn.inputs), eqn.out.type
        assert eqn.op.ref is not None
        assert isinstance(result, Scalar)
        reference = replaced.get(eqn.op.name, eqn.op.ref)
        compute = _computing(reference, eqn.inputs, result)

        def step(env: Env) -> None:
            env[out] = compute(*[get(env) for get in inputs])

        return step

    def _cast(self, eqn: Eqn) -> Step:
        out, source = eqn.out, _read(eqn.inputs[0])
        dtype = out.type
        assert isinstance(dtype, Scalar)

        def step(env: Env) -> None:
            env[out] = convert(source(env), dtype)

        return step

    def _tid(self, eqn: Eqn) -> Step:
        out, point = eqn.out, self._point
        axis: int = eqn.attrs["axis"]

        def step(env: Env) -> None:
            env[out] = np.int32(point[axis])

        return step

    def _dim(self, eqn: Eqn) -> Step:
        out, array, axis = eqn.out, _read(eqn.inputs[0]), eqn.attrs["axis"]

        def step(env: Env) -> None:
            env[out] = np.int32(array(env).shape[axis])

        return step

    def _array_at(self, eqn: Eqn) -> Step:
        out, type_ = eqn.out, eqn.out.type
        assert isinstance(type_, ArrayType)
        address, *extents = _reads(eqn.inputs)
        spacing: int = eqn.attrs["spacing"]
        inner = np.empty(type_.components, type_.dtype.numpy)

        def step(env: Env) -> None:
            shape = tuple(int(get(env)) for get in extents)
            size_bytes = math.prod(shape) * spacing
            memory: Any = (ctypes.c_byte * size_bytes).from_address(int(address(env)))
            strides = (*np.empty(shape, f"V{spacing}").strides, *inner.strides)
            env[out] = np.ndarray((*shape, *inner.shape), inner.dtype, memory, 0, strides)

        return step

    def _load(self, eqn: Eqn) -> Step:
        out, loc = eqn.out, eqn.loc
        array, *indices = _reads(eqn.inputs)

        def step(env: Env) -> None:
            source = array(env)
            env[out] = source[_element(source, tuple([get(env) for get in indices]), loc)]

        return step

    def _store(self, eqn: Eqn) -> Step:
        loc = eqn.loc
        array, *indices, value = _reads(eqn.inputs)

        def step(env: Env) -> None:
            target = array(env)
            target[_element(target, tuple([get(env) for get in indices]), loc)] = value(env)

        return step

    def _atomic_add(self, eqn: Eqn) -> Step:
        out, loc = eqn.out, eqn.loc
        array, *indices, value = _reads(eqn.inputs)

        def step(env: Env) -> None:
            target = array(env)
            index = _element(target, tuple([get(env) for get in indices]), loc)
            env[out] = old = target[index]
            target[index] = old + value(env)

        return step

    def _atomic(self, eqn: Eqn) -> Step:
        out, loc = eqn.out, eqn.loc
        array, *indices, value = _reads(eqn.inputs)
        update: Op | None = eqn.attrs["update"]
        dtype = out.type
        assert isinstance(dtype, Scalar)
        if update is None:
            compute: Callable[[Any, Any], Any] = lambda old, new: new  # noqa: E731
        else:
            assert update.ref is not None
            compute = _computing(update.ref, (out, out), dtype)

        def step(env: Env) -> None:
            target = array(env)
            index = _element(target, tuple([get(env) for get in indices]), loc)
            env[out] = old = target[index]
            target[index] = compute(old, value(env))

        return step

    def _atomic_cas(self, eqn: Eqn) -> Step:
        out, loc = eqn.out, eqn.loc
        array, *indices, expected, desired = _reads(eqn.inputs)

        def step(env: Env) -> None:
            target = array(env)
            index = _element(target, tuple([get(env) for get in indices]), loc)
            env[out] = old = target[index]
            if old.tobytes() == expected(env).tobytes():
                target[index] = desired(env)

        return step

    def _print(self, eqn: Eqn) -> Step:
        first, *rest = eqn.attrs["pieces"]
        formats = eqn.attrs.get("formats", ("",) * len(eqn.inputs))
        texts = [
            formatted(f) if f else shown(a.type) for f, a in zip(formats, eqn.inputs, strict=True)
        ]
        values = _reads(eqn.inputs)

        def step(env: Env) -> None:
            parts = zip(texts, values, rest, strict=True)
            line = "".join(show(get(env)) + piece for show, get, piece in parts)
            sys.stdout.write(first + line)

        return step

    def _assert(self, eqn: Eqn) -> Step:
        condition, *details = _reads(eqn.inputs)
        text, check, loc = eqn.attrs["text"], eqn.attrs.get("check"), eqn.loc

        def step(env: Env) -> None:
            if condition(env):
                return
            if check is not None:
                numbers = [get(env) for get in details]
                raise CHECKS[check][1].of(filled(text, numbers), loc)
            raise KernelAssertionError.of(text, loc)

        return step

    def _stack(self, eqn: Eqn) -> Step:
        out = eqn.out

        def step(env: Env) -> None:
            env[out] = []

        return step

    def _push(self, eqn: Eqn) -> Step:
        stack, value = _reads(eqn.inputs)

        def step(env: Env) -> None:
            stack(env).append(value(env))

        return step

    def _pop(self, eqn: Eqn) -> Step:
        out, stack = eqn.out, _read(eqn.inputs[0])

        def step(env: Env) -> None:
            env[out] = stack(env).pop()

        return step

    def _if(self, eqn: Eqn) -> Step:
        outs, cond = eqn.outputs, _read(eqn.inputs[0])
        then, orelse = (self.region(r) for r in eqn.regions)

        def step(env: Env) -> None:
            env.update(zip(outs, (then if cond(env) else orelse)(env), strict=True))

        return step

    def _for(self, eqn: Eqn) -> Step:
        outs, (body,) = eqn.outputs, eqn.regions
        run, (index, *carried) = self.region(body), body.params
        make = cast("Scalar", index.type).numpy.type
        bounds, init = _reads(eqn.inputs[:3]), _reads(eqn.inputs[3:])

        def step(env: Env) -> None:
            start, stop, stride = (int(get(env)) for get in bounds)
            trips = trip_count(start, stop, stride)
            kept = kept_by(self._in_parts.get(eqn), [get(env) for get in init], trips, self._rows)
            for k in range(trips):
                env[index] = make(start + k * stride)
                env.update(zip(carried, kept.before(k), strict=True))
                kept.keep(k, run(env))
            env.update(zip(outs, kept.after(), strict=True))

        return step

    def _while(self, eqn: Eqn) -> Step:
        outs, (cond, body) = eqn.outputs, eqn.regions
        test, run = self.region(cond), self.region(body)
        init = _reads(eqn.inputs)

        def step(env: Env) -> None:
            values = tuple([get(env) for get in init])
            while True:
                env.update(zip(cond.params, values, strict=True))
                if not test(env)[0]:
                    break
                env.update(zip(body.params, values, strict=True))
                values = run(env)
            env.update(zip(outs, values, strict=True))

        return step

    def _native(self, eqn: Eqn) -> Step:
        snippet = snippet_of(eqn)
        if snippet.variant is Variant.TANGENT:
            raise no_tangent(eqn)
        call, outs, loc = snippet_function(snippet), eqn.outputs, eqn.loc
        groups = [(slot, _reads(atoms)) for slot, atoms in snippet.arguments(eqn.inputs)]

        def step(env: Env) -> None:
            given = ((slot, [get(env) for get in reads]) for slot, reads in groups)
            values = [v for slot, found in given for v in passed(slot, found, loc)]
            env.update(zip(outs, call(values), strict=True))

        return step

    def _custom(self, eqn: Eqn) -> Step:
        run, outputs = self.region(eqn.regions[0]), eqn.outputs

        def step(env: Env) -> None:
            env.update(zip(outputs, run(env), strict=True))

        return step

    def _call(self, eqn: Eqn) -> Step:
        callee: Func = eqn.attrs["callee"]
        outs, run, inputs = eqn.outputs, self.region(callee.body), _reads(eqn.inputs)

        def step(env: Env) -> None:
            inner = dict(zip(callee.params, [get(env) for get in inputs], strict=True))
            env.update(zip(outs, run(inner), strict=True))

        return step


def _read(atom: Atom) -> Read:
    if isinstance(atom, Const):
        value = as_scalar(atom.value, atom.type)
        return lambda env: value
    return lambda env: env[atom]


def _reads(atoms: Sequence[Atom]) -> list[Read]:
    return [_read(a) for a in atoms]
