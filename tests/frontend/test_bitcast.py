"""``bitcast``: bits as a value of another type, in kernels, on the host and in derivatives."""

# Annotations of kernels are values here, as they name a type that a test was given.
# pyright: reportInvalidTypeForm=false

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.language.types import FLOATS, INTEGERS, Scalar, unsigned
from tests.helpers.kernel_harness import agree

THREADS = 37  # gangs and a tail


def any_bits(dtype: Scalar, count: int = THREADS) -> Any:
    """Random bits as numbers of ``dtype``, zeros of both signs, infinities and NaN among them."""
    words = np.random.default_rng(dtype.bits).integers(0, 256, (count, dtype.size_bytes), np.uint8)
    found = words.view(dtype.numpy).ravel()
    if dtype.is_float:
        found[:6] = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], dtype.numpy)
    return found


def signalling(dtype: Scalar) -> Any:
    """NaN of many bits, quiet ones and others."""
    words = any_bits(unsigned(dtype.bits)) | unsigned(dtype.bits).numpy.type(1)
    return (words | np.array(np.inf, dtype.numpy).view(words.dtype)).view(dtype.numpy)


PAIRS = [
    (source, target)
    for source in (*INTEGERS, *FLOATS)
    for target in (*INTEGERS, *FLOATS)
    if source.bits == target.bits and source != target
]


def seen_as(source: Scalar, target: Scalar) -> kc.Kernel:
    def kernel(x: kc.array(dtype=source), out: kc.array(dtype=target)):
        i = kc.tid()
        out[i] = kc.bitcast(x[i], target)

    return kc.kernel(kernel)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda t: str(t))
@pytest.mark.parametrize("lanes", [None, 8])
def test_bits_are_those_of_numpys_view(source: Scalar, target: Scalar, lanes: int | None) -> None:
    # bfloat16 is made of a NaN by NumPy with other bits.
    x = np.where(np.isnan(any_bits(source)), source.numpy.type(1), any_bits(source))
    out = np.zeros(THREADS, target.numpy)
    found = agree(seen_as(source, target).func, [x, out], THREADS, lanes=lanes)[-1]
    assert found.tobytes() == x.view(target.numpy).tobytes()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("threads", [1, THREADS])
def test_nan_keeps_its_bits_there_and_back(dtype: Scalar, threads: int) -> None:
    word = unsigned(dtype.bits)

    @kc.kernel
    def there(x: kc.array(dtype=dtype), out: kc.array(dtype=word)):
        out[kc.tid()] = kc.bitcast(x[kc.tid()], word)

    @kc.kernel
    def back(x: kc.array(dtype=word), out: kc.array(dtype=dtype)):
        out[kc.tid()] = kc.bitcast(x[kc.tid()], dtype)

    x = signalling(dtype)[:threads]
    words, again = np.zeros(threads, word.numpy), np.zeros(threads, dtype.numpy)
    kc.launch(there, threads, [x, words])
    kc.launch(back, threads, [words, again])
    assert words.tobytes() == again.tobytes() == x.tobytes()


def test_literals_fold_to_their_bits_and_nan_does_not() -> None:
    @kc.kernel
    def kernel(out: kc.array(dtype=kc.uint32), wide: kc.array(dtype=kc.uint64)):
        out[0] = kc.bitcast(1.5, kc.uint32)
        out[1] = kc.bitcast(-0.0, kc.uint32)
        out[2] = kc.bitcast(kc.bitcast(0xFFC12345, float), kc.uint32)
        out[3] = kc.bitcast(kc.bitcast(0x7F812345, float), kc.uint32)
        out[4] = kc.bitcast(-1, kc.uint32)
        wide[0] = kc.bitcast(1.5, dtype=kc.uint64)

    out, wide = np.zeros(5, np.uint32), np.zeros(1, np.uint64)
    kc.launch(kernel, 1, [out, wide])
    assert out.tolist() == [0x3FC00000, 0x80000000, 0xFFC12345, 0x7F812345, 0xFFFFFFFF]
    assert wide.tolist() == np.array([1.5]).view(np.uint64).tolist()


@kc.struct
class Packed:
    half: kc.float16
    count: kc.int16
    flags: kc.vector(4, kc.uint8)


@kc.struct
class Holed:
    small: kc.int8
    large: kc.int32


@kc.struct
class Listed:
    values: kc.array(dtype=float)


vec2h, vec4ub, vec8ub = (kc.vector(2, kc.float16), kc.vector(4, kc.uint8), kc.vector(8, kc.uint8))


@kc.kernel
def regrouped(x: kc.array(dtype=Packed), out: kc.array(dtype=vec8ub), sums: kc.array2d[kc.uint64]):
    i = kc.tid()
    word = kc.bitcast(x[i], kc.uint64)
    pair = kc.bitcast(word, kc.vec2i)
    again = kc.bitcast(kc.bitcast(pair, vec8ub), Packed)
    out[i] = kc.bitcast(kc.bitcast(again, kc.vec4h), vec8ub)
    sums[i, 0] = word
    sums[i, 1] = kc.bitcast(kc.vec2(1.0, -0.0), kc.uint64)


def packed() -> Any:
    layout: Any = Packed
    data: Any = np.zeros(THREADS, layout.numpy_dtype())
    data["half"] = np.linspace(-3, 3, THREADS)
    data["count"] = np.arange(THREADS) - 9
    data["flags"] = np.arange(4 * THREADS).reshape(-1, 4)
    return data


@pytest.mark.parametrize("in_python", [False, True])
def test_members_are_packed_as_in_memory(in_python: bool) -> None:
    x = packed()
    out, sums = np.zeros((THREADS, 8), np.uint8), np.zeros((THREADS, 2), np.uint64)
    if in_python:
        with kc.python_mode():
            kc.launch(regrouped, THREADS, [x, out, sums])
    else:
        kc.launch(regrouped, THREADS, [x, out, sums])
    assert out.tobytes() == x.tobytes()
    assert sums[:, 0].tobytes() == x.tobytes()
    assert sums[0, 1] == np.array([1, -0.0], np.float32).view(np.uint64)[0]


def test_the_host_has_the_same_meaning() -> None:
    assert kc.bitcast(1.0, int) == 0x3F800000
    assert kc.bitcast(np.float64(-0.0), kc.int64) == -(2**63)
    assert kc.bitcast(vec2h(1.0, 2.0), kc.uint32) == 0x40003C00
    assert kc.bitcast(kc.mat22(1, 2, 3, 4), kc.vec4) == kc.vec4(1, 2, 3, 4)
    assert kc.bitcast(np.arange(3.0), kc.int64).tolist() == np.arange(3.0).view(int).tolist()
    one = Packed(half=2.0, count=4096, flags=[1, 2, 3, 4])
    assert kc.bitcast(kc.bitcast(one, kc.uint64), Packed) == one


def test_the_derivative_is_that_of_a_conversion_to_an_integer() -> None:
    @kc.kernel
    def kernel(x: kc.array[float], y: kc.array[float]):
        i = kc.tid()
        y[i] = kc.bitcast(kc.bitcast(x[i], int) ^ 0, float) * x[i]

    x = kc.array(np.array([2.0, 3.0], np.float32), requires_grad=True)
    y = kc.zeros(2, dtype=float, requires_grad=True)
    with kc.Tape() as tape:
        kc.launch(kernel, 2, [x], [y])
    tape.backward(grads={y: kc.ones(2, dtype=float)})
    assert y.numpy().tolist() == [4.0, 9.0]
    gradient: Any = x.grad
    assert gradient.numpy().tolist() == [2.0, 3.0]


REFUSED = {
    "kc.bitcast(1.0, kc.uint16)": "the literal 1.0 has no type of 16 bits",
    "kc.bitcast(x[0], kc.float64)": "from float32 of 32 bits to float64 of 64 bits",
    "kc.bitcast(x[0], kc.vec2)": "from float32 of 32 bits to vec2 of 64 bits",
    "kc.bitcast(x[0] > 0.0, kc.uint8)": "a bool has no bits of its own",
    "kc.bitcast(kc.int8(1), bool)": "a bool has no bits of its own",
    "kc.bitcast(Holed(), kc.uint64)": "has bytes between its fields",
    "kc.bitcast(Listed(), kc.uint64)": "struct Listed holds arrays",
    "kc.bitcast(x, kc.uint32)": "expected a scalar, found an array",
    "kc.bitcast(x[0], 3)": "takes a type as dtype, found int literal 3",
    "kc.bitcast(x[0])": "takes 2 arguments, found 1",
    "kc.bitcast(x[0], kc.uint32, 1)": "takes 2 arguments, found 3",
    "kc.bitcast(x[0], type=kc.uint32)": "does not take type=",
    "kc.bitcast(x[0], kc.types.AnyFloat)": "takes a type as dtype",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_meaning_is_refused(text: str) -> None:
    source = f"def kernel(x: kc.array(dtype=float)):\n    y = {text}\n"
    names: dict[str, Any] = {"kc": kc, "Holed": Holed, "Listed": Listed}
    refused = kc.kernel(source=source, globals=names)
    with pytest.raises(kc.KernelTypeError, match=REFUSED[text]) as caught:
        _ = refused.func
    assert caught.value.loc is not None
    assert caught.value.remedy
    if "x" not in text:
        with pytest.raises(kc.KernelTypeError, match=REFUSED[text]):
            eval(text, names)
