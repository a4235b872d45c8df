"""The machine and the programs that figures were taken with."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

PACKAGES = ("kernelcore", "numpy", "llvmlite", "warp-lang", "numba", "torch", "jax")
_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def description() -> dict[str, str]:
    """Names and values, in the order in which they are shown."""
    found = {
        "processor": _processor(),
        "processors": str(os.cpu_count()),
        "caches": _caches(),
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "python": platform.python_version(),
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }
    installed = {d.metadata["Name"].lower(): d.version for d in metadata.distributions()}
    return found | {name: installed[name] for name in PACKAGES if name in installed}


def _processor() -> str:
    if not _CPUINFO.exists():
        return platform.processor()
    rows = [line.split(":", 1) for line in _CPUINFO.read_text().split("\n\n")[0].splitlines()]
    known = {row[0].strip(): row[1].strip() for row in rows if len(row) == 2}
    numbers = [f"{n} {known[n]}" for n in ("cpu family", "model", "stepping") if n in known]
    return ", ".join([known.get("model name", platform.machine()), *numbers])


def _caches() -> str:
    """The caches that the first processor uses, with their sizes."""
    found: list[str] = []
    for index in sorted(_CACHES.glob("index*")):
        level, kind, size = ((index / n).read_text().strip() for n in ("level", "type", "size"))
        found.append(f"L{level} {kind.lower()} {size}")
    return ", ".join(found) or "unknown"
