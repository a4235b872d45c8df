"""kc.op: a kernel, or a function of several, as one operator for arrays of every framework."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from inspect import Parameter as SignatureParameter
from inspect import Signature
from typing import Any
from weakref import WeakValueDictionary

from kernelcore.base.errors import KernelArgumentError
from kernelcore.base.keywords import checked_keywords
from kernelcore.base.threads import cached_property
from kernelcore.language import pickling
from kernelcore.language.types import ArrayOf
from kernelcore.launch.declare import OfKernel, not_a_kernel
from kernelcore.launch.kernel import Kernel
from kernelcore.operators.forms.base import Form
from kernelcore.operators.forms.cost import Cost
from kernelcore.operators.forms.frameworks import first_framework, framework_of, mixed_frameworks
from kernelcore.operators.forms.kernel import torch_entry
from kernelcore.operators.forms.make import arguments_of, make_form
from kernelcore.operators.forms.static_programs import AsItIs
from kernelcore.operators.forms.stored_programs import let_torch_ask
from kernelcore.operators.fusion import Fuse
from kernelcore.operators.operator_function import NumpyFunction, OperatorFunction
from kernelcore.operators.spec import Declaration, Dims, Names, OutputDims, Spec, parse

FRAMEWORKS = ("torch", "jax", "paddle", "numpy", "kernelcore")


class Op(OfKernel):
    """One operator for arrays of torch, JAX, NumPy, Paddle and kernelcore; ``op`` makes it.

    Two of one kernel with the same options are equal.

    Attributes:
        declared: The kernel, or the Python function that launches kernels.
        spec: Which parameters are results, and their shapes.
    """

    # Read in every call, from slots sooner than from a dict.
    __slots__ = ("__dict__", "__weakref__", "_entries", "_is_capturing", "_place")

    def __init__(self, declared: Kernel | Callable[..., Any], spec: Spec) -> None:
        self.declared = declared
        self.spec = spec
        pyfunc = declared.pyfunc if isinstance(declared, Kernel) else declared
        self.__wrapped__ = pyfunc
        self.__name__ = self.__qualname__ = pyfunc.__name__
        self.__module__ = pyfunc.__module__
        self.__doc__ = pyfunc.__doc__
        # The argument whose type tells the framework; a call with others is looked at closely.
        self._place = 0
        # By the type of that argument: what takes the arguments of a call by position.
        self._entries: dict[type, Callable[..., Any]] = {}
        # By framework, what takes the arguments of any call.
        self._forms: dict[str, Form] = {}
        # Whether torch.compile reads this code, which cannot follow native code.
        self._is_capturing: Callable[[], bool] = _torch_captures
        self._note_torch()
        self._token = str(id(self))
        _ops[self._token] = self
        let_torch_ask()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the operator to arrays of one framework.

        ``launch_dims`` and ``output_dims`` may be given by name, in place of those of ``op``.

        Raises:
            KernelArgumentError: An argument does not fit, or arrays are of two frameworks.
        """
        try:
            place = self._place
            if not kwargs and len(args) > place and not self._is_capturing():
                entry = self._entries.get(type(args[place]))  # pyright: ignore
                if entry is not None:
                    return entry(*args)
            framework = first_framework((*args, *kwargs.values())) or "numpy"
            # What is captured changes no attribute that it has read: torch may read the code again.
            known = () if self._is_capturing() else args[place : place + 1]
            _prepare(self._token, framework, *(a.__class__ for a in known))
            return self._forms[framework].run(args, kwargs)
        except KernelArgumentError:
            self._refuse_mixed(args, kwargs)
            raise

    def __repr__(self) -> str:
        return f"<operator {self.__name__}>"

    @cached_property
    def _identity(self) -> Hashable:
        return self.declared, self.spec.identity

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Op) and self._identity == other._identity)

    def __hash__(self) -> int:
        return hash(self._identity)

    def __copy__(self) -> Op:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Op:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return pickling.reduced(self, self.__wrapped__, lambda: (Op, (self.declared, self.spec)))

    @property
    def kernel(self) -> Kernel:
        """The kernel.

        Raises:
            KernelArgumentError: The operator is one of a function that launches several.
        """
        if isinstance(self.declared, Kernel):
            return self.declared
        raise KernelArgumentError(
            f"{self.__name__}: a function that launches kernels has no kernel of its own",
            remedy="ask for .__wrapped__, the function",
        )

    @property
    def torch(self) -> Callable[..., Any]:
        """The operator for torch tensors, as ``torch_op`` or ``torch_callable`` makes it."""
        return self._bound("torch")

    @property
    def jax(self) -> Callable[..., Any]:
        """The operator for JAX arrays, as ``jax_kernel`` or ``jax_callable`` makes it."""
        return self._bound("jax")

    @property
    def paddle(self) -> Callable[..., Any]:
        """The operator for Paddle tensors, as ``paddle_op`` makes it."""
        return self._bound("paddle")

    @property
    def numpy(self) -> Callable[..., Any]:
        """The operator for NumPy arrays."""
        return self._bound("numpy")

    @property
    def overload(self) -> Any:
        """The registered operator of torch, for ``torch.library.opcheck``."""
        return torch_entry.overload(self.torch)

    def cost(self, *args: Any, **kwargs: Any) -> Cost:
        """What a call with these arguments does, which is not run; from the IR.

        A thread counts with the larger arm of every branch.

        Raises:
            KernelArgumentError: An argument does not fit.

        Example::

            # double is the operator in the example of kc.op
            double.cost(np.ones(3, np.float32))  # 1 launch, 3 flops, loads and stores 12 bytes
        """
        return self._form("cost").run(args, kwargs)

    @property
    def __signature__(self) -> Signature:
        return Signature(
            [
                SignatureParameter(
                    p.name,
                    SignatureParameter.POSITIONAL_OR_KEYWORD,
                    default=self.spec.defaults.get(p.name, SignatureParameter.empty),
                )
                for p in arguments_of(self.declared, self.spec)
            ]
        )

    def _bound(self, framework: str) -> Callable[..., Any]:
        """The form for users; torch.compile follows it."""
        _prepare(self._token, framework)
        return self._forms[framework].bound

    def _form(self, framework: str) -> Form:
        found = self._forms.get(framework)
        if found is None:
            found = self._forms[framework] = make_form(framework, self.declared, self.spec)
            found.remake = partial(self._form, framework)
            if framework == "numpy":
                found.bound = NumpyFunction(self.__wrapped__, found.arguments, found.bound)
            if isinstance(found.bound, OperatorFunction):
                found.bound.remake = partial(getattr, self, framework)
            given = arguments_of(self.declared, self.spec)
            arrays = (k for k, p in enumerate(given) if isinstance(p.wanted, ArrayOf))
            # Of a call by operands, which gives more arguments than there are parameters, the array
            # may be elsewhere: its type is looked up there, and not found if it is another one.
            self._place = next(arrays, 0)
        return found

    def _note_torch(self) -> None:
        """Ask torch whether it captures, if it is imported."""
        compiler = _torch_compiler()
        if compiler is not None:
            # Outside of torch.compile it returns False, and costs a third of `is_compiling`.
            self._is_capturing = compiler.is_dynamo_compiling

    def _remember(self, type_: type, framework: str) -> None:
        """Let calls whose first array is of ``type_`` take the short way."""
        found = self._forms[framework]
        is_plain = type_.__name__ in ("Tensor", "Parameter")
        if framework == "torch":
            self._note_torch()
        self._entries[type_] = (found.quick if is_plain else None) or found.entry

    def _refuse_mixed(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise the error for arrays of two frameworks, if that is what a call gives.

        Raises:
            KernelArgumentError: Naming two arguments.
        """
        names = [p.name for p in arguments_of(self.declared, self.spec)]
        text = mixed_frameworks({**dict(zip(names, args, strict=False)), **kwargs})
        if text is not None:
            loc = self.declared.loc if isinstance(self.declared, Kernel) else None
            raise KernelArgumentError(
                f"{self.__name__}(): {text}", loc, "convert one of them"
            ) from None


# An operator may be called in a program before its first call with tensors imports the adapter.
setattr(Op, AsItIs.ATTRIBUTE, AsItIs())


def _torch_compiler() -> Any | None:
    return getattr(sys.modules.get("torch"), "compiler", None)


def _torch_captures() -> bool:
    """Whether torch captures, for operators that have not seen it: it may be imported meanwhile."""
    compiler = _torch_compiler()
    return compiler is not None and compiler.is_dynamo_compiling()


_ops: WeakValueDictionary[str, Op] = WeakValueDictionary()


def _prepare(token: str, framework: str, first: type | None = None) -> bool:
    """Make the form of an operator for ``framework``; ``first`` may be a type of its arrays."""
    found = _ops[token]
    found._form(framework)  # pyright: ignore[reportPrivateUsage]
    # NumPy arrays may go with those of another framework, which decides then.
    if first is not None and framework_of(first) == framework != "numpy":
        found._remember(first, framework)  # pyright: ignore[reportPrivateUsage]
    return True


def make_forms(framework: str, is_meant: Callable[[str], bool]) -> None:
    """Make the forms for ``framework`` of operators, chosen by name, as their first calls do.

    A program that was stored names what they register.
    """
    for token, found in list(_ops.items()):
        if is_meant(found.__name__):
            _prepare(token, framework)


# torch.compile calls it while it captures, and does not look inside.
_prepare._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


@typing.overload
def op(
    declared: Kernel | Callable[..., Any],
    *,
    outputs: Names = None,
    in_out: Names = (),
    mutates: Names = (),
    launch_dims: Dims = None,
    output_dims: OutputDims = None,
    defaults: Mapping[str, Any] | None = None,
    block_dim: int | None = None,
    fuse: Fuse = "auto",
) -> Op: ...
@typing.overload
def op(
    declared: None = None,
    *,
    outputs: Names = None,
    in_out: Names = (),
    mutates: Names = (),
    launch_dims: Dims = None,
    output_dims: OutputDims = None,
    defaults: Mapping[str, Any] | None = None,
    block_dim: int | None = None,
    fuse: Fuse = "auto",
) -> Callable[[Kernel | Callable[..., Any]], Op]: ...
@checked_keywords
def op(
    declared: Kernel | Callable[..., Any] | None = None,
    *,
    outputs: Names = None,
    in_out: Names = (),
    mutates: Names = (),
    launch_dims: Dims = None,
    output_dims: OutputDims = None,
    defaults: Mapping[str, Any] | None = None,
    block_dim: int | None = None,
    fuse: Fuse = "auto",
) -> Any:
    """Make one operator for torch tensors, JAX, NumPy, Paddle and kernelcore arrays.

    The arrays of a call decide what runs: an operator of torch, a primitive of JAX, an operator of
    Paddle, a function that makes new NumPy arrays, or a launch over kernelcore arrays that an
    active Tape records. It is differentiable, and works under the transforms of the framework. A
    call without any array gives NumPy arrays; ``f.torch``, ``f.jax`` and ``f.paddle`` are the forms
    for one framework. NumPy arrays may go with JAX arrays; other frameworks do not mix.

    ``op`` is also a decorator of a kernel, with or without options.

    Args:
        declared: The kernel; or a Python function that launches kernels, whose parameters are
            annotated as those of kernels.
        outputs: The parameters that are results, and not arguments; one name, or several. They
            start as zeros. Default: the arrays that the kernel writes and never loads, where
            additions to elements are no loads; the last parameter of a function.
        in_out: Parameters that are arguments, and results that start as copies of them.
        mutates: Parameters that a call updates in place, and does not return; not for JAX. They may
            not share elements with each other, which compiled graphs do not check. Of another
            argument that shares elements with them the kernel reads what it held before the call.
        launch_dims: The launch shape of a kernel: a number, the name of an array argument ('x', its
            shape), of an integer argument ('n', its value), an extent ('x.shape[0]'), a tuple of
            these, or a function of the shapes of arguments that its parameters name
            (``lambda x: (2 * x[0],)``). Default: the shape of the first array argument.
        output_dims: The shape of every output in the same notation, or a mapping by name; the
            components of elements may be left out. Default: the launch shape, of outputs that
            threads write at their launch index.
        defaults: Values of parameters that calls may leave out, by name.
        block_dim: Threads per block on GPUs, for JAX and kernelcore arrays. Default: the
            launcher's choice.
        fuse: Whether ``torch.compile`` and ``jax.jit`` compute an elementwise kernel in code of
            their own, together with the operations around it, as they do its derivatives. "auto":
            where that is no slower, by the arithmetic of these programs: XLA contracts products
            and sums, and elementary functions of torch err by at most 5 ulp; True: wherever it can
            be; False: never, so that results have the bits of eager calls, which "auto" does not
            change.

    Returns:
        An operator: a function of the parameters without ``outputs``. It returns one array, or a
        named tuple of several with the names of the parameters, in their order.

    Raises:
        KernelArgumentError: The options do not fit the parameters.

    Example::

        import jax
        import jax.numpy as jnp
        import numpy as np
        import torch

        @kc.op
        @kc.kernel
        def double(x: kc.array[float], y: kc.array[float]):
            i = kc.tid()
            y[i] = 2.0 * x[i]

        double(np.ones(3, np.float32))  # a NumPy array
        double(torch.ones(3))           # a torch tensor
        jax.grad(lambda x: double(x).sum())(jnp.ones(3))
    """
    make = partial(
        _make,
        outputs=outputs,
        in_out=in_out,
        mutates=mutates,
        launch_dims=launch_dims,
        output_dims=output_dims,
        defaults=defaults,
        block_dim=block_dim,
        fuse=fuse,
    )
    return make if declared is None else make(declared)


def _make(declared: Any, **options: Any) -> Op:
    pyfunc = declared.pyfunc if isinstance(declared, Kernel) else declared
    code = getattr(pyfunc, "__code__", None)
    if isinstance(declared, OfKernel):
        raise not_a_kernel(declared)
    if code is None:
        raise KernelArgumentError(
            f"op: expected a kernel or a Python function, found {type(declared).__name__}",
            remedy="decorate the function with @kernelcore.kernel",
        )
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    loc = declared.loc if isinstance(declared, Kernel) else None
    return Op(declared, parse(Declaration(pyfunc.__name__, names, loc), **options))
