"""Settings of this process, as ``kernelcore.config``."""

from __future__ import annotations

import os

from kernelcore.errors import KernelArgumentError

MODES = ("release", "debug")


class Config:
    """Settings that kernels are compiled with; each holds for kernels that are built afterwards.

    Attributes:
        mode: 'debug' checks every index of an array, and a launch that leaves an array raises
            ``KernelIndexError`` before it touches memory there. 'release', the default, checks what
            a launch can know beforehand. The environment variable ``KC_MODE`` sets it first.
    """

    __slots__ = ("_mode",)

    def __init__(self) -> None:
        self._mode = "release"
        self.mode = os.environ.get("KC_MODE", "release")

    @property
    def mode(self) -> str:
        return self._mode

    @mode.setter
    def mode(self, value: str) -> None:
        if value not in MODES:
            raise KernelArgumentError(
                f"config.mode: expected {' or '.join(repr(m) for m in MODES)}, found {value!r}"
            )
        self._mode = value

    @property
    def checks_bounds(self) -> bool:
        """Whether kernels check the indices of arrays."""
        return self._mode == "debug"


config = Config()
