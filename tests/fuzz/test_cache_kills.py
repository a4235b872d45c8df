"""Processes that use one disk cache and are killed at random: no wrong result, no entry lost.

A worker launches kernels, some known and some new, of a set that all workers share, and checks
every result. It is killed at a random moment and another takes its place; the cache is small, so
that entries are evicted meanwhile. At the end one process launches all kernels twice: the second
time, in a process of its own, all of them are found.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.environment import ROOT

KERNELS = 40
# About half of what the entries of all kernels take.
SMALL_CACHE = "256K"
WORKER = """
import linecache, os, random, signal, sys
import numpy as np
import kernelcore as kc
from kernelcore.codegen.target import machine

TEXT = '''
def k(x: kc.array(dtype=float)):
    i = kc.tid()
    total = float(0.0)
    for j in range({0} % 5 + 1):
        total += x[i] * {0}.0
    x[i] = total
'''
compiled = 0
make = machine.object_code

def counted(*args):
    global compiled
    compiled += 1
    return make(*args)

machine.object_code = counted

def check(number):
    name = f"<kernel {number}>"
    text = TEXT.format(number)
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    scope = {"kc": kc}
    exec(compile(text, name, "exec"), scope)
    x = np.arange(5, dtype=np.float32)
    kc.launch(kc.kernel(scope["k"]), 5, [x])
    expected = np.arange(5) * float(number * (number % 5 + 1))
    if x.tolist() != expected.tolist():
        print("wrong", number, x.tolist(), flush=True)
        os._exit(9)

seed, count = int(sys.argv[1]), int(sys.argv[2])
if seed < 0:
    for number in range(count):
        check(number)
    print("compiled", compiled, flush=True)
else:
    rng = random.Random(seed)
    while True:
        check(rng.randrange(count))
        print("ok", flush=True)
"""


@dataclass
class Counts:
    """What happened."""

    launches: int = 0
    kills: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass
class Campaign:
    """Workers on one cache.

    Attributes:
        folder: Where the cache and the program are.
        environment: Of the workers.
        rng: Says when they are killed.
        longest: The most seconds that one lives.
    """

    folder: Path
    environment: dict[str, str]
    rng: random.Random
    counts: Counts = field(default_factory=Counts)
    started: int = 0
    longest: float = 10.0

    def start(self) -> tuple[subprocess.Popen[str], float]:
        """A new worker, and when it is killed."""
        self.started += 1
        command = [sys.executable, str(self.folder / "worker.py"), str(self.started), str(KERNELS)]
        log = open(self.folder / f"log{self.started}", "w")  # noqa: SIM115
        with log:
            worker = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=subprocess.STDOUT, text=True
            )
        return worker, time.monotonic() + self.rng.uniform(0.3, self.longest)

    def run(self, processes: int, seconds: float) -> None:
        """Keep ``processes`` workers running, and kill them, for ``seconds``."""
        end = time.monotonic() + seconds
        workers = [self.start() for _ in range(processes)]
        while time.monotonic() < end:
            time.sleep(0.02)
            for place, (worker, death) in enumerate(workers):
                if worker.poll() is not None or time.monotonic() > death:
                    self.stop(worker)
                    workers[place] = self.start()
        for worker, _ in workers:
            self.stop(worker)
        for log in self.folder.glob("log*"):
            lines = log.read_text().splitlines()
            self.counts.launches += lines.count("ok")
            # The last line of a killed process may be half a line.
            other = [line for line in lines if line not in ("ok", "o")]
            self.counts.wrong += other

    def stop(self, worker: subprocess.Popen[str]) -> None:
        if worker.poll() is None:
            worker.send_signal(signal.SIGKILL)
            self.counts.kills += 1
        status = worker.wait()
        if status != -signal.SIGKILL:
            self.counts.wrong.append(f"a worker ended with status {status}")

    def compiled(self) -> int:
        """How many kernels a new process has to compile that launches all, with a large cache."""
        command = [sys.executable, str(self.folder / "worker.py"), "-1", str(KERNELS)]
        env = {**self.environment, "KC_CACHE_SIZE": "0"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            self.counts.wrong.append(done.stdout + done.stderr)
            return -1
        return int(done.stdout.split()[1])


def campaign(processes: int, seconds: float, seed: int = 0, longest: float = 10.0) -> str:
    """Run it.

    Args:
        processes: How many workers there are at once.
        seconds: How long they run.
        seed: Of what they launch and of when they are killed.
        longest: The most seconds that a worker lives.

    Returns:
        What happened, in a line.

    Raises:
        AssertionError: A result was wrong, a worker failed, or an entry cannot be replaced.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "worker.py").write_text(WORKER)
        environment = {
            **os.environ,
            "KC_CACHE": "1",
            "KC_CACHE_DIR": str(folder / "kernels"),
            "KC_CACHE_SIZE": SMALL_CACHE,
            "KC_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        run = Campaign(folder, environment, random.Random(seed), longest=longest)
        run.run(processes, seconds)
        left = sum(path.name.startswith(".") for path in (folder / "kernels").iterdir())
        again, found = run.compiled(), run.compiled()
        counts = run.counts
        assert not counts.wrong, counts.wrong[:5]
        assert found == 0, f"{found} of {KERNELS} kernels are compiled each time"
        return (
            f"{run.started} processes, {counts.kills} killed, {counts.launches} launches, none "
            f"wrong; {left} unfinished files; {again} of {KERNELS} kernels compiled again, then 0"
        )


def test_processes_that_are_killed_leave_no_wrong_and_no_lost_entry() -> None:
    assert "none wrong" in campaign(processes=4, seconds=6.0, longest=4.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=float, default=30.0, help="seconds that a worker lives")
    chosen = parser.parse_args()
    print(campaign(chosen.processes, chosen.seconds, chosen.seed, chosen.longest))


if __name__ == "__main__":
    main()
