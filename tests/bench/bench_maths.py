"""Elementary functions of a million numbers, one thread, against NumPy."""

import statistics
from typing import Any

import numpy as np

import kernelcore as kc
from tests.bench.timing import interleaved, report

SIZE = 1 << 20
DTYPES = {"float32": kc.float32, "float64": kc.float64}
# Names here, and NumPy's.
FUNCTIONS = {
    **{name: name for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p")},
    **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "cbrt")},
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "tanh")},
}


def mapped(name: str, dtype: Any) -> Any:
    """The kernel that maps the built-in ``name``."""
    function = getattr(kc, name)

    @kc.kernel
    def apply(x: kc.array(dtype=dtype), y: kc.array(dtype=dtype)):
        i = kc.tid()
        y[i] = function(x[i])

    return apply


def main() -> None:
    kc.set_num_threads(1)
    ratios: list[float] = []
    for name, peer in FUNCTIONS.items():
        for label, dtype in DTYPES.items():
            x = np.linspace(0.01, 0.99, SIZE).astype(label)
            y, z = np.zeros_like(x), np.zeros_like(x)
            kernel, theirs = mapped(name, dtype), getattr(np, peer)

            def ours(kernel: Any = kernel, x: Any = x, y: Any = y) -> None:
                kc.launch(kernel, SIZE, [x, y])

            def numpy(theirs: Any = theirs, x: Any = x, z: Any = z) -> None:
                theirs(x, out=z)

            medians = interleaved({"kernelcore": ours, "NumPy": numpy})
            np.testing.assert_allclose(y, z, rtol=8 * np.finfo(y.dtype).eps)
            report(f"{name}, {label}", medians, "kernelcore")
            ratios.append(medians["NumPy"] / medians["kernelcore"])
    print(f"\ngeometric mean: {statistics.geometric_mean(ratios):.2f} times as fast as NumPy")


if __name__ == "__main__":
    main()
