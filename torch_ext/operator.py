"""TorchOperator: one Operation as a torch operator.

An operator is registered twice. The public one has the autograd and the vmap rule; the inner one
has neither, so that below autograd, and in compiled graphs, nothing stands before native code.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import _C
from torch._ops import OpOverload

from kernelcore import ArrayType
from kernelcore.base.errors import KernelArgumentError, KernelError
from kernelcore.operators import MAX_GRID_DIMS, Operation, Scalar, evaluate, native_operation
from torch_ext import autocast, derivation, native, sharding
from torch_ext.autocast import autocast_kernel
from torch_ext.autograd import autograd_kernel, make_functions
from torch_ext.check import check_arguments, leading_tensor
from torch_ext.derivation import Step, ascii_name, derived_name, parse_name, root_name
from torch_ext.dtype import dtype_to_torch
from torch_ext.out import OutOverload

NAMESPACE = "kernelcore"

# Compiled graphs may give inputs any strides, and need not keep those of eager mode.
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout)

# What torch's schemas call numbers; those of compiled graphs may be extents of dynamic shapes.
_NUMBERS = {"bool": "bool", "int": "SymInt", "uint": "SymInt", "float": "float"}

_lock = threading.RLock()
# A child that is forked while another thread registers must not find the lock taken for ever.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
_libraries: dict[str, torch.library.Library] = {}
_operators: dict[str, TorchOperator] = {}
# By root name: what operators that a name alone is known of can be derived from.
_roots: dict[str, Operation] = {}
_defined: set[str] = set()


def root_operator(
    operation: Operation, tensor_values: bool = False, qualname: str | None = None
) -> TorchOperator:
    """The operator of an operation that was not derived, registered on first use.

    Args:
        operation: What it computes.
        tensor_values: Whether scalar operands are tensors without dimensions, not numbers.
        qualname: ``namespace::name``; by default one that tells the content.

    Raises:
        KernelArgumentError: The name is taken by another operation.
    """
    root = root_name(operation)
    with _lock:
        _roots[root] = operation
    origin = Origin(root, (), tensor_values)
    return _registered(operation, origin, qualname or f"{NAMESPACE}::{root}")


def root_operation(root: str) -> Operation:
    """The operation with the root name ``root``, which has an operator."""
    return _roots[root]


class Origin(NamedTuple):
    """Where an operator comes from: its root, the steps from there, and the form of its scalars."""

    root: str
    steps: tuple[Step, ...]
    tensor_values: bool


class Derived(NamedTuple):
    """An operator, or None if all is zero; and what its results are derivatives of."""

    operator: TorchOperator | None
    produced: tuple[int, ...]


def _registered(operation: Operation, origin: Origin, qualname: str) -> TorchOperator:
    if origin.tensor_values:
        qualname += "_t"
    with _lock:
        found = _operators.get(qualname)
        taken = [n for n in _names(qualname) if _C._jit_get_schemas_for_operator(n)]
        if found is None and not taken:
            found = _operators[qualname] = TorchOperator(operation, origin, qualname)
    if found is None or found.operation != operation:
        raise KernelArgumentError(
            f"torch_op: the operator '{taken[0]}' exists and computes something else",
            operation.func.loc,
            "give another name, or none: then it follows from the content of the kernel",
        )
    return found


def _names(qualname: str) -> tuple[str, str]:
    """The names of the public and of the inner operator."""
    return qualname, f"{qualname}_k"


def _derive(operation: Operation, origin: Origin) -> TorchOperator:
    name = derived_name(origin.root, origin.steps)
    return _registered(operation, origin, f"{NAMESPACE}::{name}")


def _define_missing(name: str) -> None:
    """Define the derived operator ``name``; torch asks for names that it does not find.

    Graphs compiled by an earlier process name operators that this one has not derived yet.
    """
    found = parse_name(name)
    if found is not None and name not in _defined:
        operation = _roots.get(found.root)
        if operation is None:
            raise KernelError(
                f"the operator '{NAMESPACE}::{name}' is derived of a kernel that is not registered",
                remedy="call torch_op for that kernel first; if the kernel or kernelcore changed, "
                "clear torch's compile cache",
            )
        for step in found.steps:
            operation = step.apply(operation).operation
        _derive(operation, Origin(found.root, found.steps, found.tensor_values))
    raise AttributeError(name)  # Torch's own look-up follows.


vars(torch.ops.kernelcore)["__getattr__"] = _define_missing


class TorchOperator:
    """A registered operator.

    Attributes:
        operation: What it computes.
        origin: Where it comes from.
        tensor_values: Whether scalar operands are tensors without dimensions, not numbers.
        qualname: ``namespace::name`` of the public operator.
        public: The operator with autograd and vmap.
        inner: The operator without.
        out: The overload that writes to tensors of the caller; None if the operator is derived.
        functions: The autograd functions.
        native: The native description.
        on_devices: That for CUDA tensors.
    """

    def __init__(self, operation: Operation, origin: Origin, qualname: str) -> None:
        self.operation = operation
        self.origin = origin
        self.tensor_values = tensor_values = origin.tensor_values
        self.qualname = qualname
        self._derived: dict[Step, Derived] = {}
        self.on_devices = native.on_devices(operation, tensor_values)
        self.native = native_operation(
            operation, operation.signature, tensor_values, self.on_devices
        )
        namespace = qualname.split("::")[0]
        names = tuple(n.split("::")[1] for n in _names(qualname))
        _defined.update(names)
        library = _libraries.get(namespace)
        if library is None:
            library = _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
        for each in names:
            library.define(each + _schema(operation, tensor_values), tags=_TAGS)
            torch.library.register_fake(f"{namespace}::{each}", self.fake, lib=library)
        has_tensors = tensor_values or any(
            isinstance(o.type, ArrayType) for o in operation.operands
        )
        # Without tensor operands there is no device to dispatch on.
        key = "CPU" if has_tensors else "CompositeExplicitAutograd"
        native.implement(self.native, namespace, names, key)
        if has_tensors and torch.backends.cuda.is_built():
            native.implement(self.on_devices, namespace, names, "CUDA")
        self.public, self.inner = (_overload(namespace, each) for each in names)
        # Nobody gives memory to derivatives, of which there are many.
        self.out: OutOverload | None = None
        if not origin.steps:
            params = _parameters(operation, tensor_values)
            self.out = OutOverload(self, library, params, _TAGS)
        self.functions = make_functions(self)
        library.impl(names[0], autograd_kernel(self), "Autograd", with_keyset=True)
        for key in autocast.DISPATCH_KEYS:
            library.impl(names[0], autocast_kernel(self, key), key, with_keyset=True)
        torch.library.register_vmap(qualname, self.batch, lib=library)
        sharding.add_rule(self)

    def __repr__(self) -> str:
        return f"<torch operator {self.qualname}>"

    def derived(self, step: Step) -> Derived:
        """The operator of what ``step`` makes of this one's operation.

        Raises:
            KernelGradError: The kernel has no exact derivative.
        """
        found = self._derived.get(step)
        if found is None:
            made = step.apply(self.operation)
            operation, produced = made.operation, made.produced
            origin = self.origin._replace(steps=(*self.origin.steps, step))
            operator = _derive(operation, origin) if produced else None
            found = self._derived[step] = Derived(operator, produced)
        return found

    @cached_property
    def entry(self) -> Callable[..., Any]:
        """The operator; native code calls it directly where torch's dispatcher is not needed."""
        name = self.qualname.split("::")[1]
        return native.fast_entry(self.native, name, self.differentiated, self.public)

    @cached_property
    def direct(self) -> Callable[..., Any]:
        """What runs below autograd; native code calls it directly where it can."""
        inner = self.inner

        def dispatched(*args: Any) -> Any:
            with _C._AutoDispatchBelowAutograd():
                return inner(*args)

        return native.fast_entry(self.native, self.inner.name(), None, dispatched)

    @property
    def differentiated(self) -> Callable[..., Any]:
        """What a call on plain tensors does of which some require grad, outside of torch.func."""
        return self.functions.plain.apply

    def results(self, returned: Any) -> tuple[torch.Tensor, ...]:
        """What the operator returned, as a tuple."""
        return (returned,) if self.operation.visible == 1 else tuple(returned)

    def prepare(self, args: Sequence[Any]) -> None:
        """Make what a device needs to run the operator on ``args``.

        Raises:
            KernelError: It has no code there, or an earlier run there failed.
        """
        if _C._len_torch_dispatch_stack() or _C._are_functorch_transforms_active():
            return  # What looks like a tensor may have no memory.
        for arg in args:
            if type(arg) in (torch.Tensor, torch.nn.Parameter) and arg.is_cuda:
                self.on_devices.prepare(arg.device.index)
                return

    def fake(self, *args: Any) -> Any:
        """Results without contents, of the shapes and strides that native code makes."""
        check_arguments(self.operation, self.tensor_values, args)
        tensor = leading_tensor(args)
        # What has no tensor to tell a device runs on the CPU, whatever torch's default is.
        empty = partial(torch.empty, device="cpu") if tensor is None else tensor.new_empty
        shapes = [getattr(a, "shape", ()) for a in args]
        results = tuple(
            empty(evaluate(r.shape, shapes), dtype=dtype_to_torch(r.type.dtype))
            for r in self.operation.outputs
        )
        return results[0] if len(results) == 1 else results

    def batch(self, info: Any, in_dims: Sequence[int | None], *args: Any) -> tuple[Any, Any]:
        """The vmap rule: one more launch axis, an instance of the batch per index."""
        operation = self.operation
        if len(operation.grid) >= MAX_GRID_DIMS:
            return self.batch_in_turn(info.batch_size, in_dims, args)
        given = [a if d is None else a.movedim(d, 0) for a, d in zip(args, in_dims, strict=True)]
        batched = {k for k, d in enumerate(in_dims) if d is not None}
        for k in operation.owners():
            if k not in batched:
                given[k] = given[k].expand(info.batch_size, *given[k].shape)
                batched.add(k)
        operator, _ = self.derived(derivation.batch(tuple(sorted(batched))))
        assert operator is not None
        returned = operator.public(*given)
        return returned, 0 if operation.visible == 1 else (0,) * operation.visible

    def batch_in_turn(self, size: int, in_dims: Sequence[int | None], args: Sequence[Any]) -> Any:
        """A batch beyond the launch dimensions that a kernel can have: a call per instance."""
        rows = [a if d is None else a.movedim(d, 0) for a, d in zip(args, in_dims, strict=True)]
        batched = {k for k, d in enumerate(in_dims) if d is not None}

        def instance(index: int) -> list[Any]:
            return [r[index] if k in batched else r for k, r in enumerate(rows)]

        def blank() -> list[Any]:
            return [r.new_empty(r.shape[1:]) if k in batched else r for k, r in enumerate(rows)]

        found = [self.results(self.public(*instance(i))) for i in range(size)]
        made = found or [self.results(self.fake(*blank()))]
        stacked = tuple(torch.stack(each)[:size] for each in zip(*made, strict=True))
        if len(stacked) == 1:
            return stacked[0], 0
        return stacked, (0,) * len(stacked)


def _overload(namespace: str, name: str) -> OpOverload:
    return getattr(getattr(torch.ops, namespace), name).default


def _parameters(operation: Operation, tensor_values: bool) -> list[tuple[str, str]]:
    """Type and name of each operand in torch's schema language; names are made unique."""
    params: list[tuple[str, str]] = []
    seen = {"NoneType"}  # The one keyword of schemas that is none of Python.
    for operand, name in zip(operation.operands, operation.argument_names, strict=True):
        name = ascii_name(name)
        while name in seen:
            name += "_"
        seen.add(name)
        kind = "Tensor"
        if isinstance(operand.type, Scalar) and not tensor_values:
            kind = _NUMBERS[operand.type.kind]
        params.append((kind, name))
    return params


def _schema(operation: Operation, tensor_values: bool) -> str:
    """Parameters and results in torch's schema language."""
    params = [f"{kind} {name}" for kind, name in _parameters(operation, tensor_values)]
    tensors = ", ".join(["Tensor"] * operation.visible)
    returned = tensors if operation.visible == 1 else f"({tensors})"
    return f"({', '.join(params)}) -> {returned}"
