"""Torch operators: the boxed kernel below the dispatcher, and the fast entry above it."""

from __future__ import annotations

import gc
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from kernelcore import _native
from kernelcore.base.errors import (
    KernelArgumentError,
    KernelCompileError,
)
from tests.native import kernels
from tests.native.kernels import FLOAT32, INT64

NAMESPACE = "kernelcore_native_test"
LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
VECTOR = (True, FLOAT32, 1)
LIKE_FIRST = [(0, 0, 0)]


@pytest.fixture(autouse=True)
def _torch_hooks() -> None:
    """Set per test: the hooks are global, and the torch adapter sets its own."""
    _native.torch_bind(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    _native.torch_init(torch.Tensor, torch.nn.Parameter)


# The CPU key is chosen by tensor arguments; operators without any need one for all backends.
ANY_BACKEND = "CompositeExplicitAutograd"


def define(schema: str, operation: _native.Operation, key: str = "CPU") -> Any:
    """The operator of ``schema``, run by ``operation``."""
    name = schema.split("(")[0]
    function, context = _native.torch_boxed(operation)
    text = f"""
define void @thunk_{name}(ptr %stack, i64 %inputs, i64 %outputs) {{
  tail call void inttoptr (i64 {function} to ptr)(
    ptr %stack, i64 %inputs, i64 %outputs, ptr inttoptr (i64 {context} to ptr))
  ret void
}}"""
    LIBRARY.define(schema)
    _native.torch_impl(NAMESPACE, name, key, kernels.jit(text, f"thunk_{name}"))
    return getattr(getattr(torch.ops, NAMESPACE), name).default


@cache
def axpy_operation() -> _native.Operation:
    signature = kernels.axpy().signature(wheres=["", "", "  at y", ""])
    operands = [VECTOR, (False, FLOAT32, 0), VECTOR]
    return _native.Operation(signature, operands, [(FLOAT32, LIKE_FIRST)], 1, LIKE_FIRST)


@cache
def axpy() -> Any:
    return define("axpy(Tensor x, float a, Tensor y) -> Tensor", axpy_operation())


def vectors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(8.0), torch.ones(8)


class Calls:
    """Fallbacks of a fast entry that record how they are reached."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def slow(self, *args: Any, **kwargs: Any) -> Any:
        self.taken.append("slow")
        return axpy()(*args, **kwargs)

    def differentiated(self, *args: Any) -> Any:
        self.taken.append("grad")
        return axpy()(*args)

    def entry(self) -> Any:
        return _native.torch_fast_entry(axpy_operation(), "axpy", self.differentiated, self.slow)


def test_the_boxed_kernel_runs_strided_tensors() -> None:
    x, y = vectors()
    torch.testing.assert_close(axpy()(x, 2.0, y), 2 * x + y)
    torch.testing.assert_close(axpy()(x.flip(0)[::2], 2, y[1::2]), 2 * x.flip(0)[::2] + 1)
    assert axpy()(x[:0], 2.0, y[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (torch.ones(8, dtype=torch.float64), "found float64 with 1 dimension"),
        (torch.ones(2, 4), "found float32 with 2 dimensions"),
        (torch.ones(8, dtype=torch.uint8), "found uint8 with 1 dimension"),
        (torch.ones(8, dtype=torch.complex64), "found another dtype with 1 dimension"),
    ],
)
def test_the_boxed_kernel_refuses_unfit_tensors(wrong: torch.Tensor, found: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        axpy()(torch.ones(8), 2.0, wrong)
    expected = "axpy(): argument 'y': expected array of float32 with 1 dimension, "
    assert str(caught.value).startswith(expected + found + "\n  at y")


def test_tensors_that_are_not_aligned_to_their_elements_are_refused() -> None:
    x = torch.frombuffer(bytearray(33), dtype=torch.float32, offset=1)
    text = "aligned to its elements, found a Tensor at other addresses"
    with pytest.raises(RuntimeError, match=text):
        axpy()(torch.ones(8), 2.0, x)
    with pytest.raises(KernelArgumentError, match=text):
        Calls().entry()(torch.ones(8), 2.0, x)


def test_what_is_no_array_is_refused_where_the_kernel_needs_its_shape_alone() -> None:
    signature = kernels.axpy().signature()
    operands = [VECTOR, (False, FLOAT32, 0), VECTOR, VECTOR]
    operation = _native.Operation(signature, operands, [(FLOAT32, LIKE_FIRST)], 1, LIKE_FIRST)
    x, y = vectors()
    with pytest.raises(KernelArgumentError, match="expected an array, found str"):
        operation.run([x, 2.0, y, "x"], [torch.empty(8)])


def test_the_boxed_kernel_refuses_extents_that_32_bits_cannot_index() -> None:
    long = torch.zeros(1).expand(2**31)
    with pytest.raises(
        RuntimeError, match=r"'y': expected extents below 2\*\*31, found 2147483648"
    ):
        axpy()(torch.ones(8), 2.0, long)


def test_values_may_be_tensors_without_dimensions() -> None:
    operands = [VECTOR, (True, FLOAT32, 0), VECTOR]
    operation = _native.Operation(
        kernels.axpy().signature(), operands, [(FLOAT32, LIKE_FIRST)], 1, LIKE_FIRST
    )
    op = define("axpy_tensor(Tensor x, Tensor a, Tensor y) -> Tensor", operation)
    x, y = vectors()
    torch.testing.assert_close(op(x, torch.tensor(3.0), y), 3 * x + y)
    fast = _native.torch_fast_entry(operation, "f", None, op)
    torch.testing.assert_close(fast(x, torch.tensor(3.0), y), 3 * x + y)


@pytest.mark.parametrize(
    ("dtype", "schema", "values"),
    [
        (kernels.BOOL, "bool", [True, False]),
        (kernels.INT32, "int", [-5, 2**31 - 1]),
        (kernels.INT64, "int", [-(2**63), 7]),
        (kernels.FLOAT32, "float", [0.5, -1]),
        (kernels.FLOAT64, "float", [0.1]),
    ],
)
def test_scalars_arrive_in_their_dtype(dtype: int, schema: str, values: list[Any]) -> None:
    operation = _native.Operation(
        kernels.store_value(dtype).signature(grid_rank=0), [(False, dtype, 0)], [(dtype, [])], 1, []
    )
    op = define(f"store_{dtype}({schema} value) -> Tensor", operation, ANY_BACKEND)
    for function in (op, _native.torch_fast_entry(operation, "store", None, op)):
        assert [function(v).item() for v in values] == values


def test_int32_scalars_are_range_checked() -> None:
    operation = _native.Operation(
        kernels.store_value(kernels.INT32).signature(grid_rank=0),
        [(False, kernels.INT32, 0)],
        [(kernels.INT32, [])],
        1,
        [],
    )
    op = define("store_checked(int value) -> Tensor", operation, ANY_BACKEND)
    with pytest.raises(RuntimeError, match="out of its range"):
        op(2**31)


@pytest.mark.parametrize("role", [kernels.INOUT, kernels.SCRATCH])
def test_operands_that_the_kernel_writes_are_copied(role: int) -> None:
    visible = int(role == kernels.INOUT)
    operation = _native.Operation(
        kernels.increment(INT64, role).signature(),
        [(True, INT64, 1)],
        [(INT64, LIKE_FIRST)],
        visible,
        LIKE_FIRST,
    )
    returned = "Tensor" if visible else "()"
    op = define(f"increment_{role}(Tensor x) -> {returned}", operation)
    x = torch.arange(10)[::2]
    for function in (op, _native.torch_fast_entry(operation, "f", None, op)):
        out = function(x)
        assert x.tolist() == [0, 2, 4, 6, 8]
        if visible:
            assert out.tolist() == [1, 3, 5, 7, 9]


def test_accumulated_results_start_at_zero() -> None:
    operation = _native.Operation(
        kernels.accumulate().signature(), [VECTOR], [(FLOAT32, [])], 1, LIKE_FIRST
    )
    op = define("accumulate(Tensor x) -> Tensor", operation)
    for function in (op, _native.torch_fast_entry(operation, "f", None, op)):
        assert function(torch.ones(1000)).item() == 1000


def test_the_fast_entry_runs_plain_calls_itself() -> None:
    calls = Calls()
    fast = calls.entry()
    x, y = vectors()
    torch.testing.assert_close(fast(x, 2.0, y), 2 * x + y)
    torch.testing.assert_close(fast(torch.nn.Parameter(x, False), 2, y[::1]), 2 * x + y)
    with torch.device("meta"), torch.device("cpu"):
        torch.testing.assert_close(fast(x, 2.0, y), 2 * x + y)
    with torch.no_grad():
        fast(x.requires_grad_(), 2.0, y)
    assert calls.taken == []
    assert fast.__name__ == "axpy"


def test_the_fast_entry_leaves_derivatives_to_autograd() -> None:
    calls = Calls()
    x, y = vectors()
    calls.entry()(x, 2.0, y.requires_grad_())
    assert calls.taken == ["grad"]


class PassThrough(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Watch(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Subclass(torch.Tensor):
    pass


def test_the_fast_entry_leaves_unusual_calls_to_the_operator() -> None:
    calls = Calls()
    fast = calls.entry()
    x, y = vectors()
    with torch.autocast("cpu"), pytest.raises(RuntimeError):
        fast(x, 2.0, y.bfloat16())
    with PassThrough():
        fast(x, 2.0, y)
    with Watch(), torch.device("cpu"):
        fast(x, 2.0, y)
    with forward_ad.dual_level():
        fast(x, 2.0, y)
    fast(x=x, a=2.0, y=y)
    fast(x.as_subclass(Subclass), 2.0, y)
    pending = torch.zeros(8, dtype=torch.cfloat).conj().imag
    fast(pending, 2.0, y)
    assert calls.taken == ["slow"] * 7
    with pytest.raises(RuntimeError):
        fast(torch.empty(8, device="meta"), 2.0, y)
    with pytest.raises(RuntimeError):
        fast(x, 2.0)
    assert calls.taken == ["slow"] * 9


def test_the_fast_entry_names_the_argument_that_does_not_fit() -> None:
    x, y = vectors()
    with pytest.raises(KernelArgumentError, match="argument 'y': expected array of float32"):
        Calls().entry()(x, 2.0, y.double())


def test_a_fast_entry_is_collected_with_its_fallbacks() -> None:
    calls = Calls()
    calls.entry_kept = calls.entry()  # type: ignore[attr-defined]
    gone = weakref.ref(calls)
    del calls
    gc.collect()
    assert gone() is None


class Plans:
    """What a forward and its plans call, and where they are kept."""

    def __init__(self) -> None:
        self.forward = _native.torch_forward(axpy_operation(), "axpy", self.plan)
        calls = self.adjoint, self.stand_in, self.pull
        self.made = _native.TorchGradPlan((), [0], [], None, *calls)

    def plan(self, needed: tuple[bool, ...]) -> Any:
        return self.made

    def adjoint(self, given: int) -> None:
        return None

    def stand_in(self, operand: int, shape: Any, like: Any) -> None:
        return None

    def pull(self, *args: Any) -> tuple[()]:
        return ()


def test_a_forward_and_its_plans_are_collected() -> None:
    plans = Plans()
    with pytest.raises(KernelCompileError, match="past its entry"):
        plans.forward(torch.ones(3), 2.0)
    gone = weakref.ref(plans)
    del plans
    gc.collect()
    assert gone() is None


def test_adjoints_have_a_result_per_operand_that_they_name() -> None:
    with pytest.raises(KernelCompileError, match="results of an adjoint"):
        _native.TorchAdjoint(axpy_operation(), [0, 1], [])
    with pytest.raises(KernelCompileError, match="results of an adjoint"):
        _native.TorchAdjoint(axpy_operation(), [0], [(0, [0]), (0, [0])])


def test_malformed_operations_are_refused() -> None:
    signature = kernels.axpy().signature()
    operands = [VECTOR, (False, FLOAT32, 0), VECTOR]
    with pytest.raises(KernelCompileError, match="operand index"):
        _native.Operation(signature, operands[:2], [(FLOAT32, LIKE_FIRST)], 1, LIKE_FIRST)
    with pytest.raises(KernelCompileError, match="dimension rule"):
        _native.Operation(signature, operands, [(FLOAT32, [(0, 1, 0)])], 1, LIKE_FIRST)
    with pytest.raises(KernelCompileError, match="grid rank"):
        _native.Operation(signature, operands, [(FLOAT32, LIKE_FIRST)], 1, [])
    with pytest.raises(KernelCompileError, match="result type"):
        _native.Operation(signature, operands, [(FLOAT32, [])], 1, LIKE_FIRST)
