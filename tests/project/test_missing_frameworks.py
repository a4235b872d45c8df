"""Imports without a framework, without the native module, or elsewhere than on Linux say why."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.environment import ROOT

# A finder that comes first hides a framework, as if it were not installed.
HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {framework!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
try:
    {code}
except ImportError as error:
    print(error.name)
    print(error)
"""


@pytest.mark.parametrize(
    ("framework", "adapter", "code"),
    [
        ("torch", "torch_ext", "import torch_ext"),
        ("torch", "torch_ext", "import torch_ext.entry"),
        ("torch", "torch_ext", "import kernelcore as kc; kc.torch_op"),
        ("jax", "jax_ffi", "import jax_ffi"),
        ("jax", "jax_ffi", "import kernelcore as kc; kc.jax_kernel"),
        ("paddle", "paddle_ext", "import paddle_ext"),
        ("paddle", "paddle_ext", "import kernelcore as kc; kc.paddle_op"),
    ],
)
def test_an_adapter_names_the_extra(framework: str, adapter: str, code: str) -> None:
    text = HIDE.format(framework=framework, code=code)
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    wanted = f"{adapter} needs {framework}, which is not installed"
    help_text = f"  help: pip install 'kernelcore[{framework}]'"
    assert done.stdout.splitlines() == [framework, wanted, help_text], done.stderr


def test_kernelcore_itself_needs_none() -> None:
    text = HIDE.format(framework="torch", code="import kernelcore as kc; print(kc.sin(0.0))")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "0.0", done.stderr


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ("sys.platform = 'win32'", "kernelcore runs on Linux, found 'win32'"),
        ("sys.modules['kernelcore._native'] = None", "kernelcore's native module is missing for"),
    ],
)
def test_an_import_that_cannot_work_says_why(before: str, wanted: str) -> None:
    text = f"import sys; {before}; import kernelcore as kc; kc.kernel"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT)
    *_, last, remedy = done.stderr.splitlines()
    assert last.startswith(f"ImportError: {wanted}")
    assert remedy.startswith("  help: ")
