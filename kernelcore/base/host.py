"""The processor that code is made for: asked of LLVM once, then kept beside the cached code."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
import sys
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

from kernelcore.base.disk_cache import KEY_DIGITS, default_cache
from kernelcore.base.llvm import engine, lock

_CPUINFO = Path("/proc/cpuinfo")
# What tells processors apart: on x86-64, and on AArch64.
_FIELDS = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),
)
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
    def least_masked_bytes(self) -> int:
        """How large elements are that instructions load and store under a mask."""
        known = self.features.split(",")
        return 1 if "+avx512bw" in known else 4 if "+avx" in known else NO_MASKS

    @property
    def attributes(self) -> dict[str, str]:
        """LLVM attributes of every function for this processor."""
        # LLVM itself prefers half of what 512-bit units can do.
        wide = "+avx512f" in self.features.split(",")
        return {"prefer-vector-width": "512"} if wide else {}


@cache
def host() -> Host:
    """The processor of this process."""
    disk, key = default_cache("host"), _key()
    if disk is None or key is None:
        return _described()
    stored = disk.load(key)
    if stored is not None:
        triple, cpu, features, version = json.loads(stored)
        return Host(triple, cpu, features, tuple(version))
    found = _described()
    disk.store(key, json.dumps(astuple(found)).encode())
    return found


def _described() -> Host:
    """What LLVM says."""
    llvm = engine()
    with lock:
        return Host(
            triple=llvm.get_process_triple(),
            cpu=llvm.get_host_cpu_name(),
            features=llvm.get_host_cpu_features().flatten(),
            llvm_version=tuple(llvm.llvm_version_info),
        )


def _key() -> str | None:
    """A digest of what decides the answer of LLVM; None where the system does not say."""
    version = _llvmlite_version()
    try:
        with _CPUINFO.open("rb", buffering=0) as file:
            # The first processor is enough, and the system writes down no more than is read.
            text = file.read(1 << 13).decode(errors="replace")
    except OSError:
        return None
    lines = text.split("\n\n")[0].splitlines()
    kept = [line for line in lines if line.split(":")[0].strip() in _FIELDS]
    if version is None or not kept:
        return None
    said = "\0".join((*Host.__slots__, *kept, version, platform.machine(), sys.platform))
    return hashlib.sha256(said.encode()).hexdigest()[:KEY_DIGITS]


def _llvmlite_version() -> str | None:
    """The version of llvmlite as its own file has it, which is not imported."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return None
    try:
        return Path(spec.origin).with_name("_version.py").read_text(encoding="utf-8")
    except OSError:
        return None
