"""What a kernel becomes
=====================

Every stage of one kernel: source, IR, adjoint IR, LLVM IR, assembly."""

import kernelcore as kc


@kc.kernel
def normalize_rows(x: kc.array2d[float], eps: float, y: kc.array2d[float]):
    i = kc.tid()
    total = eps
    for j in range(x.shape[1]):
        total += x[i, j] * x[i, j]
    scale = kc.rsqrt(total)
    for j in range(x.shape[1]):
        y[i, j] = x[i, j] * scale


TITLES = {
    "source": "Source: the kernel language is a subset of Python",
    "ir": "IR: structured SSA; loops carry values as region parameters",
    "vjp": "Adjoint IR: the primal, recording what it must, then its equations backwards",
    "llvm": "LLVM IR: one function over a range of the launch grid",
    "asm": "Assembly for this machine",
}

if __name__ == "__main__":
    for stage, title in TITLES.items():
        print(f"{title}\n{'=' * len(title)}\n{normalize_rows.inspect(stage)}\n")
