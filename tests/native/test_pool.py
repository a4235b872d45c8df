"""The thread pool: every point runs once, whatever happens around a run."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kernelcore as kc
from kernelcore import _native
from tests.native import kernels

LARGE = 20_000


@kc.kernel
def norms(
    x: kc.array2d(dtype=kc.float64),
    y: kc.array(dtype=kc.float64),
    counts: kc.array(dtype=kc.int64),
):
    i = kc.tid()
    total = kc.float64(0.0)
    for j in range(x.shape[1]):
        total += x[i, j] * x[i, j]
    y[i] = total
    counts[i] = counts[i] + kc.int64(1)


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = _native.num_threads()
    _native.set_num_threads(4)
    yield
    _native.set_num_threads(before)


@pytest.mark.parametrize("points", [1, 255, 256, 257, 1000, 4097, 100_003])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_every_point_runs_exactly_once(points: int, threads: int) -> None:
    before = _native.num_threads()
    _native.set_num_threads(threads)
    assert _native.num_threads() == threads
    counts = np.zeros(points, np.int64)
    for _ in range(3):
        _native.launch(kernels.slow_increment().signature(), points, (counts,))
    _native.set_num_threads(before)
    assert (counts == 3).all()


@pytest.mark.usefixtures("eager_sharing", "four_threads")
@pytest.mark.parametrize("points", [1, 16, 17, 40, 100, 256])
def test_few_points_are_shared_and_run_once(points: int) -> None:
    counts = np.zeros(points, np.int64)
    for _ in range(100):
        _native.launch(kernels.slow_increment().signature(), points, (counts,))
    assert (counts == 100).all()


@pytest.mark.usefixtures("four_threads")
def test_long_points_run_once_when_a_later_launch_shares_them() -> None:
    counts = np.zeros(40, np.int64)
    x = np.random.default_rng(0).random((40, 20_000))
    y = np.zeros((300, 40))
    for row in y:
        kc.launch(norms, 40, [x], [row, counts])
    assert (counts == 300).all()
    # A thread adds up its row in one order, whichever thread that is.
    assert (y == y[0]).all()


@pytest.mark.usefixtures("four_threads")
def test_a_run_after_the_workers_fell_asleep_completes() -> None:
    counts = np.zeros(LARGE, np.int64)
    for _ in range(5):
        _native.launch(kernels.slow_increment().signature(), LARGE, (counts,))
        time.sleep(0.005)
    assert (counts == 5).all()


@pytest.mark.usefixtures("four_threads")
def test_threads_launch_at_the_same_time() -> None:
    arrays = [np.zeros(LARGE, np.int64) for _ in range(4)]
    signature = kernels.slow_increment().signature()

    def launch_often(counts: np.ndarray) -> None:
        for _ in range(10):
            _native.launch(signature, LARGE, (counts,))

    threads = [threading.Thread(target=launch_often, args=(a,)) for a in arrays]
    for thread in threads:
        thread.start()
    _native.set_num_threads(3)
    for thread in threads:
        thread.join()
    assert all((a == 10).all() for a in arrays)


@pytest.mark.usefixtures("four_threads")
def test_long_runs_let_other_python_threads_go_on() -> None:
    ticks = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(None)
            time.sleep(0)

    ticker = threading.Thread(target=tick)
    counts = np.zeros(500_000, np.int64)
    ticker.start()
    before = len(ticks)
    _native.launch(kernels.slow_increment().signature(), len(counts), (counts,))
    during = len(ticks) - before
    stop.set()
    ticker.join()
    assert during > 10


def test_fewer_than_one_thread_is_refused() -> None:
    with pytest.raises(TypeError, match="from 1 to 1024, found 0"):
        _native.set_num_threads(0)


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "4 "])
def test_the_environment_is_checked(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_NUM_THREADS", value)
    script = """
import kernelcore as kc
for ask in (kc.num_threads, lambda: kc.set_num_threads(2)):
    try:
        ask()
    except kc.KernelArgumentError as error:
        print(str(error).splitlines()[0])
"""
    expected = f"KC_NUM_THREADS: expected an integer of at least 1, found '{value}'"
    assert run_python(script) == f"{expected}\n{expected}"


GROUPS_V2 = "0::/outer/inner\n"
GROUPS_V1 = "4:memory:/other\n3:cpu,cpuacct:/outer/inner\n"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        (GROUPS_V2, {"outer/inner/cpu.max": "max 100000"}, 0),
        (GROUPS_V2, {"outer/inner/cpu.max": "150000 100000"}, 2),
        (GROUPS_V2, {"outer/cpu.max": "50000 100000", "outer/inner/cpu.max": "max 100000"}, 1),
        (GROUPS_V2, {"cpu.max": "300000 100000"}, 3),
        ("0::/\n", {"cpu.max": "400000 100000"}, 4),
        (GROUPS_V2, {"outer/inner/cpu.max": "nonsense"}, 0),
        (GROUPS_V2, {}, 0),
        ("", {}, 0),
        (
            GROUPS_V1,
            {
                "cpu,cpuacct/outer/inner/cpu.cfs_quota_us": "250000",
                "cpu,cpuacct/outer/inner/cpu.cfs_period_us": "100000",
            },
            3,
        ),
        (
            GROUPS_V1,
            {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"},
            2,
        ),
        (
            GROUPS_V1,
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            0,
        ),
    ],
)
def test_control_groups_limit_the_threads(
    groups: str, files: dict[str, str], expected: int, tmp_path: Path
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert _native.cgroup_cpus(str(tmp_path)) == expected


FORK_SCRIPT = """
import os
import numpy as np
from kernelcore import _native
from tests.native import kernels
_native.set_num_threads(3)
signature = kernels.slow_increment().signature()
counts = np.zeros(20_000, np.int64)
_native.launch(signature, len(counts), (counts,))
child = os.fork()
_native.launch(signature, len(counts), (counts,))
assert (counts == 2).all() and _native.num_threads() == 3
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def run_python(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_forked_child_gets_working_threads() -> None:
    run_python(FORK_SCRIPT)


def test_the_environment_sets_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_NUM_THREADS", "5")
    script = "from kernelcore import _native; print(_native.num_threads())"
    assert run_python(script) == "5"


def test_the_pool_keeps_to_the_cpus_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KC_NUM_THREADS", raising=False)
    script = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from kernelcore import _native; print(_native.num_threads())"
    )
    assert run_python(script) == "1"
