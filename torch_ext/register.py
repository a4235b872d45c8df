"""Registers operators with torch: schemas, fake and native kernels, and every rule.

An operator named after its content is registered when a graph, a transform or torch's dispatcher
needs it; eager calls need none. One that a user named is registered at once.
"""

from __future__ import annotations

import torch
from torch import _C
from torch._ops import OpOverload

from kernelcore.base.errors import KernelArgumentError, KernelError
from kernelcore.operators import ForkLock, Fuse, Operation, Scalar, make_forms
from torch_ext import autocast, fusion, native, sharding
from torch_ext.autocast import autocast_kernel
from torch_ext.autograd import autograd_kernel, make_functions
from torch_ext.derivation import NAMESPACE, ascii_name, derived_name, parse_name, root_name
from torch_ext.operator import Origin, Registrars, TorchOperator
from torch_ext.out import OutOverload
from torch_ext.vmap import batch_kernel

# Compiled graphs may give inputs any strides, and need not keep those of eager mode.
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout)

# What torch's schemas call numbers; those of compiled graphs may be extents of dynamic shapes.
_NUMBERS = {"bool": "bool", "int": "SymInt", "uint": "SymInt", "float": "float"}

_lock = ForkLock()
_libraries: dict[str, torch.library.Library] = {}
_operators: dict[str, TorchOperator] = {}
# By root name: the operations from which an operator known by name can be derived, and whether
# graphs fuse them.
_roots: dict[str, tuple[Operation, Fuse]] = {}
# By qualified name.
_overloads: dict[str, OpOverload] = {}
_outs: dict[str, OutOverload] = {}
# The qualified names that torch has, or is about to get.
_defined: set[str] = set()


def root_operator(
    operation: Operation,
    tensor_values: bool = False,
    qualname: str | None = None,
    fuse: Fuse = False,
) -> TorchOperator:
    """The operator of an operation that was not derived.

    Args:
        operation: What it computes.
        tensor_values: Whether scalar operands are tensors without dimensions, not numbers.
        qualname: ``namespace::name``; by default one that tells the content.
        fuse: Whether Inductor computes it in its own code.

    Raises:
        KernelArgumentError: The name is taken by another operation.
    """
    root = root_name(operation, fuse)
    with _lock:
        _roots[root] = operation, fuse
    origin = Origin(root, (), tensor_values, fuse)
    return _operator(operation, origin, qualname or f"{NAMESPACE}::{root}")


def root_operation(root: str) -> Operation:
    """The operation with the root name ``root``, which has an operator."""
    return _roots[root][0]


def _derive(operation: Operation, origin: Origin) -> TorchOperator:
    name = derived_name(origin.root, origin.derivations)
    return _operator(operation, origin, f"{NAMESPACE}::{name}")


def _operator(operation: Operation, origin: Origin, qualname: str) -> TorchOperator:
    if origin.tensor_values:
        qualname += "_t"
    with _lock:
        found = _operators.get(qualname)
        taken = [n for n in (qualname, f"{qualname}_k") if _C._jit_get_schemas_for_operator(n)]
        if found is None and not taken:
            found = TorchOperator(operation, origin, qualname, _REGISTRARS)
            _operators[qualname] = found
    if found is None or found.operation != operation:
        raise KernelArgumentError(
            f"torch_op: the operator '{(*taken, qualname)[0]}' exists and computes something else",
            operation.func.loc,
            "give another name, or none: then it follows from the content of the kernel",
        )
    return found


def define_missing(name: str) -> None:
    """Define the operator ``name``; torch asks for names that it does not find.

    Graphs compiled by an earlier process name operators that this one has not needed yet.
    """
    found = parse_name(name)
    if found is not None and f"{NAMESPACE}::{name}" not in _defined:
        if found.root not in _roots:  # Operators of kc.op have a form for torch once one calls it.
            kernel = found.root.rpartition("_")[0]
            make_forms("torch", lambda one: ascii_name(one) == kernel)
        known = _roots.get(found.root)
        if known is None:
            raise KernelError(
                f"the operator '{NAMESPACE}::{name}' is derived of a kernel that is not registered",
                remedy="import the module that makes the operator, and call it if it is generic; "
                "if the kernel or kernelcore changed, export the program again, or clear torch's "
                "compile cache",
            )
        operation, fuse = known
        for derivation in found.derivations:
            operation = derivation.apply(operation).operation
        origin = Origin(found.root, found.derivations, found.tensor_values, fuse)
        operator = _derive(operation, origin)
        if name.endswith("_k"):
            _inner(operator)
        else:
            _ = _public(operator) if found.derivations else _out(operator)
    raise AttributeError(name)  # Torch's own look-up follows.


vars(torch.ops.kernelcore)["__getattr__"] = define_missing


def _define(operator: TorchOperator, qualname: str) -> OpOverload:
    """Register ``operator`` as ``qualname``, with what every operator has."""
    namespace, name = qualname.split("::")
    library, operands = _library(namespace), operator.operation.operands
    # Before it is defined: torch looks the name up then, and it must not be missing.
    _defined.add(qualname)
    try:
        library.define(name + _schema(operator.operation, operator.tensor_values), tags=_TAGS)
    except RuntimeError as error:
        _defined.discard(qualname)
        if "this PyTorch build only supports" not in str(error):
            raise
        raise KernelError(
            f"torch defines no operator '{name}' of {len(operands)} operands: {error}",
            remedy="pass what belongs together as one array or one vector",
        ) from None
    torch.library.register_fake(qualname, operator.fake, lib=library)
    has_tensors = not all(o.is_number(operator.tensor_values) for o in operands)
    # Without tensor operands torch has no device to dispatch on.
    keys = ["CPU"] if has_tensors else ["CompositeExplicitAutograd"]
    if has_tensors and torch.backends.cuda.is_built():
        keys.append("CUDA")
    native.implement(operator.native, namespace, name, keys)
    found = getattr(getattr(torch.ops, namespace), name).default
    sharding.add_rule(found, operator, library)
    fusion.add_rule(qualname, operator.operation, operator.origin.fuse, library)
    return found


def _library(namespace: str) -> torch.library.Library:
    if namespace not in _libraries:
        _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
    return _libraries[namespace]


def _inner(operator: TorchOperator) -> OpOverload:
    name = operator.inner_qualname
    with _lock:
        if name not in _overloads:
            _overloads[name] = _define(operator, name)
        return _overloads[name]


def _public(operator: TorchOperator) -> OpOverload:
    qualname = operator.qualname
    namespace, name = qualname.split("::")
    with _lock:
        if qualname in _overloads:
            return _overloads[qualname]
        # Programs that torch stores name the inner operator too, and may be loaded without Python.
        _inner(operator)
        found = _define(operator, qualname)
        library = _library(namespace)
        library.impl(name, autograd_kernel(operator), "Autograd", with_keyset=True)
        for key in autocast.DISPATCH_KEYS:
            library.impl(name, autocast_kernel(operator, key), key, with_keyset=True)
        library.impl(name, batch_kernel(operator, found), "FuncTorchBatched", with_keyset=True)
        _overloads[qualname] = found
    return found


def _out(operator: TorchOperator) -> OutOverload:
    with _lock:
        if operator.qualname not in _outs:
            _public(operator)
            params = _parameters(operator.operation, operator.tensor_values)
            library = _library(operator.qualname.split("::")[0])
            _outs[operator.qualname] = OutOverload(operator, library, params, _TAGS)
        return _outs[operator.qualname]


_REGISTRARS = Registrars(_derive, _public, _inner, _out, make_functions)


def _parameters(operation: Operation, tensor_values: bool) -> list[tuple[str, str]]:
    """Type and name of each operand in torch's schema language; names are made unique."""
    params: list[tuple[str, str]] = []
    seen = {"NoneType"}  # A keyword of schemas that Python allows as a name.
    for operand, name in zip(operation.operands, operation.argument_names, strict=True):
        name = ascii_name(name)
        while name in seen:
            name += "_"
        seen.add(name)
        kind = "Tensor"
        if operand.is_number(tensor_values):
            assert isinstance(operand.type, Scalar)
            kind = _NUMBERS[operand.type.kind]
        params.append((kind, name))
    return params


def _schema(operation: Operation, tensor_values: bool) -> str:
    """Parameters and results in torch's schema language."""
    params = [f"{kind} {name}" for kind, name in _parameters(operation, tensor_values)]
    tensors = ", ".join(["Tensor"] * operation.visible)
    returned = tensors if operation.visible == 1 else f"({tensors})"
    return f"({', '.join(params)}) -> {returned}"
