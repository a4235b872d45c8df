"""What subnormal numbers cost a softmax over rows, kept and flushed, on one thread."""

import numpy as np

import kernelcore as kc
from tests.bench.framework_kernels import softmax
from tests.bench.results import Goal, show
from tests.bench.timing import Contender, timed

ROWS, COLUMNS = 1024, 512
# Of the weights of a row.
SUBNORMAL = 0.03
# The exponential of it is subnormal.
FAR = -95.0
MOST = 1.1


def rows(part: float) -> np.ndarray:
    """Rows of which a part has subnormal weights."""
    generator = np.random.default_rng(0)
    x = generator.uniform(-3, 3, (ROWS, COLUMNS)).astype(np.float32)
    return np.where(generator.random(x.shape) < part, np.float32(FAR), x)


def main() -> None:
    kc.set_num_threads(1)
    runs: dict[str, Contender] = {}
    y = np.zeros((ROWS, COLUMNS), np.float32)
    for mode, flushes in (("kept", False), ("flushed", True)):
        kernel = kc.kernel(flush_denormals=flushes)(softmax(kc, kc.float32).pyfunc)
        for what, part in (("normal", 0.0), ("subnormal", SUBNORMAL)):
            x = rows(part)
            run = Contender(lambda k=kernel, x=x: kc.launch(k, ROWS, [x], [y]))
            run.run()
            assert np.allclose(y.sum(1), 1, atol=1e-5)
            runs[f"kernelcore, {what}, {mode}"] = run
    found = timed(runs)
    ours, normal = (found[f"kernelcore, {what}, flushed"] for what in ("subnormal", "normal"))
    ratio = ours.median / normal.median
    goal = Goal("3 % of subnormal weights, flushed, beside none", ratio, "times", MOST)
    show("softmax over rows, weights", found, "kernelcore, normal, kept", [goal])


if __name__ == "__main__":
    main()
