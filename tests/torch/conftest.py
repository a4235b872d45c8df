"""Warnings that torch gives about its own code, and its default device where a GPU is tested."""

from __future__ import annotations

import os

import pytest
import torch

from tests.helpers.environment import DEVICE

IGNORED = (
    # Forward mode and Inductor import scripted functions of torch; the class is not that of
    # every version.
    r"ignore:.torch\.jit\.script(_method)?. is (deprecated|not supported)",
    # Inductor lowers diagonals by a deprecated function.
    r"ignore:.torch\._prims_common\.check. is deprecated:FutureWarning",
    # Compiled autograd looks at the gradients of all tensors that it finds.
    r"ignore:The \.grad attribute of a Tensor that is not a leaf Tensor:UserWarning",
    # AOTInductor copies what it exports.
    r"ignore:.isinstance\(treespec, LeafSpec\). is deprecated:FutureWarning",
)


def pytest_configure(config: pytest.Config) -> None:
    if "KC_TORCH_DEFAULT" in os.environ:
        torch.set_default_device(DEVICE)
    for line in IGNORED:
        config.addinivalue_line("filterwarnings", line)
