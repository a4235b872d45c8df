"""Two source trees side by side: every kernel's time in both, on one thread.

``python -m tests.bench.bench_trees OTHER_TREE [NAME ...]`` prints the ratio of this tree's
processor time to that of OTHER_TREE, for the kernels whose names hold one of these. Both trees
need their native module. The file KC_PATCH, if set, is run in this tree's process before anything
is compiled: it tries a change without a second tree.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median

ROUNDS = 9
SECONDS_PER_SAMPLE = 0.02
HERE = str(Path(__file__).parents[2])


class Tree:
    """A process that times kernels with the sources of one tree."""

    def __init__(self, path: str, patch: str) -> None:
        # An editable installation would find the tree that it is of.
        program = "import sys; is_editable = lambda f: 'editable' in type(f).__module__\n"
        program += "sys.meta_path[:] = [f for f in sys.meta_path if not is_editable(f)]\n"
        program += f"sys.path.insert(0, {path!r}); import kernelcore\n"
        program += f"assert kernelcore.__file__.startswith({path!r}), kernelcore.__file__\n"
        program += f"sys.path.insert(0, {HERE!r})\n"
        program += "from tests.bench.bench_trees import answer; answer()"
        env = {**os.environ, "KC_CACHE": "0", "KC_PATCH": patch}
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", program]
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, env=env, text=True, cwd=path
        )

    def ask(self, line: str) -> str:
        """The answer to ``line``."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line + "\n")
        stdin.flush()
        return stdout.readline().rstrip("\n")


def answer() -> None:
    """Read a kernel's name per line; write the seconds of a launch and of its first launch."""
    import kernelcore as kc
    from tests.bench.tree_kernels import kernels

    if os.environ["KC_PATCH"]:
        exec(Path(os.environ["KC_PATCH"]).read_text(), {})
    kc.set_num_threads(1)
    table, ready = kernels(), dict[str, tuple[Callable[[], object], int, float]]()
    for line in sys.stdin:
        name = line.rstrip("\n")
        if not name:
            print("\t".join(table), flush=True)
            continue
        if name not in ready:
            ready[name] = _prepared(table[name])
        run, count, compiled = ready[name]
        start = time.thread_time()
        for _ in range(count):
            run()
        print((time.thread_time() - start) / count, compiled, flush=True)


def _prepared(make: Callable[[], Callable[[], object]]) -> tuple[Callable[[], object], int, float]:
    """A launch, how many are a sample, and the seconds of the first one."""
    run, start = make(), time.thread_time()
    run()
    compiled, start = time.thread_time() - start, time.perf_counter()
    for _ in range(3):
        run()
    seconds = max((time.perf_counter() - start) / 3, 1e-7)
    return run, max(1, int(SECONDS_PER_SAMPLE / seconds)), compiled


def main() -> None:
    other, *wanted = sys.argv[1:]
    trees = Tree(str(Path(other).resolve()), ""), Tree(HERE, os.environ.get("KC_PATCH", ""))
    ratios: list[float] = []
    for name in trees[0].ask("").split("\t"):
        if wanted and not any(w in name for w in wanted):
            continue
        samples: tuple[list[float], list[float]] = ([], [])
        compiled = [0.0, 0.0]
        for turn in range(ROUNDS):
            for at in (0, 1) if turn % 2 else (1, 0):
                seconds, compiled[at] = map(float, trees[at].ask(name).split())
                samples[at].append(seconds)
        old, new = map(min, samples)
        middle = median(y / x for x, y in zip(*samples, strict=True))
        ratios.append(middle)
        times = f"{1e6 * old:10.1f} {1e6 * new:10.1f} us  median ratio {middle:.3f}"
        first = f"first launch {1e3 * compiled[0]:4.0f} {1e3 * compiled[1]:4.0f} ms"
        print(f"{name:24}{times}  lowest {new / old:.3f}  {first}", flush=True)
    print(f"geometric mean {geometric_mean(ratios):.3f}")


if __name__ == "__main__":
    main()
