"""NVRTC, NVIDIA's compiler of C++ for GPUs as a library: finds it, compiles snippets to PTX.

It comes with CUDA's toolkit and in the wheel nvidia-cuda-nvrtc, and needs neither GPU nor driver.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path

from kernelcore.base.errors import KernelCompileError
from kernelcore.codegen.snippet import toolchain, translation_unit
from kernelcore.ir.snippet import Snippet

# The newest first; 13 is the first that is no longer for GPUs older than those of kernels.
LIBRARIES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
# Results are those of the text as it is written, as on the CPU: no contraction.
OPTIONS = (
    "--std=c++17",
    "--device-as-default-execution-space",
    "--relocatable-device-code=true",
    "--fmad=false",
    "--disable-warnings",
)
# What NVRTC writes is PTX of its own version, which the driver may not know; as code of the oldest
# driver that kernels run on, what is newer is refused when it is loaded.
VERSION = (7, 4)
_LINE = re.compile(rf"{re.escape(translation_unit.SNIPPET_FILE)}\((\d+)\)")
_PREAMBLE = re.compile(r"^\.(version|target|address_size)[^\n]*\n", re.MULTILINE)
_VERSION = re.compile(r"^\.version (\d+)\.(\d+)", re.MULTILINE)
_EXTERNAL = re.compile(r"^\.extern \.func[^;]*?(\w+)\s*\([^;]*;\n", re.MULTILINE)


def link_snippets(ptx: str, snippets: Sequence[Snippet], architecture: str) -> str:
    """The PTX of a kernel with the functions ``snippets``, which it calls.

    Raises:
        KernelCompileError: There is no NVRTC, or it does not accept a text.
    """
    made = _PREAMBLE.sub("", _compiled(tuple(snippets), architecture))
    # The functions of snippets come first, and what they declare holds for the kernel.
    known = {translation_unit.symbol_of(s) for s in snippets} | {
        m[1] for m in _EXTERNAL.finditer(made)
    }
    ptx = _EXTERNAL.sub(lambda m: "" if m[1] in known else m[0], ptx)
    preamble, body = re.split(r"(?<=^\.address_size 64\n)", ptx, maxsplit=1, flags=re.MULTILINE)
    return _VERSION.sub(_raised, preamble) + made + body


def _raised(found: re.Match[str]) -> str:
    """The version of PTX of a kernel with snippets, whose own is that of NVRTC."""
    major, minor = max((int(found[1]), int(found[2])), VERSION)
    return f".version {major}.{minor}"


@lru_cache(maxsize=256)
def _compiled(snippets: tuple[Snippet, ...], architecture: str) -> str:
    library = _library(f"the native snippet of {snippets[0].name}() on a GPU")
    source = translation_unit.device_source(snippets)
    result, text = _compile(library, source, architecture)
    if result == 0:
        return text
    for snippet in snippets:
        result, message = _compile(library, translation_unit.device_source([snippet]), architecture)
        if result != 0:
            message = _LINE.sub(rf"{translation_unit.SNIPPET_FILE}:\1", message)
            raise toolchain.rejected(snippet, "NVRTC", message)
    raise KernelCompileError(
        f"NVRTC rejected the native snippets {', '.join(map(str, snippets))} together:\n{text}",
        remedy="give macros of different texts different names",
    )


def _compile(library: ctypes.CDLL, source: str, architecture: str) -> tuple[int, str]:
    """The result of NVRTC, and PTX if it is 0, else what is wrong."""
    program = ctypes.c_void_p()
    options = [*OPTIONS, f"--gpu-architecture=compute_{architecture.removeprefix('sm_')}"]
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    name = b"kernelcore.entry"
    made = library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name, 0, None, None)
    if made != 0:
        return made, f"nvrtcCreateProgram: error {made}"
    try:
        result = library.nvrtcCompileProgram(program, len(given), given)
        return result, _text(library, program, "PTX" if result == 0 else "ProgramLog")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.value.decode(errors="replace")


def _library(needed_for: str) -> ctypes.CDLL:
    """NVRTC, which is opened at the first call.

    Raises:
        KernelCompileError: There is none.
    """
    found = _opened()
    if found is None:
        raise KernelCompileError(
            f"{needed_for} needs NVRTC, and none was found: looked for {', '.join(LIBRARIES)} in "
            "the packages nvidia-cuda-nvrtc and where the system looks for libraries",
            remedy="pip install nvidia-cuda-nvrtc, of the major version of the driver's CUDA",
        )
    return found


@cache
def _opened() -> ctypes.CDLL | None:
    for path in _paths():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def _paths() -> Iterator[str]:
    """Where NVRTC may be: what the system finds, then packages of NVIDIA's."""
    yield from LIBRARIES
    spec = importlib.util.find_spec("nvidia")
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        for name in LIBRARIES:
            yield from map(str, sorted(Path(folder).glob(f"*/lib/{name}")))
