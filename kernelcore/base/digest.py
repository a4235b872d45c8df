"""SHA-256 without OpenSSL, for which every process would wait two milliseconds in hashlib."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

# CPython's own code, from 3.12 on and before; a build of it may have neither.
_MODULES = ("_sha2", "_sha256", "hashlib")


def _found() -> Callable[..., Any]:
    for name in _MODULES[:-1]:
        try:
            return import_module(name).sha256
        except ImportError:
            continue
    return import_module(_MODULES[-1]).sha256


sha256 = _found()
