"""What a Tape keeps of a launch or a copy, and how it runs them backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kernelcore._native import ArrayMemory
from kernelcore.compiled import Adjoint
from kernelcore.data import Array
from kernelcore.element import Numbers, as_numpy
from kernelcore.errors import KernelArgumentError, KernelGradError, SrcLoc
from kernelcore.execute import Dims
from kernelcore.kernel import Kernel
from kernelcore.launch_adjoint import execute_adjoint
from kernelcore.passes.activity import is_float
from kernelcore.recording import as_text, captured, perform, whole_line
from kernelcore.types import ArrayType, Scalar


class Record(Protocol):
    """One thing that happened while a Tape was active."""

    @property
    def site(self) -> SrcLoc | None:
        """Where it happened."""
        ...

    @property
    def label(self) -> str:
        """What happened and where, for messages."""
        ...

    @property
    def inputs(self) -> Sequence[Array]:
        """Arrays whose elements were used."""
        ...

    @property
    def outputs(self) -> Sequence[Array]:
        """Arrays that were written."""
        ...

    def name_of(self, array: Array) -> str:
        """What it calls one of its arrays."""
        ...

    def prepare(self) -> None:
        """Told before it happens."""
        ...

    def finish(self) -> None:
        """Told after it happened."""
        ...

    def backward(self, writers: Writers) -> None:
        """Turn cotangents of what was after it into those of what was before."""
        ...


# Who wrote the memory of an array, by its root: the count of writes after it, and the record.
Writers = Mapping[int, Sequence[tuple[int, Record]]]


@dataclass(frozen=True, eq=False, slots=True)
class CopyRecord:
    """Elements of ``target`` became those of ``source``, or constants."""

    target: Array
    source: Array | None
    site: SrcLoc | None

    @property
    def label(self) -> str:
        return f"the assignment at {as_text(self.site)}"

    @property
    def inputs(self) -> Sequence[Array]:
        return () if self.source is None else (self.source,)

    @property
    def outputs(self) -> Sequence[Array]:
        return (self.target,)

    def name_of(self, array: Array) -> str:
        return "target" if array is self.target else "source"

    def prepare(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def backward(self, writers: Writers) -> None:
        source = None if self.source is None else self.source.grad
        if self.target.grad is not None and source is not None:
            _check_same_scalars(self)
        perform(lambda: self._pull(self.target.grad, source))

    def _pull(self, whole: Array | None, source: Array | None) -> None:
        if whole is None:
            return
        cotangent = np.array(whole.numpy())
        _clear(whole)
        if source is not None:
            _add_to(source, _summed(cotangent, source.numpy().shape))


def _check_same_scalars(record: CopyRecord) -> None:
    assert record.source is not None
    if record.source.element != record.target.element:
        raise KernelGradError(
            f"{record.label} converts {record.source.element} to {record.target.element}, "
            "which has no gradient",
            whole_line(record.site),
            "convert it in a kernel",
        )


def _summed(cotangent: Numbers, shape: tuple[int, ...]) -> Numbers:
    """The cotangent of an array of ``shape``, given that of what it was broadcast to."""
    lead = tuple(range(cotangent.ndim - len(shape)))
    if lead:
        cotangent = cotangent.sum(axis=lead)
    ones = tuple(k for k, n in enumerate(shape) if n == 1 and cotangent.shape[k] != 1)
    return cotangent.sum(axis=ones, keepdims=True) if ones else cotangent


@dataclass(frozen=True, eq=False, slots=True)
class FuncRecord:
    """Something else happened, which ``function`` runs backwards."""

    function: Callable[[], object]
    arrays: tuple[Array, ...]
    site: SrcLoc | None

    @property
    def label(self) -> str:
        return f"the function recorded at {as_text(self.site)}"

    @property
    def inputs(self) -> Sequence[Array]:
        return self.arrays

    @property
    def outputs(self) -> Sequence[Array]:
        return ()

    def name_of(self, array: Array) -> str:
        return "array"

    def prepare(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def backward(self, writers: Writers) -> None:
        self.function()


@dataclass(eq=False, slots=True)
class LaunchRecord:
    """A launch.

    Attributes:
        kernel: The kernel, which is not generic.
        dim: Its grid.
        leaves: Its arguments, by parameter of the IR.
        site: Where it was launched.
        wrt: Parameters whose arrays require gradients.
        adjoint: The adjoint for these, or why there is none; None if nothing needs it.
        saved: What arrays held before the launch that the adjoint needs, by parameter.
        remained: What arrays of atomic minima or maxima held after it, by parameter.
        versions: The count of writes of other arrays that it needs, after the launch.
    """

    kernel: Kernel
    dim: Dims
    leaves: tuple[Any, ...]
    site: SrcLoc | None
    wrt: tuple[int, ...] = ()
    adjoint: Adjoint | KernelGradError | None = None
    saved: dict[int, Numbers] = field(default_factory=dict[int, Numbers])
    remained: dict[int, Numbers] = field(default_factory=dict[int, Numbers])
    versions: dict[int, int] = field(default_factory=dict[int, int])
    inputs: Sequence[Array] = field(init=False)
    outputs: Sequence[Array] = field(init=False)

    def __post_init__(self) -> None:
        does = self.kernel.effects
        self.inputs = [a for i, a in self._arrays() if does[i].loads or self._is_value(i)]
        self.outputs = [a for i, a in self._arrays() if does[i].writes]

    @property
    def label(self) -> str:
        return f"the launch of {self.kernel.name} at {as_text(self.site)}"

    def _arrays(self) -> Iterable[tuple[int, Array]]:
        return ((i, leaf) for i, leaf in enumerate(self.leaves) if isinstance(leaf, Array))

    def _is_value(self, i: int) -> bool:
        return isinstance(self.kernel.func.params[i].type, Scalar)

    def name_of(self, array: Array) -> str:
        params = self.kernel.func.params
        return next(params[i].name for i, leaf in self._arrays() if leaf is array)

    def prepare(self) -> None:
        """Before the launch: find out what the backward pass needs, and keep what will be gone."""
        written = [effect.writes for effect in self.kernel.effects]
        for i, leaf in enumerate(self.leaves):
            if is_float(self.kernel.func.params[i]) and is_tracked(leaf):
                self._check_value(i)
                self.wrt += (i,)
            if self._is_value(i) and not isinstance(leaf, bool | int | float | np.generic):
                # The array that stands for it may have another value by then.
                self.saved[i] = np.array(as_numpy(leaf))
        if not any(written[i] for i in self.wrt):
            return
        try:
            self.adjoint = self.kernel.adjoint(self.wrt, ())
        except KernelGradError as error:
            self.adjoint = error
            return
        for i in self.adjoint.reads | self.adjoint.writes | set(self.adjoint.extrema):
            loads = self.kernel.effects[i].loads
            # Other libraries' arrays have no count of writes.
            if (loads and written[i]) or not (written[i] or isinstance(self.leaves[i], Array)):
                self.saved[i] = np.array(as_numpy(self.leaves[i]))

    def _check_value(self, i: int) -> None:
        """Refuse an array with a gradient for a value of another type, which is converted."""
        param, element = self.kernel.func.params[i], self.leaves[i].element
        if self._is_value(i) and element != param.type:
            raise KernelArgumentError(
                f"{self.kernel.name}(): argument '{param.name}': expected a {param.type} value, "
                f"found an array of {element} with a gradient",
                self.kernel.func.param_loc(i),
                f"make it with kc.array(..., dtype=kc.{param.type}, requires_grad=True)",
            )

    def finish(self) -> None:
        """After the launch: note how often what the backward pass needs was written."""
        if not isinstance(self.adjoint, Adjoint):
            return
        for i in self.adjoint.extrema:
            self.remained[i] = np.array(as_numpy(self.leaves[i]))
        for i in self.adjoint.reads - self.saved.keys():
            leaf = self.leaves[i]
            if isinstance(leaf, Array):
                self.versions[i] = leaf.version
            else:
                self.saved[i] = np.array(as_numpy(leaf))

    def backward(self, writers: Writers) -> None:
        if self.adjoint is None:
            return
        if isinstance(self.adjoint, KernelGradError):
            error = self.adjoint
            raise KernelGradError(f"{self.label}: {error.message}", error.loc, error.remedy)
        self._check_versions(writers)
        cotangents, extra = self._cotangents(self.adjoint)
        try:
            execute_adjoint(
                self.kernel,
                self.adjoint,
                self.dim,
                self.leaves,
                cotangents,
                self._values(self.adjoint),
                self.remained,
            )
        except KernelArgumentError as error:
            message = f"{self.label}, backwards: {error.message}"
            raise KernelGradError(message, error.loc, error.remedy) from None
        for i, part in extra.items():
            add_to(self.leaves[i].grad, part)

    def _check_versions(self, writers: Writers) -> None:
        for i, version in self.versions.items():
            array = self.leaves[i]
            if array.version == version:
                continue
            later = [r.label for count, r in writers.get(id(array.root), ()) if count > version]
            culprit = later[0] if later else "an assignment or a launch that was not recorded"
            raise KernelGradError(
                f"{self.label} needs '{self.kernel.func.params[i].name}' as it was then, but "
                f"{culprit} has written to it since",
                whole_line(self.site),
                "write to another array there, or record with kc.Tape(keep_overwritten=True), "
                "which copies what is about to be overwritten",
            )

    def _cotangents(self, adjoint: Adjoint) -> tuple[dict[int, Any], dict[int, Numbers]]:
        """An array per cotangent parameter, and those among them to be added afterwards.

        An array that was passed for several parameters collects its cotangents one by one.
        """
        found: dict[int, Any] = {}
        extra: dict[int, Numbers] = {}
        taken: list[tuple[int, int]] = []
        needed = list(adjoint.cotangents())
        # What was written goes first: its cotangents are read and cleared in place.
        for i in sorted(needed, key=lambda i: not self.kernel.effects[i].writes):
            leaf, param = self.leaves[i], self.kernel.func.params[i]
            if i not in self.wrt:
                assert isinstance(param.type, ArrayType)
                found[i] = _zeros(np.shape(as_numpy(leaf)), param.type.dtype.numpy)
                continue
            grad = leaf.grad
            begin, end = grad.bounds
            is_shared = any(begin < high and low < end for low, high in taken)
            if is_shared and not self.kernel.effects[i].writes:
                known = grad.numpy()
                extra[i] = found[i] = _zeros(known.shape, known.dtype)
            else:
                found[i] = grad
                taken.append((begin, end))
        return found, extra

    def _first_saved(self) -> str:
        return self.kernel.func.params[min(self.saved)].name

    def _values(self, adjoint: Adjoint) -> dict[int, Any]:
        """What is saved; copies where the adjoint writes, so that it can run again."""
        if self.saved and captured.get() is not None:
            raise KernelGradError(
                f"{self.label} needs a copy of what '{self._first_saved()}' held before it, which "
                "a replay of the captured backward pass would not have",
                whole_line(self.site),
                "run this Tape outside of the capture, or write to another array in that kernel",
            )
        return {
            i: np.array(array) if i in adjoint.writes else array for i, array in self.saved.items()
        }


def _zeros(shape: tuple[int, ...], dtype: Any) -> Numbers:
    """A new array of zeros, in every replay if this is captured."""
    found = np.zeros(shape, dtype)
    program = captured.get()
    if program is not None:
        program.add(lambda: found.fill(0))
    return found


def is_tracked(leaf: Any) -> bool:
    """Whether ``leaf`` is an array that requires a gradient.

    Raises:
        KernelArgumentError: It is a tensor of torch that does.
    """
    if isinstance(leaf, Array):
        return leaf.requires_grad
    if not getattr(leaf, "requires_grad", False):
        return False
    raise KernelArgumentError(
        f"a Tape computes no gradients of a {type(leaf).__name__} of another library",
        remedy="make an operator of the kernel with torch_op, or pass tensor.detach()",
    )


def clear(array: Array) -> None:
    """Zero ``array``; no Tape records it."""
    perform(lambda: _clear(array))


def _clear(array: Array) -> None:
    if ArrayMemory.clear(array):
        return
    array.numpy()[...] = np.zeros((), array.numpy().dtype)
    array.mark_write()


def add_to(array: Array, term: Any) -> None:
    """Add ``term``, an array of the same layout, to ``array``; no Tape records it."""
    perform(lambda: _add_to(array, term))


def _add_to(array: Array, term: Any) -> None:
    _add(array.numpy(), np.asarray(term))
    array.mark_write()


def _add(total: Numbers, term: Numbers) -> None:
    if total.dtype.names is None:
        if total.dtype.kind not in "biu":
            total += term
        return
    for name in total.dtype.names:
        _add(total[name], term[name])
