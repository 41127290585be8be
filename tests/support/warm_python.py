"""Programs in processes of their own that need not import the package: forks of one process that has.

To start Python and import the package takes 0.35 s of a core, more than most programs of the tests take. A fork is a
process like any other: signals, threads, memory, descriptors and the interpreter's end are its own. A test of what
happens before or in those imports takes a fresh interpreter, by ``subprocess``.

The fork's garbage collections leave out what was imported; at the interpreter's end that saves 0.07 s.
``gc.unfreeze()`` puts it back.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any

__all__ = ["run_warm"]

#: What most programs import in the end: the package itself imports its modules when they are used.
IMPORTS = (
    "rich.console",
    "strand.command.cli",
    "strand.command.files",
    "strand.command.replay",
    "strand.dispatch.dispatcher",
    "strand.feeds.formats.csv.reader",
    "strand.feeds.formats.dbn",
    "strand.feeds.formats.parquet.reader",
    "strand.feeds.formats.websocket",
    "strand.feeds.sample",
    "strand.handlers.builtin",
)
MAXIMUM_BYTES = 100_000


def run_warm(
    *words: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: IO[Any] | bytes | None = None,
    stdout: IO[Any] | None = None,
    stderr: IO[Any] | None = None,
    imported: tuple[str, ...] = (),
    timeout: float = 100,
) -> subprocess.CompletedProcess[str]:
    """Returns the result of ``subprocess.run([sys.executable, *words], ...)`` for ``-c CODE``, ``-m MODULE`` or a
    script.

    ``stdin``: a file, or bytes, which come through a pipe. ``imported``: further modules that it finds imported. The
    limit is there for a program that hangs. Raises TimeoutExpired after ``timeout`` seconds.
    """
    command = [*map(str, words)]
    request = json.dumps([command, str(cwd or Path.cwd()), dict(os.environ if env is None else env)]).encode()
    assert len(request) < MAXIMUM_BYTES
    connection = _connection(imported)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with _standard_input(stdin) as taken:
            files = (taken, stdout or out, stderr or err)
            socket.send_fds(connection, [request], [file.fileno() for file in files])
        pid = int(connection.recv(100))
        connection.settimeout(timeout)
        try:
            status = int(connection.recv(100))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            connection.settimeout(None)
            connection.recv(100)
            raise subprocess.TimeoutExpired(command, timeout) from None
        connection.settimeout(None)
        out.seek(0)
        err.seek(0)
        said = out.read().decode(), err.read().decode()
    return subprocess.CompletedProcess(command, os.waitstatus_to_exitcode(status), *said)


@contextlib.contextmanager
def _standard_input(given: IO[Any] | bytes | None) -> Iterator[IO[Any]]:
    """A file as it is, an empty one, or the end of a pipe into which a thread writes the bytes."""
    if not isinstance(given, bytes):
        with tempfile.TemporaryFile() as none:
            yield given or none
        return
    reads, writes = os.pipe()

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), os.fdopen(writes, "wb") as end:
            end.write(given)

    threading.Thread(target=write, daemon=True).start()
    with os.fdopen(reads, "rb") as end:
        yield end


@cache
def _connection(imported: tuple[str, ...]) -> socket.socket:
    """To the process that forks, which is started with the first program of its kind."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), *imported],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(connection: socket.socket) -> list[str] | None:
    """The words of a program, in the process that is to run it; None in this one, after the last."""
    while True:
        request, files, _, _ = socket.recv_fds(connection, MAXIMUM_BYTES, 3)
        if not request:
            return None
        pid = os.fork()
        if not pid:
            words, cwd, environment = json.loads(request)
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            connection.close()
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(environment)
            found: list[str] = words
            return found
        for file in files:
            os.close(file)
        connection.send(str(pid).encode())
        connection.send(str(os.waitpid(pid, 0)[1]).encode())


def _run(words: list[str]) -> None:
    """As the interpreter would."""
    kind = words.pop(0) if words[0] in ("-c", "-m") else "script"
    sys.argv = [kind if kind == "-c" else words[0], *words[1:]]
    if not sys.flags.safe_path:
        sys.path[0] = {"-c": "", "-m": str(Path.cwd())}.get(kind, str(Path(words[0]).resolve().parent))
    if kind == "-m":
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if kind == "-c":
        exec(compile(words[0], "<string>", "exec"), main.__dict__)
    else:
        main.__file__ = words[0]
        exec(compile(Path(words[0]).read_bytes(), words[0], "exec"), main.__dict__)


if __name__ == "__main__":
    for name in (*IMPORTS, *sys.argv[2:]):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    program = _serve(socket.socket(fileno=int(sys.argv[1])))
    if program is not None:
        _run(program)
