"""compile_all: what it compiles is what launches use, and one failure loses nothing else."""

from __future__ import annotations

import importlib
import linecache
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelCompileError
from kernelcore.codegen.target import machine, worker
from kernelcore.codegen.target.worker import Worker
from kernelcore.launch.precompile import KERNELS_PER_PROCESS

MANY = KERNELS_PER_PROCESS + 3


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("KC_CACHE", raising=False)
    return tmp_path


def scaling(factor: float, mark: str) -> kc.Kernel:
    """A kernel without a file, as notebooks and exec() define them."""
    text = f"def scale_{mark}(x: kc.array(dtype=float), y: kc.array(dtype=float)):\n"
    text += f"    i = kc.tid()\n    y[i] = {factor} * x[i] * x[i]\n"
    name = f"<kernel {mark} {factor}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, object] = {"kc": kc}
    exec(compile(text, name, "exec"), scope)
    return kc.kernel(scope[f"scale_{mark}"])  # pyright: ignore[reportArgumentType, reportCallIssue]


@kc.kernel
def wrong(x: kc.array(dtype=float)):
    i = kc.tid()
    x[i] = missing_name  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


@kc.kernel
def counting(x: kc.array(dtype=int)):
    i = kc.tid()
    x[i] = x[i] + 1


def launch(kernel: kc.Kernel) -> np.ndarray:
    x, y = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    kc.launch(kernel, 3, [x], [y])
    return y


def test_all_kernels_are_compiled_by_several_processes(directory: Path) -> None:
    kernels = [scaling(k + 0.25, f"m{k}") for k in range(MANY)]
    report = kc.compile_all(kernels, processes=2)
    assert sorted(report.compiled) == sorted(k.name for k in kernels)
    assert (report.cached, report.failed) == ((), {})
    assert len(list((directory / "cache").glob("*.o"))) == MANY
    for k, kernel in enumerate(kernels):
        np.testing.assert_array_equal(launch(kernel), (k + 0.25) * np.arange(3.0) ** 2)
    assert kc.compile_all(kernels).cached == tuple(k.name for k in kernels)


def test_launches_find_the_code(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = scaling(1.5, "found")
    assert kc.compile_all([kernel], adjoint=True).failed == {}

    def refuse(text: str, target: object) -> bytes:
        raise AssertionError(f"compiled again:\n{text}")

    monkeypatch.setattr(machine, "object_code", refuse)
    launch(kernel)
    x, y = np.ones(2, np.float32), np.zeros(2, np.float32)
    ct_x, ct_y = np.zeros_like(x), np.ones_like(y)
    kc.launch(kernel, 2, [x], [y], [ct_x], [ct_y], adjoint=True)
    np.testing.assert_array_equal(ct_x, [3.0, 3.0])
    data = kc.ones(2, dtype=float, requires_grad=True)
    out = kc.zeros(2, dtype=float, requires_grad=True)
    with kc.Tape() as tape:
        kc.launch(kernel, 2, [data], [out])
    tape.backward(grads={out: ct_y})
    assert data.grad is not None
    np.testing.assert_array_equal(data.grad.numpy(), [3.0, 3.0])


def test_a_process_starts_at_the_first_new_kernel_and_none_for_cached_ones(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Any = importlib.import_module("kernelcore.launch.precompile")._Run
    look, helpers = run._missing, list[int]()

    def noted(self: Any, *task: Any) -> Any:
        helpers.append(len(self.threads))
        return look(self, *task)

    monkeypatch.setattr(run, "_missing", noted)
    kernels = [scaling(k + 0.375, f"c{k}") for k in range(MANY)]
    assert len(kc.compile_all(kernels, processes=2).compiled) == MANY
    assert len(kc.compile_all(kernels, processes=2).cached) == MANY
    assert helpers == [0] + [1] * (MANY - 1) + [0] * MANY


def test_it_works_without_a_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE", "0")
    kernel = scaling(2.5, "diskless")
    assert kc.compile_all([kernel]).compiled == ("scale_diskless",)
    assert kc.compile_all([kernel]).cached == ("scale_diskless",)


def test_a_failure_is_named_and_loses_nothing(directory: Path) -> None:
    kernels = [scaling(k + 0.75, f"n{k}") for k in range(MANY)]
    report = kc.compile_all([wrong, *kernels, counting], adjoint=True, processes=2)
    assert isinstance(report.failed["wrong"], kc.KernelNameError)
    assert set(report.failed) == {"wrong", "wrong, adjoint", "wrong, Tape's adjoint"}
    # No floats, no adjoint.
    assert {n for n in report.compiled if n.startswith("counting")} == {"counting"}
    assert len(report.compiled) == 3 * MANY + 1
    assert "3 failed" in str(report)
    assert "missing_name" in str(report)


def test_an_interruption_leaves_no_thread(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(text: str, target: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(machine, "object_code", interrupt)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        kc.compile_all([scaling(k + 0.625, f"i{k}") for k in range(MANY)], processes=3)
    assert threading.active_count() == before


def test_an_interruption_does_not_wait_for_processes(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(text: str, target: object) -> bytes:
        while not started:
            time.sleep(0.01)
        started[0]._process.send_signal(signal.SIGSTOP)
        raise KeyboardInterrupt

    started: list[Worker] = []
    start = Worker.__init__

    def noted(self: Worker) -> None:
        start(self)
        started.append(self)

    monkeypatch.setattr(Worker, "__init__", noted)
    monkeypatch.setattr(machine, "object_code", interrupt)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        kc.compile_all([scaling(k + 0.5625, f"s{k}") for k in range(MANY)], processes=2)
    assert threading.active_count() == before
    assert all(worker.has_ended for worker in started)


def test_a_process_that_is_killed_fails_what_it_compiled(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_ = Worker.object_code
    killed: list[Worker] = []

    def kill_first(self: Worker, text: str) -> bytes:
        if not killed:
            killed.append(self)
            self.kill()
        return compile_(self, text)

    monkeypatch.setattr(Worker, "object_code", kill_first)
    kernels = [scaling(k + 0.8125, f"d{k}") for k in range(MANY)]
    report = kc.compile_all(kernels, processes=2)
    assert len(report.compiled) == MANY - 1
    ((name, error),) = report.failed.items()
    assert "was ended by SIGKILL; too many processes for the memory?" in str(error)
    (kernel,) = [k for k in kernels if k.name == name]
    assert launch(kernel)[1] == kernels.index(kernel) + 0.8125


def test_names_tell_overloads_apart(directory: Path) -> None:
    kernels = [scaling(k + 0.125, "same") for k in range(2)]
    assert kc.compile_all(kernels).compiled == ("scale_same", "scale_same (2)")


def test_progress_is_shown_where_it_is_asked_for(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kc.compile_all([scaling(4.5, "quiet")])
    assert capsys.readouterr().err == ""
    kc.compile_all([scaling(5.5, "shown"), wrong], progress=True)
    shown = capsys.readouterr().err
    assert "1/2 " in shown
    assert f"[{'#' * 24}] 2/2 " in shown
    assert shown.endswith("\n")


def test_programs_without_standard_error_see_no_progress(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    for progress in (None, True, False):
        assert kc.compile_all([counting], progress=progress).failed == {}


def test_only_kernels_are_compiled() -> None:
    with pytest.raises(kc.KernelArgumentError, match="expected a kernel, found int"):
        kc.compile_all([3])  # pyright: ignore[reportArgumentType]
    with pytest.raises(kc.KernelArgumentError, match="expected kernels, found Kernel") as caught:
        kc.compile_all(counting)  # pyright: ignore[reportArgumentType]
    assert caught.value.remedy == "give a list: compile_all([kernel])"
    for processes in (0, 1.5, "2"):
        with pytest.raises(kc.KernelArgumentError, match=f"1 process, found {processes!r}"):
            kc.compile_all([counting], processes=processes)  # pyright: ignore[reportArgumentType]


def test_a_worker_refuses_wrong_text_and_goes_on() -> None:
    worker = Worker()
    try:
        with pytest.raises(KernelCompileError, match="LLVM rejected"):
            worker.object_code("define nothing")
        assert worker.object_code("define void @kc_f() {\n ret void\n}\n")
        assert not worker.has_ended
    finally:
        worker.close()


def test_a_worker_imports_no_more_than_llvm() -> None:
    command = [sys.executable, "-S", "-c", f"{worker.program()}print(*sys.modules)"]
    found = subprocess.run(command, input=b"", capture_output=True, check=True)
    modules = {name.split(".")[0] for name in found.stderr.decode().split()}
    assert {"llvmlite", "kernelcore"} <= modules
    assert "numpy" not in modules


def test_a_worker_finds_the_modules_that_this_process_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("types", "llvmlite", "kernelcore"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    worker = Worker()
    assert worker.object_code("define void @kc_f() {\n ret void\n}\n")
    worker.close()


def test_an_interruption_is_not_for_workers() -> None:
    worker = Worker()
    worker.object_code("define void @kc_f() {\n ret void\n}\n")
    worker._process.send_signal(signal.SIGINT)
    assert worker.object_code("define void @kc_g() {\n ret void\n}\n")
    worker.close()


def test_a_worker_that_dies_is_an_error() -> None:
    worker = Worker()
    worker.object_code("define void @kc_f() {\n ret void\n}\n")
    worker.close()
    assert worker.has_ended
    with pytest.raises(KernelCompileError, match="was ended by SIGKILL"):
        worker.object_code("define void @kc_f() {\n ret void\n}\n")


def test_another_process_finds_the_code(directory: Path) -> None:
    program = directory / "program.py"
    program.write_text(
        "import sys\nimport numpy as np\nimport kernelcore as kc\n"
        "@kc.kernel\n"
        "def twice(x: kc.array(dtype=float)):\n"
        "    i = kc.tid()\n    x[i] = 2.0 * x[i]\n"
        "if sys.argv[1] == 'compile':\n"
        "    print(len(kc.compile_all([twice]).compiled))\n"
        "else:\n"
        "    x = np.ones(1, np.float32)\n"
        "    kc.launch(twice, 1, [x])\n"
        "    print(x[0], 'llvmlite' in sys.modules)\n"
    )

    def run(step: str) -> str:
        command = [sys.executable, str(program), step]
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert run("compile") == "1"
    assert run("launch") == "2.0 False"
