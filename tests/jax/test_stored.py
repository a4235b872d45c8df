"""Stored programs run in a process that does not define their kernels, from the disk cache."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.experimental import serialize_executable

import kernelcore as kc
from jax_ffi import jax_kernel

F32 = kc.array(dtype=kc.float32)
SCALE = 0.8125
PROGRAMS = ["executable", "export"]

LOAD = """
import pickle, sys
import jax.numpy as jnp
from jax.experimental import serialize_executable
import jax_ffi
name, path = sys.argv[1:]
with open(path, "rb") as file:
    stored = pickle.load(file)
if name == "executable":
    program = serialize_executable.deserialize_and_load(*stored)
else:
    program = stored.call
print(program(jnp.arange(4, dtype=jnp.float32)).tolist())
"""


@kc.kernel
def scaled(x: F32, o: F32):
    i = kc.tid()
    o[i] = SCALE * x[i]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, pickled by name, and the cache of their kernel, 'objects'."""
    path = tmp_path_factory.mktemp("stored")
    function = jax.jit(lambda x: jax_kernel(scaled)(x)[0])
    x = jnp.arange(4, dtype=jnp.float32)
    allowed = [export.DisabledSafetyCheck.custom_call("kernelcore_launch")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KC_CACHE_DIR", str(path / "objects"))
        patch.delenv("KC_CACHE", raising=False)
        executable = serialize_executable.serialize(function.lower(x).compile())
        # Its own serialization needs flatbuffers; the derivative is all that pickle cannot store.
        exported: Any = replace(export.export(function, disabled_checks=allowed)(x), _get_vjp=None)
    for name, program in zip(PROGRAMS, (executable, exported), strict=True):
        (path / name).write_bytes(pickle.dumps(program))
    return path


def load(directory: Path, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    objects = {"KC_CACHE_DIR": str(directory / "objects"), "KC_CACHE": "1"}
    return subprocess.run(
        [sys.executable, "-c", LOAD, name, str(directory / name)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **objects, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_stored_program_finds_its_kernel_on_disk(directory: Path, name: str) -> None:
    done = load(directory, name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str((SCALE * np.arange(4.0)).tolist())


@pytest.mark.parametrize("name", PROGRAMS)
def test_stored_program_without_its_kernel_names_it(directory: Path, name: str) -> None:
    done = load(directory, name, KC_CACHE="0")
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "NOT_FOUND" in line]
    assert "'scaled'" in line
    assert "import the module that defines it" in line
