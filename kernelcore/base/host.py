"""The processor that code is made for: asked of LLVM once, then kept beside the cached code."""

from __future__ import annotations

import ast
import importlib.util
import os
import platform
import sys
from functools import cache
from typing import Any, cast

from kernelcore.base.dataclass import dataclass
from kernelcore.base.disk_cache import default_cache, key_of
from kernelcore.base.llvm import engine, lock

_CPUINFO = "/proc/cpuinfo"
# What tells processors apart: on x86-64, and on AArch64.
_FIELDS = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),
)
_GATHER_LEAK = "/sys/devices/system/cpu/vulnerabilities/gather_data_sampling"
# No element is as large: there are no masks.
NO_MASKS = 16


@dataclass(frozen=True, slots=True)
class Host:
    """The processor that code is made for."""

    triple: str
    cpu: str
    features: str
    llvm_version: tuple[int, ...]

    @property
    def float_lanes(self) -> int:
        """How many float32 a register holds."""
        known = self.features.split(",")
        return 16 if "+avx512f" in known else 8 if "+avx" in known else 4

    @property
    def register_bytes(self) -> int:
        """How many bytes a register holds."""
        return 4 * self.float_lanes

    @property
    def least_masked_bytes(self) -> int:
        """How large elements are that instructions load and store under a mask."""
        known = self.features.split(",")
        return 1 if "+avx512bw" in known else 4 if "+avx" in known else NO_MASKS

    @property
    def gathers(self) -> bool:
        """Whether an instruction loads elements anywhere, under a mask of single bits, and fast."""
        return "+avx512f" in self.features.split(",") and gathers_at_full_speed()

    @property
    def scales(self) -> bool:
        """Whether an instruction multiplies vectors by powers of two (vscalefps, vscalefpd)."""
        known = self.features.split(",")
        return "+avx512f" in known and "+avx512vl" in known

    @property
    def attributes(self) -> dict[str, str]:
        """LLVM attributes of every function for this processor."""
        # LLVM itself prefers half of what 512-bit units can do.
        wide = "+avx512f" in self.features.split(",")
        return {"prefer-vector-width": "512"} if wide else {}


@cache
def gathers_at_full_speed() -> bool:
    """Whether the system says that gather instructions of this processor wait for nothing.

    Microcode against the leak of gathered data ("Downfall") makes them wait in Intel's older ones.
    """
    try:
        with open(_GATHER_LEAK) as file:
            return file.read().startswith(("Not affected", "Vulnerable"))
    except OSError:
        return False


@cache
def host() -> Host:
    """The processor of this process."""
    disk, key = default_cache("host"), _key()
    if disk is None or key is None:
        return _described()
    stored = disk.load(key)
    known = None if stored is None else _read(stored)
    if known is not None:
        return known
    found = _described()
    row = (found.triple, found.cpu, found.features, found.llvm_version)
    disk.store(key, repr(row).encode())
    return found


def _read(stored: bytes) -> Host | None:
    """What ``host`` stored; None of other bytes."""
    try:
        triple, cpu, features, version = ast.literal_eval(stored.decode())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    is_text = all(isinstance(text, str) for text in (triple, cpu, features))
    is_version = isinstance(version, tuple) and {type(n) for n in cast("Any", version)} == {int}
    return Host(triple, cpu, features, cast("Any", version)) if is_text and is_version else None


@lock
def _described() -> Host:
    """What LLVM says."""
    llvm = engine()
    return Host(
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        llvm_version=tuple(llvm.llvm_version_info),
    )


def _key() -> str | None:
    """A digest of what decides the answer of LLVM; None where the system does not say."""
    version = package_text("llvmlite", "_version.py")
    try:
        with open(_CPUINFO, "rb", buffering=0) as file:
            # The first processor is enough, and the system writes down no more than is read.
            text = file.read(1 << 13).decode(errors="replace")
    except OSError:
        return None
    lines = text.split("\n\n")[0].splitlines()
    kept = [line for line in lines if line.split(":")[0].strip() in _FIELDS]
    if version is None or not kept:
        return None
    system = version, platform.machine(), sys.platform
    return key_of("a literal of Python", *Host.__slots__, *kept, *system)


def package_text(package: str, name: str) -> str | None:
    """The file ``name`` of a package, which is not imported: it tells the version."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    try:
        with open(os.path.join(os.path.dirname(spec.origin), name), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None
