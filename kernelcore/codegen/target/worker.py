"""A process that makes objects of LLVM text, for the process that started it.

Both ways go messages: 8 bytes of length, then the message. The worker says ``READY``, then answers
every text by ``DONE`` and the object or by ``FAILED`` and the reason. Nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from kernelcore.base.config import config
from kernelcore.base.errors import KernelCompileError
from kernelcore.base.host import host
from kernelcore.base.llvm import engine
from kernelcore.codegen.target.machine import object_code

READY, DONE, FAILED = b"r", b"d", b"f"
_LENGTH_BYTES = 8
_PACKAGE = str(Path(__file__).parents[2])
# Modules are those that this process finds, whatever lies in the folder where it runs. The package
# itself is left empty: what it imports takes longer than LLVM. An interruption is for the process
# that started the worker, which ends it.
_PROGRAM = """\
import sys
sys.path[:] = {path!r}
import signal, types
signal.signal(signal.SIGINT, signal.SIG_IGN)
package = sys.modules["kernelcore"] = types.ModuleType("kernelcore")
package.__path__ = [{package!r}]
from kernelcore.codegen.target.worker import main
main()
"""


def program() -> str:
    """What a worker runs."""
    path = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
    return _PROGRAM.format(path=path, package=_PACKAGE)


class Worker:
    """A compiler in a process of its own."""

    def __init__(self) -> None:
        """Start it.

        Raises:
            KernelCompileError: This Python cannot be started again.
        """
        # What "site" runs may print, and everything that it finds is in the path.
        command = [sys.executable or "python", "-S", "-c", program()]
        environment = {**os.environ, "KC_OPTIMIZE": str(int(config.optimize))}
        pipe = subprocess.PIPE
        try:
            # In a group of its own, which an interruption from the keyboard does not reach.
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, env=environment, process_group=0
            )
        except OSError as error:
            raise KernelCompileError(f"cannot start {command[0]}: {error}") from None
        self._is_ready = False

    def object_code(self, text: str) -> bytes:
        """The relocatable object of LLVM ``text`` for this host.

        Raises:
            KernelCompileError: LLVM does not accept ``text``, or the process has ended.
        """
        answer = None if self.has_ended else self._answer(text)
        if answer is None:
            status = self._process.wait()
            raise KernelCompileError(f"the process that compiled it {_ending(status)}")
        if answer[:1] == FAILED:
            raise KernelCompileError(answer[1:].decode())
        return answer[1:]

    def _answer(self, text: str) -> bytes | None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        if not self._is_ready:
            self._is_ready = _receive(stdout) == READY
        # That the process has ended is seen by the missing answer.
        with contextlib.suppress(OSError):
            _send(stdin, text.encode())
        return _receive(stdout) if self._is_ready else None

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """End the process; a thread that waits for an object gets an error."""
        self._process.kill()

    def close(self) -> None:
        """End the process, and release what this one has of it."""
        self.kill()
        self._process.communicate()


def _ending(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    # The system does so to processes that take too much memory.
    remedy = "; too many processes for the memory?" if -status == signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-status).name}{remedy}"


def main() -> None:
    """Answer texts until there are no more."""
    stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What anything else prints must not come between the messages.
    os.dup2(2, 1)
    target = host()
    engine()
    _send(stdout, READY)
    while (text := _receive(stdin)) is not None:
        try:
            _send(stdout, DONE + object_code(text.decode(), target))
        except KernelCompileError as error:
            _send(stdout, FAILED + str(error).encode())


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(_LENGTH_BYTES, "little") + message)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    """The next message; None at the end of the stream, also within a message."""
    length = stream.read(_LENGTH_BYTES)
    if len(length) < _LENGTH_BYTES:
        return None
    size_bytes = int.from_bytes(length, "little")
    message = stream.read(size_bytes)
    return message if len(message) == size_bytes else None
