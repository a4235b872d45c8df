"""A driver that records calls and runs kernels on the CPU; see ``fake_driver.h``."""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from kernelcore import _native
from kernelcore.compiler.native_code import compile_func
from kernelcore.compiler.ptx_code import device_code
from kernelcore.launch.executable import Executable
from kernelcore.passes.access.accumulation_plan import unplanned
from kernelcore.runtime.stream import Stream
from tests.helpers.environment import ROOT
from tests.helpers.shared_library import build_library

NO_DEVICE = 100
ILLEGAL_ADDRESS = 700
OUT_OF_MEMORY = 2
NOT_SUPPORTED = 801


@cache
def build() -> Path:
    """The library of the fake driver."""
    folders = [f"{ROOT}/csrc", f"{ROOT}/csrc/include", f"{ROOT}/csrc/third_party/dlpack"]
    include = [f"-I{path}" for path in (*folders, sysconfig.get_paths()["include"])]
    here = Path(__file__).parent
    headers = [*here.glob("*.h"), *(ROOT / "csrc").rglob("*.h")]
    return build_library(sorted(here.glob("fake_*.cc")), ["-O1", *include], headers)


class ForeignGraph:
    """A graph that is none of kernelcore's."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._fake = library
        self.handle = ctypes.c_void_p()

    def launch(self) -> None:
        """Run it."""
        assert self._fake.cuGraphLaunch(self.handle, None) == 0

    def destroy(self) -> None:
        """Let go of what it keeps."""
        if self.handle:
            self._fake.cuGraphDestroy(self.handle)

    def __del__(self) -> None:
        self.destroy()


class FakeDriver:
    """What tests ask of the library of the fake driver."""

    def __init__(self, library: Path) -> None:
        self.library = library
        self._fake = ctypes.CDLL(str(library))
        self._fake.fake_log.restype = ctypes.c_char_p
        self._fake.fake_live_bytes.restype = ctypes.c_long
        self._fake.fake_last_block.restype = ctypes.c_size_t

    def calls(self, *names: str) -> list[str]:
        """The calls since ``clear``; of functions ``names`` if there are any."""
        found = self._fake.fake_log().decode().splitlines()
        return [line for line in found if not names or line.split()[0] in names]

    def clear(self) -> None:
        """Forget the calls so far."""
        self._fake.fake_clear()

    def fail(self, name: str, result: int, after: int = 0) -> None:
        """Let a call of ``name`` fail, after some that do not."""
        self._fake.fake_fail(name.encode(), after, result)

    @contextmanager
    def capturing(self, stream: Stream) -> Iterator[ForeignGraph]:
        """Let ``stream`` capture a graph in the block, as another library does.

        Raises:
            AssertionError: Something has ended the capture.
        """
        handle, graph = ctypes.c_void_p(stream.cuda_stream), ForeignGraph(self._fake)
        assert self._fake.cuStreamBeginCapture_v2(handle, 0) == 0
        try:
            yield graph
        finally:
            ended = self._fake.cuStreamEndCapture(handle, ctypes.byref(graph.handle))
        assert ended == 0

    def be_idle(self) -> None:
        """Do nothing from now on, neither for launches nor for tensors."""
        self._fake.fake_idle(1)

    def live_bytes(self) -> int:
        """Bytes of memory of devices, in whole pages."""
        return self._fake.fake_live_bytes()

    def set_pools(self, has_pools: bool) -> None:
        """Whether devices that are used from now on have memory pools."""
        self._fake.fake_pools(int(has_pools))

    def last_block(self) -> bytes:
        """The argument block of the last launch."""
        buffer = ctypes.create_string_buffer(1 << 15)
        size = self._fake.fake_last_block(buffer)
        return buffer.raw[:size]

    def know_as(self, symbol: str, func: Any) -> None:
        """Let the kernel ``symbol`` run as the CPU's code for ``func`` does."""
        run = compile_func(unplanned(func))
        size = ctypes.c_size_t(run.block_size)
        self._fake.fake_register(symbol.encode(), ctypes.c_void_p(run.address), size)

    def know(self, func: Any, architecture: str) -> None:
        """Let kernel ``func`` run as the CPU's code for it does, one thread after the other."""
        self.know_as(device_code(func, architecture).symbol, func)


class KnownKernels:
    """Lets the fake driver know of every kernel before it is loaded."""

    def __init__(self, driver: FakeDriver) -> None:
        self._driver = driver
        self._make = Executable.on_device

    def on_device(self, executable: Executable, ordinal: int, *, is_serial: bool = False) -> Any:
        func = executable.func
        self._driver.know(unplanned(func) if is_serial else func, "sm_90")
        return self._make(executable, ordinal, is_serial=is_serial)


def install(library: Path) -> FakeDriver:
    """Make ``library`` the driver of this process."""
    _native.cuda_set_driver(str(library))
    return FakeDriver(library)


def remove() -> None:
    """Make the system's driver that of this process again."""
    _native.cuda_set_driver("")
