"""Threads that need one kernel at once, and children that are forked while a thread compiles.

Every program runs in a process of its own with a time limit: what it must not do is wait for ever.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.environment import ROOT

# In a file of its own, since kernels are read from files; ``kernel(n)`` is a kernel of its own.
PREAMBLE = """
import faulthandler, linecache, os, signal, sys, threading, time, warnings
import numpy as np
import kernelcore as kc

faulthandler.dump_traceback_later(25, exit=True)
warnings.filterwarnings("ignore", ".*fork.*")
TEXT = '''
def k(x: kc.array(dtype=float)):
    i = kc.tid()
    total = float(0.0)
    for j in range(8):
        total += kc.sin(x[i]) * {0}.0
    x[i] = {0}.0 + total * 0.0
'''

def kernel(number):
    name = f"<kernel {number}>"
    text = TEXT.format(number)
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    scope = {"kc": kc}
    exec(compile(text, name, "exec"), scope)
    return kc.kernel(scope["k"])

def launched(kernel):
    x = np.zeros(4, np.float32)
    kc.launch(kernel, 4, [x])
    return x.tolist()

def in_child(function):
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(0 if function() else 3)
    return os.waitpid(child, 0)[1]
"""

FORK_WHILE_COMPILING = """
known, numbers = kernel(1), iter(range(2, 10**6))
launched(known)
is_over = False

def compile_more():
    while not is_over:
        launched(kernel(next(numbers)))

threads = [threading.Thread(target=compile_more, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
for round_ in range(6):
    time.sleep(0.003 * round_)
    number = 10**6 + round_
    works = lambda: launched(known) == [1.0] * 4 and launched(kernel(number)) == [number] * 4
    assert in_child(works) == 0, round_
is_over = True
for thread in threads:
    thread.join()
"""

# The first compilation imports the compiler and LLVM.
FORK_WHILE_IMPORTING = """
thread = threading.Thread(target=lambda: launched(kernel(1)))
thread.start()
time.sleep(float(sys.argv[1]))
assert in_child(lambda: launched(kernel(2)) == [2.0] * 4) == 0
thread.join()
"""

STATIC_THAT_LAUNCHES = """
start = threading.Barrier(2)

def seven():
    start.wait()
    return int(launched(kernel(7))[0])

@kc.kernel
def first(x: kc.array(dtype=float)):
    i = kc.tid()
    x[i] = float(kc.static(seven()))

@kc.kernel
def second(x: kc.array(dtype=float)):
    i = kc.tid()
    x[i] = float(kc.static(seven())) + 1.0

found = {}
threads = [
    threading.Thread(target=lambda k=k: found.update({k.name: launched(k)}))
    for k in (first, second)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert found == {"first": [7.0] * 4, "second": [8.0] * 4}, found
"""

STATIC_THAT_WAITS = """
def launched_elsewhere(kernel):
    found = []
    thread = threading.Thread(target=lambda: found.extend(launched(kernel)))
    thread.start()
    thread.join()
    return int(found[0])

other = kernel(5)

@kc.kernel
def waiting(x: kc.array(dtype=float)):
    i = kc.tid()
    x[i] = float(kc.static(launched_elsewhere(other))) + 1.0

assert launched(waiting) == [6.0] * 4
"""

ONE_KERNEL_IN_THREADS = """
from kernelcore.codegen.target import machine
made, make = [], machine.object_code
def counted(*args):
    made.append(args)
    return make(*args)
machine.object_code = counted
for round_ in range(5):
    one = kernel(round_ + 2)
    start, found = threading.Barrier(8), []
    def run():
        start.wait()
        found.append(launched(one))
    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[round_ + 2.0] * 4] * 8, found
assert len(made) == 5, len(made)
"""


def run(program: str, folder: Path, *arguments: str, cache: str = "0") -> None:
    file = folder / "program.py"
    file.write_text(PREAMBLE + program)
    env = {**os.environ, "KC_CACHE": cache, "KC_CACHE_DIR": str(folder / "cache")}
    env["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, str(file), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=40)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("cache", ["0", "1"])
def test_a_child_that_is_forked_while_threads_compile_launches(tmp_path: Path, cache: str) -> None:
    run(FORK_WHILE_COMPILING, tmp_path, cache=cache)


@pytest.mark.parametrize("delay", ["0.02", "0.1", "0.3"])
def test_a_child_that_is_forked_while_the_compiler_is_imported_launches(
    tmp_path: Path, delay: str
) -> None:
    run(FORK_WHILE_IMPORTING, tmp_path, delay)


def test_static_launches_in_two_threads_at_once(tmp_path: Path) -> None:
    run(STATIC_THAT_LAUNCHES, tmp_path)


def test_static_waits_for_a_thread_that_launches(tmp_path: Path) -> None:
    run(STATIC_THAT_WAITS, tmp_path)


def test_threads_that_launch_one_new_kernel_at_once_compile_it_once(tmp_path: Path) -> None:
    run(ONE_KERNEL_IN_THREADS, tmp_path)
