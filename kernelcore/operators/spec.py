"""Spec: the contract of an operator. It says which parameters are results, and their shapes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, SupportsIndex, cast

import numpy as np

from kernelcore.base.config import MAX_BLOCK_DIM
from kernelcore.base.dataclass import dataclass, field, fields, replace
from kernelcore.base.errors import KernelArgumentError, SrcLoc
from kernelcore.language.flatten import leaf_names
from kernelcore.launch.kernel import Kernel
from kernelcore.operators.fusion import Fuse
from kernelcore.operators.gpu import is_block_dim
from kernelcore.operators.shape_rules import ShapeSpec, roles

# As users write them: a shape, or a function that makes one of the shapes of arguments.
Dims = ShapeSpec | Callable[..., Any]
OutputDims = Dims | Mapping[str, Any]
Names = str | Iterable[str] | None


@dataclass(frozen=True, slots=True)
class Spec:
    """The options of an operator.

    Attributes:
        outputs: Parameters that are results, and not arguments; None for those that
            ``with_results`` finds.
        in_out: Parameters that are arguments, and results that start as copies of them.
        mutates: Those of ``in_out`` that calls update in place and do not return.
        launch_dims: The launch shape; None for that of the first array.
        output_dims: The shape of every output, or shapes by name.
        defaults: Values of parameters that calls may leave out.
        block_dim: Threads per block on GPUs; 0 leaves the choice to the launcher.
        fuse: Whether elementwise kernels are computed in the graph of a compiled program.
        sizes: Names of integers that calls give after their arguments, as extents of shapes.
    """

    outputs: tuple[str, ...] | None = None
    in_out: tuple[str, ...] = ()
    mutates: tuple[str, ...] = ()
    launch_dims: Dims = None
    output_dims: OutputDims = None
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    block_dim: int = 0
    fuse: Fuse = False
    sizes: tuple[str, ...] = ()

    @property
    def identity(self) -> Hashable:
        """Equal identities mean that calls do the same; numbers are equal with type and sign."""
        return tuple(_identity(getattr(self, f.name)) for f in fields(self))


def _identity(given: object) -> Hashable:
    value: Any = given
    if isinstance(given, Mapping):
        return tuple(sorted((name, _identity(v)) for name, v in value.items()))
    if isinstance(given, list | tuple):
        return tuple(_identity(v) for v in value)
    if isinstance(given, bool | int | float | complex | np.generic):
        return type(value).__name__, repr(value)
    if value is None or isinstance(value, str):
        return "", str(value)
    # An array, or a function of the arguments: one and the same.
    return "", str(id(value))


@dataclass(frozen=True, slots=True)
class Declaration:
    """A kernel, or a function that launches kernels, as its options refer to it."""

    name: str
    parameters: tuple[str, ...]
    loc: SrcLoc | None

    @staticmethod
    def of_kernel(kernel: Kernel, with_leaves: bool = False) -> Declaration:
        """That of ``kernel``; with ``with_leaves`` options may also name fields of structs."""
        loc = kernel.parameters[0].loc if kernel.is_generic else kernel.func.loc
        leaves = typed_leaves(kernel) if with_leaves else {}
        names = (n for p in kernel.parameters for n in (p.name, *leaves.get(p.name, ())))
        return Declaration(kernel.name, tuple(dict.fromkeys(names)), loc)

    def refuse(self, text: str, remedy: str) -> KernelArgumentError:
        """The error for an option."""
        return KernelArgumentError(f"{self.name}: {text}", self.loc, remedy)

    def named(self, option: str, given: object) -> tuple[str, ...]:
        """The parameters that ``option`` names, in their order.

        Raises:
            KernelArgumentError: It names something else.
        """
        known = f"its parameters are {', '.join(self.parameters)}"
        if given is not None and not isinstance(given, Iterable):
            raise self.refuse(f"{option}: expected names of parameters, found {given!r}", known)
        found = (given,) if isinstance(given, str) else tuple(cast("Iterable[Any]", given or ()))
        for one in found:
            if one not in self.parameters:
                raise self.refuse(f"{option}: no parameter is named {one!r}", known)
        return tuple(p for p in self.parameters if p in found)


def parse(
    declared: Declaration,
    *,
    outputs: Names,
    in_out: Names,
    mutates: Names = (),
    launch_dims: Dims = None,
    output_dims: OutputDims = None,
    defaults: Mapping[str, Any] | None = None,
    block_dim: int | None = None,
    fuse: Fuse = False,
) -> Spec:
    """The options of the operator of what is ``declared``.

    Raises:
        KernelArgumentError: An option names something else than a parameter, or names one twice.
    """
    refuse, named = declared.refuse, declared.named
    results = None if outputs is None else named("outputs", outputs)
    updated = named("mutates", mutates)
    preserved = named("in_out", in_out)
    for one in results or ():
        if one in (*preserved, *updated):
            other = "mutates" if one in updated else "in_out"
            raise refuse(
                f"'{one}' is named both in outputs and in {other}",
                f"name it in outputs where it starts as zeros, or in {other} where it starts as "
                "the argument",
            )
    for one in defaults or {}:
        if one not in declared.parameters or one in (results or ()):
            arguments = [p for p in declared.parameters if p not in (results or ())]
            raise refuse(
                f"defaults: '{one}' is no argument", f"its arguments are {', '.join(arguments)}"
            )
    if block_dim is not None and not is_block_dim(block_dim):
        text = f"block_dim: expected an integer from 1 to {MAX_BLOCK_DIM}, found {block_dim!r}"
        raise refuse(text, "leave it out: only GPUs have blocks of threads")
    if not isinstance(fuse, bool) and fuse != "auto":  # pyright: ignore[reportUnnecessaryComparison]
        raise refuse(f"fuse: expected True, False or 'auto', found {fuse!r}", "leave it out")
    return Spec(
        results,
        tuple(p for p in declared.parameters if p in (*preserved, *updated)),
        updated,
        launch_dims,
        output_dims,
        dict(defaults or {}),
        int(block_dim or 0),
        fuse,
    )


def with_results(kernel: Kernel, spec: Spec, infer_in_out: bool = False) -> Spec:
    """``spec`` with the results of ``kernel``, where it names no outputs.

    Outputs are the arrays that the kernel writes and never loads. An addition to an element is no
    load, so an array that is only added to starts as zeros. With ``infer_in_out`` the other arrays
    that the kernel writes are in-out. A generic kernel with in-out arrays has no other results.

    Raises:
        KernelArgumentError: The kernel is generic and neither outputs nor in-out arrays are named,
            or it writes an array that is neither.
    """
    if spec.outputs is not None:
        return spec
    if kernel.is_generic:
        if spec.in_out:
            return replace(spec, outputs=())
        raise KernelArgumentError(
            f"{kernel.name}: what a generic kernel writes follows from its types",
            kernel.parameters[0].loc,
            'name its results, for example outputs="y"',
        )
    if not infer_in_out:
        return replace(spec, outputs=_new_results(kernel, spec.in_out))
    outputs, in_out = roles(kernel, None, leaves_of(kernel, spec.in_out))
    return replace(spec, outputs=outputs, in_out=in_out)


def _new_results(kernel: Kernel, in_out: Sequence[str]) -> tuple[str, ...]:
    """The parameters that ``kernel`` writes and never loads, without those in ``in_out``."""
    func = kernel.func
    effects = dict(zip((p.name for p in func.params), kernel.effects, strict=True))
    place = {name: k for k, name in enumerate(effects)}
    outputs: list[str] = []
    for name, leaves in typed_leaves(kernel).items():
        found = [effects[leaf] for leaf in leaves]
        if name in in_out or not any(e.writes for e in found):
            continue
        if any(e.loads for e in found):
            raise KernelArgumentError(
                f"{kernel.name}: the kernel loads and writes '{name}', so a call may have to give "
                "its first elements",
                func.param_loc(place[leaves[0]]),
                f'outputs="{name}" if it starts as zeros, in_out="{name}" if it starts as the '
                "argument",
            )
        outputs.append(name)
    return tuple(outputs)


def leaves_of(kernel: Kernel, names: Sequence[str]) -> tuple[str, ...]:
    """The leaves that ``names``, of parameters or leaves, stand for."""
    rows = typed_leaves(kernel).items()
    return tuple(n for name, leaves in rows for n in leaves if name in names or n in names)


def typed_leaves(kernel: Kernel) -> dict[str, list[str]]:
    """The names of the leaves of each parameter."""
    return {p.name: leaf_names(p.name, p.type) for p in kernel.parameters if p.type is not None}


# The shapes of one form of an operator, in which names stand for numbers that calls give: the
# launch shape, that of each output by name, and those names in the order in which calls give the
# numbers. A plain tuple is a constant to torch.compile.
DimsKey = tuple[Any, tuple[tuple[str, Any], ...], tuple[str, ...]]


def has_callables(spec: Spec) -> bool:
    """Whether a shape is a function."""
    many = _by_name(spec.output_dims, ("",)).values()
    return any(callable(dims) for dims in (spec.launch_dims, *many))


def _by_name(dims: Any, outputs: Sequence[str]) -> Mapping[str, Any]:
    """The shapes of outputs by name; torch.compile follows it."""
    found: Any = dims
    return found if isinstance(dims, (dict, Mapping)) else dict.fromkeys(outputs, found)


def static_key(spec: Spec, outputs: Sequence[str]) -> DimsKey:
    """The shapes of ``spec``, none of which is a function, for ``outputs``."""
    own = _by_name(spec.output_dims, outputs)
    rows = tuple((name, _frozen(own.get(name))) for name in _shaped(outputs, spec.output_dims))
    return _frozen(spec.launch_dims), rows, ()


def _shaped(outputs: Sequence[str], *dims: Any) -> Sequence[str]:
    """``outputs``, then the other names that have a shape, which what makes shapes refuses."""
    for shapes in dims:
        if shapes is not None and isinstance(shapes, (dict, Mapping)):
            outputs = list(dict.fromkeys([*outputs, *cast("Iterable[str]", shapes)]))
    return outputs


def take_numbers(
    key: DimsKey, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Sequence[Any], tuple[Any, ...]]:
    """The arguments of a call without the numbers in its shapes, and these; torch follows it."""
    numbers = tuple([kwargs.pop(name) for name in key[2] if name in kwargs])
    if len(numbers) == len(key[2]):
        return args, numbers
    count = len(args) - len(key[2])
    return args[:count], tuple(args[count:])


def known_dims(key: DimsKey, numbers: Sequence[Any]) -> tuple[Any, dict[str, Any] | None]:
    """The launch shape and those of outputs, with the ``numbers`` of a call."""
    launch_dims, rows, sizes = key
    values = dict(zip(sizes, numbers, strict=True))

    def known(dims: Any) -> Any:
        is_tuple = isinstance(dims, tuple)
        return tuple([values.get(e, e) for e in dims]) if is_tuple else dims  # pyright: ignore

    given = {name: known(dims) for name, dims in rows if dims is not None}
    return known(launch_dims), given or None


def _frozen(dims: Any) -> Any:
    """``dims`` in hashable form; what is no shape is refused later."""
    if dims is None or isinstance(dims, str | SupportsIndex) or not isinstance(dims, Iterable):
        return dims
    return tuple(cast("Iterable[Any]", dims))


def resolve_dims(
    spec: Spec,
    outputs: Sequence[str],
    launch_dims: Any,
    output_dims: Any,
    shape_of: Callable[[str], Any],
) -> tuple[DimsKey, list[Any]]:
    """The shapes of a call, and the numbers in them. torch.compile follows it.

    Args:
        spec: The shapes of the operator.
        outputs: The parameters that are outputs.
        launch_dims: The launch shape that the call gives; None for that of ``spec``.
        output_dims: Likewise of outputs.
        shape_of: The shape of an argument that is an array, or the argument.
    """
    sizes: list[str] = []
    numbers: list[Any] = []

    def resolved(option: str, own: Any, given: Any) -> Any:
        dims: Any = own if given is None else given
        is_open = given is not None
        if callable(dims):
            code = dims.__code__
            dims = dims(*[shape_of(name) for name in code.co_varnames[: code.co_argcount]])
            is_open = True
        if dims is None or isinstance(dims, str):
            return dims
        entries: list[Any] = []
        given_many: Any = dims if isinstance(dims, (tuple, list)) else (dims,)  # pyright: ignore
        for entry in given_many:
            if isinstance(entry, str) or not is_open:
                entries.append(entry)
            else:
                name = f"{option}_{len(entries)}"
                entries.append(name)
                sizes.append(name)
                numbers.append(entry)
        return tuple(entries)

    launch = resolved("launch_dims", spec.launch_dims, launch_dims)
    own, given = (_by_name(dims, outputs) for dims in (spec.output_dims, output_dims))
    rows = [
        (name, resolved(f"output_dims_{name}", own.get(name), given.get(name)))
        for name in _shaped(outputs, spec.output_dims, output_dims)
    ]
    return (launch, tuple(rows), tuple(sizes)), numbers
