"""Programs that torch stored in another process find the operators of ``kc.op`` by name.

Torch asks its namespace ``torch.ops.kernelcore`` for names that it does not have. Once a process
has made an operator, these questions go to the adapter, which is imported for the first of them.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from kernelcore.base.lazy import Deferred

_register = Deferred("torch_ext.register")


def let_torch_ask() -> None:
    """Have torch ask for the operators that it does not find, also if it is imported later."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        if not any(isinstance(finder, _AfterTorch) for finder in sys.meta_path):
            sys.meta_path.insert(0, _AfterTorch())
    elif hasattr(torch, "ops"):  # Otherwise it is being imported.
        namespace: Any = torch.ops.kernelcore
        if "__getattr__" not in vars(namespace):
            vars(namespace)["__getattr__"] = _define_missing


def _define_missing(name: str) -> None:
    _register.define_missing(name)


class _AfterTorch(importlib.abc.MetaPathFinder):
    """Lets torch ask as soon as it has been imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((found for found in specs if found is not None), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_ask(module: ModuleType) -> None:
            execute(module)
            # Only now: who asks whether there is a torch need not import it.
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            let_torch_ask()

        spec.loader.exec_module = execute_and_ask
        return spec
