"""Errors, settings, the disk cache, the host's processor, lazy imports. May import: nothing."""

import sys

if sys.platform != "linux":
    raise ImportError(
        f"kernelcore runs on Linux, found {sys.platform!r}\n"
        "  help: on Windows use the Windows Subsystem for Linux, on macOS a container of Linux"
    )
