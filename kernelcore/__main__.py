"""``python -m kernelcore``: what is installed, what kernels become, the cache."""

from __future__ import annotations

import argparse
import os
import platform
import runpy
import sys
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path

from kernelcore.base import native
from kernelcore.base.disk_cache import KEY_DIGITS, KINDS, default_cache
from kernelcore.base.errors import KernelError
from kernelcore.base.host import host
from kernelcore.compat.warp.port import port
from kernelcore.compiler import stages
from kernelcore.explain.report import explain
from kernelcore.launch.declare import OfKernel, as_kernel
from kernelcore.launch.kernel import Kernel


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    chosen = _parser().parse_args(arguments)
    try:
        match chosen.command:
            case "inspect":
                print(_kernel(chosen.kernel).inspect(chosen.stage, chosen.arch))
            case "explain":
                _explain(chosen.kernel, chosen.html)
            case "cache":
                _clear() if chosen.action == "clear" else _list()
            case "port":
                is_complete = port(Path(chosen.path), write=chosen.write, every_line=chosen.all)
                return 0 if is_complete else 1
            case _:
                _info()
    except KernelError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has what it wanted; Python must not write the rest when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kernelcore", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="versions, processor, threads, disk cache")
    inspect = commands.add_parser("inspect", help="one stage of the compiler's work on a kernel")
    inspect.add_argument("kernel", metavar="FILE:KERNEL", help="the kernel of that name in a file")
    inspect.add_argument("--stage", choices=stages.STAGES, default="ir")
    inspect.add_argument("--arch", metavar="sm_NN", help="the architecture of GPUs for --stage ptx")
    explain = commands.add_parser("explain", help="what a kernel compiles to, and why")
    explain.add_argument("kernel", metavar="FILE:KERNEL", help="the kernel of that name in a file")
    explain.add_argument("--html", metavar="FILE", help="write a page with IR and assembly instead")
    warp = commands.add_parser("port", help="what becomes of a program written for NVIDIA Warp")
    warp.add_argument("path", metavar="FILE|FOLDER", help="a file of Python, or a folder of such")
    warp.add_argument("--write", action="store_true", help="replace its imports of warp")
    warp.add_argument("--all", action="store_true", help="print the lines that run, too")
    cache = commands.add_parser("cache", help="the disk cache of machine code")
    cache.add_argument("action", choices=("ls", "clear"))
    return parser


def _info() -> None:
    target = host()
    llvm = ".".join(map(str, target.llvm_version))
    rows = {
        "kernelcore": metadata.version("kernelcore"),
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
        "llvmlite": f"{metadata.version('llvmlite')}, LLVM {llvm}",
        "target": f"{target.triple}, {target.cpu}",
        "threads": str(native.num_threads()),
        "cache": _cache_text(),
    }
    for name, text in rows.items():
        print(f"{name:12}{text}")


def _cache_text() -> str:
    cache = default_cache()
    if cache is None:
        return "off"
    sizes = [path.stat().st_size for path in cache.entries()]
    return f"{cache.directory}, {len(sizes)} kernels, {sum(sizes)} bytes"


def _explain(named: str, page: str | None) -> None:
    """Print the explanation of the kernel that ``named`` stands for, or write its page."""
    found = explain(_kernel(named))
    if page is None:
        print(found, end="")
    else:
        found.save(page)


def _kernel(named: str) -> Kernel:
    """The kernel that ``named``, as FILE:KERNEL, stands for.

    Raises:
        KernelError: There is no such file or kernel.
    """
    file, _, name = named.rpartition(":")
    if not os.path.isfile(file):
        raise KernelError(f"expected FILE:KERNEL, found '{named}': no file '{file}'")
    # As ``python FILE`` does, so that it finds the modules beside it.
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    found = runpy.run_path(file)
    kernels = sorted(name for name, value in found.items() if isinstance(value, (Kernel, OfKernel)))
    if name not in kernels:
        there_are = ", ".join(kernels) or "none"
        raise KernelError(f"no kernel '{name}' in {file}; there are {there_are}")
    return as_kernel(found[name])


def _list() -> None:
    cache = default_cache()
    for path in [] if cache is None else cache.entries():
        status = path.stat()
        changed = datetime.fromtimestamp(status.st_mtime).isoformat(" ", "seconds")
        print(f"{path.name[:KEY_DIGITS]}  {status.st_size:9} bytes  {changed}")


def _clear() -> None:
    removed = 0
    for kind in KINDS:
        cache = default_cache(kind)
        for path in [] if cache is None else cache.entries():
            os.unlink(path)
            removed += 1
    print(f"{removed} entries removed")


if __name__ == "__main__":
    sys.exit(main())
