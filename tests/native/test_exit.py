"""Daemon threads that run Python code below native code do not abort the end of a program."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.environment import ROOT

# What the thread calls never returns: it asks for the GIL when the interpreter has ended.
PROGRAM = """
import sys, threading, types
import torch
import torch_ext
from kernelcore import _native
from tests.native.test_torch import axpy_operation

def endless(*args, **kwargs):
    begun.release()
    while True:
        pass

class Computed:
    x = property(endless)

def names():
    return _native.BoundNames([(Computed(), "x", (1,))])

def entry(names=None):
    return _native.torch_fast_entry(axpy_operation(), "axpy", None, endless, names, endless)

context = types.SimpleNamespace(needs_input_grad=(True,))
x = torch.ones(3)
calls = {
    "a slow operator call": lambda: entry()(x=x),
    "names around an operator": lambda: entry(names())(x, 2.0, x),
    "a forward": lambda: _native.torch_forward(axpy_operation(), "f", endless)(context, x, 2.0, x),
    "names": lambda: names().hold(),
    "a function that is found": lambda: _native.following(endless, "f")(),
    "a function that follows": lambda: _native.following(lambda: (names(), endless), "f")(),
}

begun = threading.Semaphore(0)
threading.Thread(target=calls[sys.argv[1]], daemon=True).start()
begun.acquire()
"""

CALLS = [
    *("a slow operator call", "names around an operator", "a forward", "names"),
    *("a function that is found", "a function that follows"),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_thread_in_python_code_does_not_hinder_the_end_of_a_program(call: str) -> None:
    command = [sys.executable, "-c", PROGRAM, call]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
