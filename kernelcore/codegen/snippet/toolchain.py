"""The system's C++ compiler: finds it, compiles snippets, combines objects."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from kernelcore.base.errors import KernelCompileError, SrcLoc
from kernelcore.codegen.snippet import translation_unit
from kernelcore.ir.snippet import Snippet

COMPILERS = ("c++", "g++", "clang++")
# Results are those of the text as it is written: no contraction, no other freedom.
FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-w",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-exceptions",
    "-fno-strict-aliasing",
    "-fno-asynchronous-unwind-tables",
    "-fno-threadsafe-statics",
    "-fno-stack-protector",
)
_LINE = re.compile(rf"{re.escape(translation_unit.SNIPPET_FILE)}:(\d+)(?=:|,|$)", re.MULTILINE)


def find_compiler(needed_for: str) -> list[str]:
    """The command of the C++ compiler: $CXX, else the first of ``COMPILERS`` on the PATH.

    Raises:
        KernelCompileError: There is none.
    """
    try:
        chosen = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise KernelCompileError(
            f"{needed_for} needs a C++ compiler: expected the command of one in CXX, found "
            f"{os.environ['CXX']!r} ({error})",
            remedy='close the quotation, as in CXX="g++ -O2"',
        ) from None
    for command in ([chosen] if chosen else []) + [[name] for name in COMPILERS]:
        found = shutil.which(command[0])
        if found is not None:
            return [found, *command[1:]]
    looked = ", ".join([*([f"$CXX ({chosen[0]})"] if chosen else ["$CXX"]), *COMPILERS])
    raise KernelCompileError(
        f"{needed_for} needs a C++ compiler, and none was found: looked for {looked}",
        remedy="install g++ or clang++ (for example: apt install g++), or set CXX to a compiler",
    )


def compile_snippet(snippet: Snippet) -> bytes:
    """The relocatable object that defines ``native.symbol_of(snippet)``.

    Raises:
        KernelCompileError: There is no compiler, or it does not accept the text.
    """
    return _compiled(snippet, translation_unit.source(snippet))


# Equal snippets have equal text; where they were written does not count.
@lru_cache(maxsize=256)
def _compiled(snippet: Snippet, source: str) -> bytes:
    command = find_compiler(f"the native snippet of {snippet.name}()")
    with tempfile.TemporaryDirectory(prefix="kernelcore.") as directory:
        text, code = Path(directory, "snippet.cc"), Path(directory, "snippet.o")
        text.write_text(source, encoding="utf-8")
        done = _run([*command, *FLAGS, "-c", str(text), "-o", str(code)])
        if done.returncode != 0 or not code.exists():
            said = done.stderr or done.stdout
            if not said.strip():
                raise KernelCompileError(
                    f"the native snippet of {snippet}(): expected a C++ compiler, found "
                    f"{command[0]}, which ended with status {done.returncode} and no message",
                    snippet.loc,
                    "set CXX to a compiler of C++17, such as g++ or clang++",
                )
            raise rejected(snippet, command[0], said)
        return code.read_bytes()


def combine(objects: Sequence[bytes]) -> bytes:
    """One relocatable object with what is in ``objects``, which may refer to each other.

    Raises:
        KernelCompileError: There is no compiler, or it cannot link.
    """
    command = find_compiler("a kernel with native snippets")
    with tempfile.TemporaryDirectory(prefix="kernelcore.") as directory:
        paths = [Path(directory, f"{n}.o") for n in range(len(objects))]
        for path, code in zip(paths, objects, strict=True):
            path.write_bytes(code)
        combined = Path(directory, "combined.o")
        done = _run([*command, "-r", "-nostdlib", *map(str, paths), "-o", str(combined)])
        if done.returncode != 0 or not combined.exists():
            raise KernelCompileError(
                f"{command[0]} cannot combine a kernel with its native snippets:\n"
                f"{(done.stderr or done.stdout).strip()}",
                remedy="install the linker of the compiler (binutils or lld)",
            )
        return combined.read_bytes()


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    # Messages are shown to the user, and searched: they must not be translated.
    env = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    except OSError as error:
        raise KernelCompileError(
            f"cannot run the C++ compiler {command[0]}: {error}", remedy="set CXX to a compiler"
        ) from error


def rejected(snippet: Snippet, compiler: str, messages: str) -> KernelCompileError:
    """The error for a text that does not compile, at its first line that is at fault."""
    first = snippet.loc
    found = _LINE.search(messages)
    loc = None
    if first is not None and found is not None:
        line = first.line + int(found[1]) - 1
        loc = SrcLoc(first.file, line, 0, 1 << 16)

    def place(match: re.Match[str]) -> str:
        if first is None:
            return f"snippet of {snippet}:{match[1]}"
        return f"{first.file}:{first.line + int(match[1]) - 1}"

    return KernelCompileError(
        f"{Path(compiler).name} rejected the native snippet of {snippet}():\n"
        f"{_LINE.sub(place, messages).strip()}",
        loc,
        "see func_native() for what a snippet sees of its arguments",
    )
