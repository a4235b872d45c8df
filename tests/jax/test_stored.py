"""Stored programs run in a process that does not define their kernels, from the disk cache."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pickle
import subprocess
import sys
import weakref
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
from jax_ffi import jax_callable, jax_kernel, registration
from kernelcore.base.host import host
from tests.helpers.environment import ROOT

F32 = kc.array(dtype=kc.float32)
SCALE = 0.8125
PROGRAMS = ["executable", "export", "embedded"]


@kc.kernel
def stored_twice(x: F32, y: F32):
    i = kc.tid()
    y[i] = x[i] + 1.0


# Each program runs in a fork of a process that has imported JAX and used nothing of it.
LOAD = """
import json, os, pickle, sys, traceback
import jax.numpy as jnp
from jax.experimental import serialize_executable
import jax_ffi

def result(path):
    with open(path, "rb") as file:
        stored = pickle.load(file)
    if isinstance(stored, tuple):
        program = serialize_executable.deserialize_and_load(*stored)
    else:
        program = stored.call
    return program(jnp.arange(4, dtype=jnp.float32)).tolist()

for path, cache in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        os.environ["KC_CACHE"] = cache
        try:
            found = result(path)
        except BaseException:
            found = traceback.format_exc()
        with open(f"{path}.{cache}", "w") as file:
            json.dump(found, file)
        os._exit(0)
    os.waitpid(child, 0)
"""


@kc.kernel
def scaled(x: F32, o: F32):
    i = kc.tid()
    o[i] = SCALE * x[i]


@kc.kernel
def added(x: F32, y: F32, o: F32):
    i = kc.tid()
    o[i] = x[i] + y[i]


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
        # The derivative is all that pickle cannot store.
        exported: Any = replace(jax_ffi.export(function)(x), _get_vjp=None)
        complete: Any = replace(jax_ffi.export(function, embed_objects=True)(x), _get_vjp=None)
    for name, program in zip(PROGRAMS, (executable, exported, complete), strict=True):
        (path / name).write_bytes(pickle.dumps(program))
    return path


def digest() -> bytes:
    """What machine code of this processor starts with."""
    return hashlib.sha256(repr(host()).encode()).digest()


@pytest.fixture(scope="module")
def loaded(directory: Path) -> dict[tuple[str, bool], Any]:
    """By program and whether there is a cache: its results, or how it failed."""
    runs = [(name, has_cache) for name in PROGRAMS[:2] for has_cache in (True, False)]
    runs += [("embedded", False)]
    if jax.default_backend() == "cpu":
        stored = (directory / "embedded").read_bytes()
        (directory / "foreign").write_bytes(stored.replace(digest(), digest()[::-1]))
        runs += [("foreign", False)]
    subprocess.run(
        [
            *(sys.executable, "-c", LOAD),
            json.dumps([(str(directory / name), "01"[has_cache]) for name, has_cache in runs]),
        ],
        cwd=ROOT,
        env={**os.environ, "KC_CACHE_DIR": str(directory / "objects")},
        check=True,
        timeout=240,
    )
    return {
        (name, has_cache): json.loads((directory / f"{name}.{'01'[has_cache]}").read_text())
        for name, has_cache in runs
    }


EXPECTED = (SCALE * np.arange(4.0)).tolist()
Loaded = dict[tuple[str, bool], Any]


def refusal(found: object) -> str:
    """The line that names the kernel in the error of a program."""
    assert isinstance(found, str), found
    lines = [line for line in found.splitlines() if "NOT_FOUND" in line]
    assert "'scaled'" in lines[-1]
    return lines[-1]


@pytest.mark.parametrize("name", PROGRAMS[:2])
def test_stored_program_finds_its_kernel_on_disk(loaded: Loaded, name: str) -> None:
    assert loaded[name, True] == EXPECTED


def test_embedded_code_needs_neither_cache_nor_source(loaded: Loaded) -> None:
    assert loaded["embedded", False] == EXPECTED


def test_embedded_code_is_that_of_this_processor_or_of_every_gpu(directory: Path) -> None:
    mark = digest() if jax.default_backend() == "cpu" else b".target sm_75"
    for name in PROGRAMS:
        assert (mark in (directory / name).read_bytes()) == (name == "embedded")


def test_machine_code_of_another_processor_is_refused(loaded: Loaded) -> None:
    assert "for another kind of processor" in refusal(loaded["foreign", False])


@pytest.mark.parametrize("name", PROGRAMS[:2])
def test_stored_program_without_its_kernel_names_it(loaded: Loaded, name: str) -> None:
    assert "import the module that defines it" in refusal(loaded[name, False])


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


IMPORTED = """
import sys
import jax.numpy as jnp
import jax_ffi
from jax_ffi import jax_kernel
from tests.jax import test_stored
wrapped = jax_kernel(test_stored.scaled)
with open(sys.argv[1], "rb") as file:
    program = jax_ffi.deserialize(bytearray(file.read()))
print(program.call(jnp.arange(4, dtype=jnp.float32)).tolist())
"""


def test_a_process_that_has_wrapped_the_kernel_needs_no_cache(tmp_path: Path) -> None:
    function = jax.jit(lambda x: jax_kernel(scaled)(x)[0])
    stored = tmp_path / "program"
    stored.write_bytes(jax_ffi.export(function)(jnp.arange(4, dtype=jnp.float32)).serialize())
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, str(stored)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ".", "KC_CACHE_DIR": str(tmp_path / "empty")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(EXPECTED)


@kc.kernel
def cubed(x: F32, o: F32):
    i = kc.tid()
    o[i] = x[i] * x[i] * x[i]


def cubed_twice(x: F32, o: F32):
    t = kc.empty(x.shape)
    kc.launch(cubed, x.shape, [x], [t])
    kc.launch(scaled, x.shape, [t], [o])


DERIVED = """
import sys
import jax, jax.numpy as jnp
import jax_ffi
with open(sys.argv[1], "rb") as file:
    program = jax_ffi.deserialize(bytearray(file.read()))
f = lambda x: program.call(x).sum()
x = jnp.arange(4, dtype=jnp.float32)
first = jax.grad(f)
print(first(x).tolist(), jax.grad(lambda x: first(x).sum())(x).tolist())
"""


@pytest.mark.parametrize("kind", ["kernel", "launches"])
def test_embedded_programs_hold_their_derivatives(tmp_path: Path, kind: str) -> None:
    made = jax_kernel(cubed) if kind == "kernel" else jax_callable(cubed_twice)
    program = jax_ffi.export(jax.jit(lambda x: made(x)[0]), embed_objects=True)
    stored = tmp_path / "program"
    stored.write_bytes(program(jnp.arange(4, dtype=jnp.float32)).serialize(vjp_order=2))
    done = subprocess.run(
        [sys.executable, "-c", DERIVED, str(stored)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ".", "KC_CACHE_DIR": str(tmp_path / "empty")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    x, factor = np.arange(4.0), 1.0 if kind == "kernel" else SCALE
    assert done.stdout.strip() == f"{(3 * factor * x**2).tolist()} {(6 * factor * x).tolist()}"


def test_extents_that_are_known_at_the_call_are_checked_there() -> None:
    n, m = jax.export.symbolic_shape("n, m")
    of = [jax.ShapeDtypeStruct((extent,), np.float32) for extent in (n, m)]
    program = jax_ffi.export(jax.jit(lambda x, y: jax_kernel(added)(x, y)[0]))(*of)
    x = jnp.arange(5, dtype=jnp.float32)
    np.testing.assert_array_equal(program.call(x, jnp.ones(5, jnp.float32)), x + 1)
    with pytest.raises(jax.errors.JaxRuntimeError) as refused:
        program.call(x, jnp.ones(3, jnp.float32)).block_until_ready()
    assert (
        "added(): argument 'y': expected at least 5 elements on axis 0, which the launch indexes, "
        "found 3"
    ) in str(refused.value)


def test_a_wrapper_is_known_while_it_lives_whatever_becomes_of_equal_ones() -> None:
    def known() -> list[Any]:
        return [wrapper for wrapper, _ in registration._wrappers()]  # pyright: ignore[reportPrivateUsage]

    first, second = jax_kernel(stored_twice), jax_kernel(stored_twice)
    assert first == second
    del first
    gc.collect()
    assert any(wrapper is second for wrapper in known())
    gone = weakref.ref(second)
    del second
    gc.collect()
    assert gone() is None
    assert all(wrapper.kernel is not stored_twice for wrapper in known())
