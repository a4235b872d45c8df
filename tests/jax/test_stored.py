"""Stored programs run in a process that does not define their kernels, from the disk cache."""

from __future__ import annotations

import hashlib
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
from jax.experimental import serialize_executable

import jax_ffi
import kernelcore as kc
from jax_ffi import jax_kernel
from kernelcore.base.host import host
from tests.helpers.paths import ROOT

F32 = kc.array(dtype=kc.float32)
SCALE = 0.8125
PROGRAMS = ["executable", "export", "embedded"]

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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KC_CACHE_DIR", str(path / "objects"))
        patch.delenv("KC_CACHE", raising=False)
        executable = serialize_executable.serialize(function.lower(x).compile())
        # Its own serialization needs flatbuffers; the derivative is all that pickle cannot store.
        exported: Any = replace(jax_ffi.export(function)(x), _get_vjp=None)
        complete: Any = replace(jax_ffi.export(function, embed_objects=True)(x), _get_vjp=None)
    for name, program in zip(PROGRAMS, (executable, exported, complete), strict=True):
        (path / name).write_bytes(pickle.dumps(program))
    return path


def load(directory: Path, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    objects = {"KC_CACHE_DIR": str(directory / "objects"), "KC_CACHE": "1"}
    return subprocess.run(
        [sys.executable, "-c", LOAD, name, str(directory / name)],
        cwd=ROOT,
        env={**os.environ, **objects, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("name", PROGRAMS[:2])
def test_stored_program_finds_its_kernel_on_disk(directory: Path, name: str) -> None:
    done = load(directory, name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str((SCALE * np.arange(4.0)).tolist())


def test_embedded_machine_code_needs_neither_cache_nor_source(directory: Path) -> None:
    done = load(directory, "embedded", KC_CACHE="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str((SCALE * np.arange(4.0)).tolist())


def test_machine_code_of_another_processor_is_refused(directory: Path) -> None:
    stored = (directory / "embedded").read_bytes()
    digest = hashlib.sha256(repr(host()).encode()).digest()
    assert digest in stored
    (directory / "foreign").write_bytes(stored.replace(digest, digest[::-1]))
    done = load(directory, "foreign", KC_CACHE="0")
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "NOT_FOUND" in line]
    assert "'scaled'" in line
    assert "for another kind of processor" in line


@pytest.mark.parametrize("name", PROGRAMS[:2])
def test_stored_program_without_its_kernel_names_it(directory: Path, name: str) -> None:
    done = load(directory, name, KC_CACHE="0")
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "NOT_FOUND" in line]
    assert "'scaled'" in line
    assert "import the module that defines it" in line


CACHED = """
import sys
import jax, jax.numpy as jnp
from jax._src import monitoring
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
from jax_ffi import jax_callable, jax_kernel
from tests.jax.test_stored import scaled, twice
events = []
monitoring.register_event_listener(lambda event, **_: events.append(event.split("/")[-1]))
x = jnp.arange(4, dtype=jnp.float32)
program = jax.jit(lambda x: jax_kernel(scaled)(jax_callable(twice)(x)[0])[0])
print(program(x).tolist(), "cache_hits" in events)
"""


def twice(x: F32, o: F32):
    t = kc.empty(x.shape)
    kc.launch(scaled, x.shape, [x], [t])
    kc.launch(scaled, x.shape, [t], [o])


def test_compiled_programs_are_found_in_the_cache_of_jax(tmp_path: Path) -> None:
    for is_known in (False, True):
        done = subprocess.run(
            [sys.executable, "-c", CACHED, str(tmp_path)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == f"{(SCALE**3 * np.arange(4.0)).tolist()} {is_known}"
